"""What happens to PostgreSQL's slots, publications and roles. The table goes on behind `scenarios.py`."""

from __future__ import annotations

import json
import sys

from tests.faults.postgres_stage import PostgresStage
from tests.faults.scenarios import Scenarios
from tests.faults.stage import ROLE, pause

from headwater.testing import wait_until

POSTGRES = Scenarios()
scenario = POSTGRES.add


@scenario("is gone", "load the tables anew", slow=True)
def slot_dropped(stage: PostgresStage) -> None:
    stage.stop()
    stage.execute("select pg_drop_replication_slot(%s)", stage.database.slot)


@scenario("does not exist any more", "load the tables anew", slow=True)
def slot_dropped_under_a_running_pipeline(stage: PostgresStage) -> None:
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
def slot_dropped_and_made_again(stage: PostgresStage) -> None:
    stage.stop()
    stage.honest = False
    stage.execute("select pg_drop_replication_slot(%s)", stage.database.slot)
    pause(0.3)
    stage.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", stage.database.slot)


@scenario("ahead of the last durable position", "Someone advanced or recreated it", slow=True)
def slot_advanced_by_hand(stage: PostgresStage) -> None:
    stage.stop()
    stage.honest = False
    pause(0.3)
    stage.execute("select pg_replication_slot_advance(%s, pg_current_wal_flush_lsn())", stage.database.slot)


@scenario("is lost", "max_slot_wal_keep_size", slow=True)
def slot_invalidated(stage: PostgresStage) -> None:
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
def publication_dropped_and_made_again(stage: PostgresStage) -> None:
    stage.stop()
    # What was committed before may still be delivered.
    stage.gap = stage.end()
    stage.execute("drop publication headwater_shop")
    pause(0.5)
    stage.execute("create publication headwater_shop for table public.orders, public.ledger")


def widen_and_load_anew(stage: PostgresStage) -> None:
    stage.execute("alter publication headwater_shop set (publish = 'insert, update, delete, truncate')")
    stage.load_anew()


@scenario("leaves out every update", "headwater_shop", remedy=widen_and_load_anew, slow=True)
def publication_narrowed(stage: PostgresStage) -> None:
    stage.execute("alter publication headwater_shop set (publish = 'insert')")
    stage.gap = stage.end()


@scenario("leaves out public.ledger", "add table", slow=True)
def table_taken_out_of_the_publication(stage: PostgresStage) -> None:
    """The log says nothing about it: the other table goes on until somebody looks, ten seconds later."""
    stage.execute("alter publication headwater_shop drop table public.ledger")
    stage.gap = sys.maxsize


def use_the_new_password(stage: PostgresStage) -> None:
    stage.use(url=stage.url("another"))


@scenario("password", "source", status=2, remedy=use_the_new_password)
def password_rotated(stage: PostgresStage) -> None:
    """Whoever is connected stays so; the next connection is refused."""
    stage.execute(f"alter role {ROLE} password 'another'")
    stage.proxy.cut()


def give_replication_back(stage: PostgresStage) -> None:
    stage.execute(f"alter role {ROLE} replication")


@scenario("replication", status=2, remedy=give_replication_back, slow=True)
def role_loses_replication(stage: PostgresStage) -> None:
    stage.execute(f"alter role {ROLE} noreplication")
    stage.proxy.cut()


@scenario(slow=True)
def role_loses_select_while_streaming(stage: PostgresStage) -> None:
    """The log needs no SELECT; a snapshot would."""
    stage.execute(f"revoke select on public.orders from {ROLE}")
    stage.batches(1)
    stage.execute(f"grant select on public.orders to {ROLE}")


@scenario(slow=True)
def walsender_left_by_a_dead_client(stage: PostgresStage) -> None:
    """The server believes in our connection until its wal_sender_timeout; the pipeline waits it out."""
    stage.proxy.strand()
    stage.pipeline.kill_tail()
    stage.pipeline.wait_ready(150)


def mend_the_sink(stage: PostgresStage) -> None:
    (stage.pipeline.state / "sink_fault.json").unlink()


@scenario("public.orders: the record of commit", "exclude", remedy=mend_the_sink, slow=True)
def sink_refuses_one_record(stage: PostgresStage) -> None:
    (stage.pipeline.state / "sink_fault.json").write_text(json.dumps({"reject": {"customer": "poison"}}))
    stage.execute("insert into public.orders (id, customer) values (-1, 'poison')")


@scenario(slow=True)
def journal_at_its_cap(stage: PostgresStage) -> None:
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


@scenario("history", slow=True)
def server_restored_from_an_older_backup(stage: PostgresStage) -> None:
    """Its log ends before what we hold: going on would mix two histories."""
    stage.stop()
    stage.backup()
    stage.pipeline.start()
    stage.batches(3)
    stage.stop()
    stage.restore()


@scenario("has no transaction that commits at", "another history", slow=True)
def server_restored_that_went_on(stage: PostgresStage) -> None:
    """Its log is longer than what we hold, on the same timeline; only the transactions are others."""
    server_restored_from_an_older_backup(stage)
    held = max(position.commit for position in stage.positions().values() if position)
    wait_until(lambda: stage.end() > held + (1 << 20), 120, "the restored server has written more than we have read")
