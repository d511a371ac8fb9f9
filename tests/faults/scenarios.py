"""What happens to a pipeline in real life, as a table. `stage.py` says how each must end."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from tests.faults.stage import ROLE, Stage, pause

from headwater.testing import wait_until
from headwater.testing.pipeline import PipelineProcess


@dataclass(frozen=True)
class Scenario:
    """One fault while the load goes on. With `says` it must end by rule E, without by rule Z."""

    name: str
    fault: Callable[[Stage], None]
    says: tuple[str, ...] = ()
    status: int = 3
    remedy: Callable[[Stage], None] = Stage.load_anew
    # Not in `make test`, only in `make faults`.
    slow: bool = False
    # Started by the scenario itself, not before it.
    cold: bool = False


SCENARIOS: list[Scenario] = []


def scenario(
    *says: str,
    status: int = 3,
    remedy: Callable[[Stage], None] = Stage.load_anew,
    slow: bool = False,
    cold: bool = False,
) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Put a function into the table."""

    def add(fault: Callable[[Stage], None]) -> Callable[[Stage], None]:
        SCENARIOS.append(Scenario(fault.__name__, fault, says, status, remedy, slow, cold))
        return fault

    return add


def nothing(_stage: Stage) -> None:
    """The remedy is to start again."""


# -- processes that die ------------------------------------------------------------------------------


@scenario(cold=True)
def killed_at_failpoints(stage: Stage) -> None:
    """In a snapshot, between sink commit and position, between position and confirm; then the tail, again and again."""
    kill_the_driver(stage, "snapshot.before_load=kill@2", "sink.before_advance=kill@3", "consumer.after_set=kill@3")
    kill_the_tail(stage, "journal.after_append=kill@5,tail.before_confirm=kill@2")


@scenario(cold=True, slow=True)
def killed_at_the_other_failpoints(stage: Stage) -> None:
    kill_the_driver(stage, "snapshot.after_load=kill", "sink.after_write=kill@2", "sink.after_advance=kill@2")
    kill_the_tail(stage, "tail.after_confirm=kill@2,journal.after_fsync=kill@3", "journal.before_fsync=kill@2")


def kill_the_driver(stage: Stage, *failpoints: str) -> None:
    for each in failpoints:
        stage.pipeline.start(failpoints=each)
        assert stage.pipeline.wait(90) < 0, stage.pipeline.output()[-3000:]


def kill_the_tail(stage: Stage, *failpoints: str) -> None:
    """It dies again and again, and is replaced each time."""
    for each in failpoints:
        stage.pipeline.start(failpoints=each)
        stage.batches(2)
        assert stage.pipeline.running(), stage.pipeline.output()[-3000:]
        stage.pipeline.kill()


@scenario(slow=True)
def tail_and_driver_killed_at_random(stage: Stage) -> None:
    for _ in range(2):
        pause(stage.chance.uniform(0, 0.5))
        stage.pipeline.kill_tail()
        stage.batches(1)
    pause(stage.chance.uniform(0, 0.5))
    stage.pipeline.kill()


@scenario(slow=True)
def two_runs_at_once(stage: Stage) -> None:
    """The second one stops and says who has the state; the first does not notice."""
    second = PipelineProcess.__new__(PipelineProcess)
    second.__dict__ |= stage.pipeline.__dict__ | {"log": stage.directory / "second.log", "_process": None}
    assert second.available_now() == 3
    assert "is in use by process" in second.output()
    stage.batches(1)


# -- the server --------------------------------------------------------------------------------------


@scenario()
def server_restarted_immediately(stage: Stage) -> None:
    stage.server.restart("immediate")
    stage.pipeline.wait_ready()


@scenario(slow=True)
def server_killed(stage: Stage) -> None:
    """A power cut: the slot may go back and send what was confirmed again."""
    for _ in range(2):
        stage.server.kill()
        stage.server.start()
        stage.pipeline.wait_ready()
        stage.batches(1)


@scenario("is gone", "load the tables anew", slow=True)
def slot_dropped(stage: Stage) -> None:
    stage.stop()
    stage.execute("select pg_drop_replication_slot(%s)", stage.database.slot)


@scenario("does not exist any more", "load the tables anew", slow=True)
def slot_dropped_under_a_running_pipeline(stage: Stage) -> None:
    def dropped() -> bool:
        try:
            stage.execute(
                "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = %s and active",
                stage.database.slot,
            )
            stage.execute("select pg_drop_replication_slot(%s)", stage.database.slot)
        except Exception:
            return False
        return True

    wait_until(dropped, 30, "the slot is dropped")


@scenario("ahead of the last durable position", "load the tables anew", slow=True)
def slot_dropped_and_made_again(stage: Stage) -> None:
    stage.stop()
    stage.honest = False
    stage.execute("select pg_drop_replication_slot(%s)", stage.database.slot)
    pause(0.3)
    stage.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", stage.database.slot)


@scenario("ahead of the last durable position", "Someone advanced or recreated it", slow=True)
def slot_advanced_by_hand(stage: Stage) -> None:
    stage.stop()
    stage.honest = False
    pause(0.3)
    stage.execute("select pg_replication_slot_advance(%s, pg_current_wal_flush_lsn())", stage.database.slot)


@scenario("is lost", "max_slot_wal_keep_size", slow=True)
def slot_invalidated(stage: Stage) -> None:
    stage.stop()
    stage.execute("alter system set max_slot_wal_keep_size = '1MB'")
    stage.execute("select pg_reload_conf()")
    status = "select wal_status from pg_replication_slots where slot_name = %s"

    def lost() -> bool:
        stage.execute("create table if not exists filler (v text)")
        stage.execute("insert into filler select repeat('x', 1000) from generate_series(1, 20000)")
        stage.execute("select pg_switch_wal()")
        stage.execute("checkpoint")
        return stage.execute(status, stage.database.slot) == [("lost",)]

    try:
        wait_until(lost, 60, "the slot is lost")
    finally:
        stage.execute("drop table if exists filler")
        stage.execute("alter system reset max_slot_wal_keep_size")
        stage.execute("select pg_reload_conf()")


@scenario("publication", "does not exist at the point", slow=True)
def publication_dropped_and_made_again(stage: Stage) -> None:
    stage.stop()
    # What was committed before may still be delivered.
    stage.gap = stage.end()
    stage.execute("drop publication headwater_shop")
    pause(0.5)
    stage.execute("create publication headwater_shop for table public.orders, public.ledger")


def widen_and_load_anew(stage: Stage) -> None:
    stage.execute("alter publication headwater_shop set (publish = 'insert, update, delete, truncate')")
    stage.load_anew()


@scenario("leaves out every update", "headwater_shop", remedy=widen_and_load_anew, slow=True)
def publication_narrowed(stage: Stage) -> None:
    stage.execute("alter publication headwater_shop set (publish = 'insert')")
    stage.gap = stage.end()


@scenario("leaves out public.ledger", "add table", slow=True)
def table_taken_out_of_the_publication(stage: Stage) -> None:
    """The log says nothing about it: the other table goes on until somebody looks, ten seconds later."""
    stage.execute("alter publication headwater_shop drop table public.ledger")
    stage.gap = sys.maxsize


def use_the_new_password(stage: Stage) -> None:
    stage.use(url=stage.url("another"))


@scenario("password", "source", status=2, remedy=use_the_new_password)
def password_rotated(stage: Stage) -> None:
    """Whoever is connected stays so; the next connection is refused."""
    stage.execute(f"alter role {ROLE} password 'another'")
    stage.proxy.cut()


def give_replication_back(stage: Stage) -> None:
    stage.execute(f"alter role {ROLE} replication")


@scenario("replication", status=2, remedy=give_replication_back, slow=True)
def role_loses_replication(stage: Stage) -> None:
    stage.execute(f"alter role {ROLE} noreplication")
    stage.proxy.cut()


@scenario(slow=True)
def role_loses_select_while_streaming(stage: Stage) -> None:
    """The log needs no SELECT; a snapshot would."""
    stage.execute(f"revoke select on public.orders from {ROLE}")
    stage.batches(1)
    stage.execute(f"grant select on public.orders to {ROLE}")


# -- the network -------------------------------------------------------------------------------------


@scenario()
def network_cut_and_flapping(stage: Stage) -> None:
    for _ in range(4):
        stage.proxy.cut()
        pause(stage.chance.uniform(0.05, 0.7))
    stage.pipeline.wait_ready()


@scenario(slow=True)
def network_gone_for_a_while(stage: Stage) -> None:
    """Not ready meanwhile, and ready by itself afterwards."""
    stage.proxy.refuse = True
    stage.proxy.cut()
    wait_until(lambda: not stage.pipeline.report().ready, 30, "the status says that the server is away")
    stage.proxy.refuse = False
    stage.pipeline.wait_ready()


@scenario(slow=True)
def half_open_for_thirty_seconds(stage: Stage) -> None:
    """Nothing is refused and nothing comes: the status says so before the connection is given up."""
    stage.proxy.hold()
    silent = "the server has not answered"
    wait_until(lambda: silent in str(stage.pipeline.report().reasons), 30, "the status says that the server is silent")
    pause(20)
    stage.proxy.release()


@scenario(slow=True)
def two_seconds_of_latency(stage: Stage) -> None:
    stage.proxy.latency = 2.0
    stage.batches(2)
    stage.proxy.latency = 0.0


@scenario(slow=True)
def walsender_left_by_a_dead_client(stage: Stage) -> None:
    """The server believes in our connection until its wal_sender_timeout; the pipeline waits it out."""
    stage.proxy.strand()
    stage.pipeline.kill_tail()
    stage.pipeline.wait_ready(150)


# -- state, sinks, machine ---------------------------------------------------------------------------


@scenario("journal.json", "is damaged", "the tables in the lake", slow=True)
def state_file_zeroed(stage: Stage) -> None:
    stage.stop()
    file = stage.pipeline.state / "journal" / "journal.json"
    file.write_bytes(b"\0" * file.stat().st_size)


@scenario("is damaged", "consumers", slow=True)
def state_file_truncated(stage: Stage) -> None:
    stage.stop()
    (file,) = (stage.pipeline.state / "journal" / "consumers").glob("delta.json")
    file.write_text(file.read_text()[:20])


@scenario("belongs to another log", "state folder of its own", slow=True)
def state_of_another_pipeline(stage: Stage) -> None:
    stage.stop()
    file = stage.pipeline.state / "journal" / "journal.json"
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "identity": told["identity"] + "_other"}))


@scenario("has format 99", "Upgrade headwater", slow=True)
def state_of_a_newer_version(stage: Stage) -> None:
    stage.stop()
    file = stage.pipeline.state / "journal" / "journal.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 99}))


@scenario("position cannot be read", slow=True)
def sink_position_truncated(stage: Stage) -> None:
    stage.stop()
    (file,) = (stage.lake / "_headwater").glob("*.json")
    file.write_text(file.read_text()[:15])


@scenario()
def sink_down_then_slow(stage: Stage) -> None:
    fault = stage.pipeline.state / "sink_fault.json"
    fault.write_text('{"down": true}')
    wait_until(lambda: not stage.pipeline.report().ready, 30, "the status says that the sink is down")
    before = stage.positions()
    pause(1)
    assert stage.positions() == before
    fault.write_text('{"seconds": 0.3}')
    stage.batches(2)
    fault.unlink()


def mend_the_sink(stage: Stage) -> None:
    (stage.pipeline.state / "sink_fault.json").unlink()


@scenario("public.orders: the record of commit", "exclude", remedy=mend_the_sink, slow=True)
def sink_refuses_one_record(stage: Stage) -> None:
    (stage.pipeline.state / "sink_fault.json").write_text(json.dumps({"reject": {"customer": "poison"}}))
    stage.execute("insert into public.orders (id, customer) values (-1, 'poison')")


@scenario(slow=True)
def journal_at_its_cap(stage: Stage) -> None:
    """The tail waits, says so, and goes on when the sink has."""
    stage.stop()
    told = stage.pipeline.file.read_text()
    stage.pipeline.file.write_text(told + "journal_max_bytes: 24000000\n")
    (stage.pipeline.state / "sink_fault.json").write_text('{"down": true}')
    stage.pipeline.start()
    fill = "insert into public.orders (id, customer, note) select g, 'filler', repeat(md5(g::text), 250) from"

    def full() -> bool:
        base = 10**15 + stage.chance.randrange(10**12) * 100
        stage.execute(f"{fill} generate_series({base}::bigint, {base + 199}::bigint) g")
        return stage.pipeline.journal.status().get("state") == "full"

    wait_until(full, 60, "the journal is full", interval=0.1)
    assert not stage.pipeline.report().ready
    (stage.pipeline.state / "sink_fault.json").unlink()
    stage.pipeline.wait_ready()


@scenario(slow=True, cold=True)
def disk_of_the_journal_full(stage: Stage) -> None:
    """The tail leaves the last of the disk to others, says so, and goes on when there is room."""
    stage.mount(stage.pipeline.state, megabytes=300)
    stage.pipeline.start()
    stage.pipeline.wait_ready()
    filler = stage.pipeline.state / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 60 << 20)
    wait_until(lambda: "less than 256 MB free" in str(stage.pipeline.report().reasons), 60, "the disk is full")
    filler.unlink()
    stage.pipeline.wait_ready()


@scenario(slow=True, cold=True)
def clock_jumps(stage: Stage) -> None:
    """An hour forwards and two back, in every Python process of the pipeline."""
    offset = stage.directory / "offset"
    offset.write_text("0")
    (stage.directory / "sitecustomize.py").write_text(
        "import pathlib, time\n"
        f"file, real, real_ns = pathlib.Path({str(offset)!r}), time.time, time.time_ns\n"
        "def jump(): return float(file.read_text() or 0)\n"
        "time.time = lambda: real() + jump()\n"
        "time.time_ns = lambda: real_ns() + int(jump() * 1e9)\n"
    )
    path = os.pathsep.join([str(stage.directory), os.environ.get("PYTHONPATH", "")])
    stage.pipeline.start(PYTHONPATH=path)
    stage.batches(1)
    for seconds in ("3600", "-3600"):
        offset.write_text(seconds)
        stage.batches(2)
    offset.write_text("0")
    stage.pipeline.kill()


@scenario("history", slow=True)
def server_restored_from_an_older_backup(stage: Stage) -> None:
    """Its log ends before what we hold: going on would mix two histories."""
    stage.stop()
    stage.backup()
    stage.pipeline.start()
    stage.batches(3)
    stage.stop()
    stage.restore()


@scenario("has no transaction that commits at", "another history", slow=True)
def server_restored_that_went_on(stage: Stage) -> None:
    """Its log is longer than what we hold, on the same timeline; only the transactions are others."""
    server_restored_from_an_older_backup(stage)
    held = max(position.commit for position in stage.positions().values() if position)
    wait_until(lambda: stage.end() > held + (1 << 20), 120, "the restored server has written more than we have read")


PARAMETERS = [pytest.param(each, id=each.name, marks=[pytest.mark.slow] if each.slow else []) for each in SCENARIOS]
