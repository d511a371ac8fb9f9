"""A primary and its standby: the slot goes over, the standby decodes, another history is refused."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import Database
from tests.integration.list_pipeline import Pipeline, insert
from tests.integration.postgres_source import make_source

from headwater.errors import Stop, Usage
from headwater.journal.file_writer import FileWriter
from headwater.journal.folder import FolderStorage
from headwater.sources.postgres import log as log_module
from headwater.sources.postgres.history import known_timeline
from headwater.sources.postgres.position import format_lsn
from headwater.tail import loop
from headwater.testing import PostgresServer, wait_until

pytestmark = pytest.mark.server

NAME = "shop"


@pytest.fixture
def servers(postgres: PostgresServer, tmp_path: Path) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A primary and a streaming standby, of the version under test."""
    if int(postgres.execute("show server_version_num")[0][0]) < 170000:
        pytest.skip("failover slots came with PostgreSQL 17")
    with PostgresServer(bindir=postgres._bindir) as primary:
        primary.create_database(NAME)
        primary.execute("create table t (id int primary key)", database=NAME)
        primary.execute("select pg_create_physical_replication_slot('standby')")
        primary.stop()
        standby = PostgresServer(
            bindir=postgres._bindir,
            settings={
                "primary_conninfo": f"host=127.0.0.1 port={primary.port} user=postgres dbname=postgres",
                "primary_slot_name": "standby",
                "hot_standby_feedback": "on",
                "sync_replication_slots": "on",
                "wal_receiver_status_interval": "1",
            },
            directory=(folder := primary.directory.with_name(primary.directory.name + "-standby")),
        )
        shutil.copytree(primary.data, folder / "data")
        owner = primary.data.stat()
        (folder / "data" / "standby.signal").touch()
        for path in (folder, folder / "data", *(folder / "data").rglob("*")):
            shutil.chown(path, owner.st_uid, owner.st_gid)
        primary.start()
        try:
            with standby:
                yield primary, standby
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FolderStorage, "pace", 0.01)
    monkeypatch.setattr(loop, "READ_SECONDS", 0.02)
    monkeypatch.setattr(FileWriter, "sync_seconds", 0.02)
    monkeypatch.setattr(log_module, "PING_SECONDS", 0.05)
    monkeypatch.setattr(log_module, "VERIFY_SECONDS", 0.2)


def replayed(primary: PostgresServer, standby: PostgresServer) -> bool:
    upto = primary.execute("select pg_current_wal_lsn()::text")[0][0]
    return bool(standby.execute("select pg_last_wal_replay_lsn() >= %s::pg_lsn", upto)[0][0])


def test_the_slot_goes_over_to_the_promoted_standby(servers, tmp_path: Path):
    primary, standby = servers
    pipeline = Pipeline(Database(primary, NAME), tmp_path, slot_failover=True)
    pipeline.run(lambda: pipeline.position is not None)
    insert(pipeline.database, 1, 2, 3)
    pipeline.run(lambda: pipeline.delivered == [1, 2, 3] and pipeline.caught_up())
    assert primary.execute("select failover from pg_replication_slots where slot_name = %s", NAME) == [(True,)]
    assert known_timeline(pipeline.journal.source) == 1
    gone_over = (
        "select not temporary and confirmed_flush_lsn >= %s::pg_lsn from pg_replication_slots where slot_name = %s"
    )
    told = format_lsn(pipeline.confirmed)
    # A standby takes a slot over once the primary's has moved on from where the standby found it.
    pipeline.options |= {"heartbeat_interval_ms": 100, "heartbeat_action_query": "select pg_log_standby_snapshot()"}
    pipeline.run(lambda: standby.execute(gone_over, told, NAME) == [(True,)])
    wait_until(lambda: replayed(primary, standby), 30, "replayed")
    primary.stop("immediate")
    standby.execute("select pg_promote()")

    pipeline.database = Database(standby, NAME)
    insert(pipeline.database, 4)
    assert pipeline.run(lambda: 4 in pipeline.delivered) == [4]
    assert known_timeline(pipeline.journal.source) == 2
    assert pipeline.gaps() == []


def test_a_standby_that_lacks_what_was_delivered_is_another_history(servers, tmp_path: Path):
    primary, standby = servers
    pipeline = Pipeline(Database(primary, NAME), tmp_path)
    pipeline.run(lambda: pipeline.position is not None)
    insert(pipeline.database, 1)
    pipeline.run(lambda: pipeline.delivered == [1])
    wait_until(lambda: replayed(primary, standby), 30, "replayed")
    standby.stop()
    insert(pipeline.database, 2)
    pipeline.run(lambda: pipeline.delivered == [1, 2] and pipeline.caught_up())
    primary.stop("immediate")
    standby.start()
    standby.execute("select pg_promote()")
    standby.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", NAME, database=NAME)

    pipeline.database = Database(standby, NAME)
    # Long enough that its log is longer than ours ever was: the addresses alone tell nothing.
    insert(pipeline.database, *range(3, 60))
    with pytest.raises(Stop, match="left timeline 1 at") as stopped:
        pipeline.run(lambda: False, offset_mismatch_strategy="trust_slot")
    assert stopped.value.exit_status == 3
    assert pipeline.delivered == [1, 2]


def test_a_standby_is_read_and_read_on_after_its_promotion(servers, tmp_path: Path):
    primary, standby = servers
    database = Database(standby, NAME)
    pipeline = Pipeline(database, tmp_path)
    wait_until(lambda: replayed(primary, standby), 30, "replayed")
    with pytest.raises(Usage, match="cannot be changed on a standby") as refused:
        pipeline.run(lambda: False)
    assert "Run on the primary: create publication" in str(refused.value)
    primary.execute("create publication pub for table t", database=NAME)
    wait_until(lambda: replayed(primary, standby), 30, "replayed")

    # A slot on a standby is made at the primary's next word about its running transactions.
    made = threading.Event()

    def talk() -> None:
        while not made.wait(0.2):
            primary.execute("select pg_log_standby_snapshot()")

    talking = threading.Thread(target=talk)
    talking.start()
    try:
        source = make_source(database)
        source.prepare(None)
        source.close()
    finally:
        made.set()
        talking.join()
    pipeline.run(lambda: pipeline.position is not None)
    insert(Database(primary, NAME), 1, 2)

    def until() -> bool:
        if pipeline.delivered == [1, 2] and primary.running:
            primary.stop("immediate")
            standby.execute("select pg_promote()")
            insert(database, 3)
        return 3 in pipeline.delivered and known_timeline(pipeline.journal.source) == 2

    assert pipeline.run(until) == [1, 2, 3]
    insert(database, 4)
    assert pipeline.run(lambda: 4 in pipeline.delivered) == [4]
