"""Machines that share a journal and no folder: each side of a pipeline dies and comes back."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Database
from tests.lake import assert_lake_equals_source, lake_rows

from headwater.testing import wait_until
from headwater.testing.pipeline import PipelineProcess


class Hosts:
    """Machines that share nothing but the database, the store, and the text of the pipeline's file."""

    def __init__(self, database: Database, folder: Path, journal: str) -> None:
        self.database = database
        self.folder = folder
        self.definition = {
            "source": {"type": "postgres", "url": database.url, "slot": database.slot},
            "journal": journal,
            "journal_seal_ms": 100,
        }
        self.processes: list[PipelineProcess] = []

    def host(self, name: str, *, spark: bool = False) -> PipelineProcess:
        (self.folder / name).mkdir()
        self.processes.append(PipelineProcess(self.folder / name, self.definition, spark=spark))
        return self.processes[-1]

    def close(self) -> None:
        for process in self.processes:
            process.close()


def fill(database: Database, first: int, last: int) -> None:
    database.execute("insert into t select g, repeat('x', 200) from generate_series(%s::int, %s::int) g", first, last)


def wait_for(run: PipelineProcess, key: int) -> None:
    wait_until(
        lambda: run.running() and any(row["id"] == key for row in lake_rows(run.lake, "public.t")),
        90,
        lambda: run.output()[-2000:],
    )


def either_side_dies(hosts: Hosts, secret: str) -> None:
    """Nothing is lost or doubled, what the sinks hold is confirmed, a second tail is refused."""
    database = hosts.database
    database.execute("create table t (id int primary key, body text)")
    fill(database, 1, 100)
    tail, run = hosts.host("reader"), hosts.host("writer")
    tail.start("--tail-only")
    wait_until(lambda: "waiting for" in tail.output(), 60, "the tail waits for the run")
    run.start("--no-tail")
    run.wait_ready()
    fill(database, 101, 200)
    wait_for(run, 200)
    assert not (run.state / "journal" / "segments").exists()
    assert not (tail.state / "journal" / "segments").exists()

    # The sinks' side dies in the middle, then the tail's own process, then its whole machine.
    run.kill()
    fill(database, 201, 5000)
    run.start("--no-tail")
    database.execute("update t set body = 'changed' where id % 3 = 0")
    assert tail.kill_tail()
    fill(database, 5001, 6000)
    wait_for(run, 6000)
    tail.close()
    database.execute("delete from t where id % 5 = 0")
    fill(database, 10_000, 10_001)
    wait_until(lambda: run.report().source.state == "dead", 60, "the run knows that there is no tail")
    tail.start("--tail-only")
    wait_for(run, 10_001)
    run.wait_ready()
    assert_lake_equals_source(database, run.lake, ["public.t"])

    # What the sinks hold is confirmed to the database, by another machine.
    confirmed = "select confirmed_flush_lsn >= %s::pg_lsn from pg_replication_slots where slot_name = %s"
    here = database.execute("select pg_current_wal_lsn()::text")[0][0]
    fill(database, 20_000, 20_000)
    wait_until(lambda: database.execute(confirmed, here, database.slot) == [(True,)], 60, "the slot follows")

    # A second tail is refused, and the first one does not notice.
    second = hosts.host("second")
    second.start("--tail-only")
    assert second.wait(90) == 3
    assert f"another tail writes the journal in {hosts.definition['journal']}" in second.output()
    fill(database, 30_000, 30_000)
    wait_for(run, 30_000)
    assert run.stop() == 0
    assert tail.stop() == 0
    assert_lake_equals_source(database, run.lake, ["public.t"])
    assert secret not in run.output() + tail.output() + second.output()
