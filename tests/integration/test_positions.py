"""Two memories: what the sinks hold and what the slot has confirmed. Every way they can disagree, on a real server."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
from tests.conftest import Database
from tests.integration.list_pipeline import Pipeline, insert
from tests.integration.postgres_source import make_source

from headwater.errors import Stop
from headwater.journal.file_writer import FileWriter
from headwater.journal.folder import FolderStorage
from headwater.sources.postgres import log as log_module
from headwater.sources.postgres.agreement import SlotAhead
from headwater.sources.postgres.position import flush_lsn, parse_lsn
from headwater.tail import loop

pytestmark = pytest.mark.server

ACCEPTING = ("trust_slot", "trust_greater_lsn", "no_validation")
ALL = ("fail", "trust_offset", *ACCEPTING)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FolderStorage, "pace", 0.01)
    monkeypatch.setattr(loop, "READ_SECONDS", 0.02)
    monkeypatch.setattr(FileWriter, "sync_seconds", 0.02)
    monkeypatch.setattr(log_module, "PING_SECONDS", 0.05)


@pytest.fixture
def pipeline(database: Database, tmp_path: Path) -> Pipeline:
    """Three rows delivered and confirmed, and everything stopped."""
    database.execute("create table t (id int primary key); create table other (v text)")
    made = Pipeline(database, tmp_path, tables="public.t")
    made.run(lambda: made.position is not None)
    insert(database, 1, 2, 3)
    made.run(lambda: made.delivered == [1, 2, 3] and made.caught_up())
    return made


def advance(database: Database) -> None:
    """What an operator does to get over WAL that cannot be read."""
    database.execute("select pg_replication_slot_advance(%s, pg_current_wal_lsn())", database.name)


# -- the five rows: how the two come to disagree, and what each strategy makes of it -----------------------------


def test_after_a_clean_run(pipeline: Pipeline):
    for n, strategy in enumerate(ALL, 4):
        insert(pipeline.database, n)
        assert pipeline.run(lambda n=n: n in pipeline.delivered, offset_mismatch_strategy=strategy) == [n]
    assert pipeline.gaps() == []


def test_after_keepalives_were_flushed_while_idle(pipeline: Pipeline, monkeypatch):
    """The slot is ahead of the sink, and nothing is lost: the journal knows that there was nothing."""
    monkeypatch.setattr(log_module, "IDLE_TICK_SECONDS", 0.05)
    pipeline.options["lsn_flush_mode"] = "connector_and_driver"
    for n, strategy in enumerate(ALL, 4):
        pipeline.down = True
        pipeline.database.execute("insert into other select repeat('x', 1000) from generate_series(1, 100)")
        written = parse_lsn(pipeline.database.execute("select pg_current_wal_flush_lsn()::text")[0][0])
        pipeline.run(lambda written=written: pipeline.confirmed >= written)
        assert flush_lsn(pipeline.position) < written

        pipeline.down = False
        insert(pipeline.database, n)
        assert pipeline.run(lambda n=n: n in pipeline.delivered, offset_mismatch_strategy=strategy) == [n]
    assert pipeline.gaps() == []


def test_after_a_crash_in_the_middle_of_a_batch(pipeline: Pipeline):
    for n, strategy in enumerate(ALL):
        two = [2 * n + 4, 2 * n + 5]
        insert(pipeline.database, *two)
        pipeline.down = True
        pipeline.run(lambda: pipeline.journal.status().get("changes", 0) >= 2)
        assert pipeline.confirmed <= flush_lsn(pipeline.position)
        pipeline.down = False
        assert pipeline.run(lambda two=two: two[1] in pipeline.delivered, offset_mismatch_strategy=strategy) == two
    assert pipeline.gaps() == []


@pytest.mark.parametrize("strategy", ALL)
def test_after_an_operator_advanced_the_slot(pipeline: Pipeline, strategy: str):
    insert(pipeline.database, 4)
    advance(pipeline.database)
    insert(pipeline.database, 5)
    held = pipeline.position
    if strategy not in ACCEPTING:
        with pytest.raises(SlotAhead, match="ahead of the last durable position") as stopped:
            pipeline.run(lambda: False, offset_mismatch_strategy=strategy)
        assert stopped.value.exit_status == 3
        assert "trust_slot" in str(stopped.value)
        assert pipeline.position == held
        return
    assert pipeline.run(lambda: 5 in pipeline.delivered, offset_mismatch_strategy=strategy) == [5]
    assert pipeline.gaps() == [strategy]
    # It was accepted once; from here on there is nothing to accept.
    insert(pipeline.database, 6)
    assert pipeline.run(lambda: 6 in pipeline.delivered, offset_mismatch_strategy="fail") == [6]


def test_with_fresh_state_and_a_slot_that_is_far_ahead(pipeline: Pipeline, tmp_path: Path):
    """Nobody holds anything yet, so there is nothing to miss: a snapshot will be taken, or none was wanted."""
    for n, strategy in enumerate(ALL):
        insert(pipeline.database, 2 * n + 4)
        advance(pipeline.database)
        fresh = Pipeline(pipeline.database, tmp_path / strategy, tables="public.t")
        insert(pipeline.database, last := 2 * n + 5)
        done = fresh.run(
            lambda fresh=fresh, last=last: last in fresh.delivered and fresh.caught_up(),
            offset_mismatch_strategy=strategy,
        )
        assert done == [last]
        assert fresh.gaps() == []


# -- state folders and slots that come and go --------------------------------------------------------------------


def test_a_deleted_state_folder_is_no_loss_while_the_sink_has_its_position(pipeline: Pipeline):
    shutil.rmtree(pipeline.folder / "journal")
    insert(pipeline.database, 4)
    assert pipeline.run(lambda: 4 in pipeline.delivered) == [4]


def test_a_state_folder_of_last_night_names_what_it_lacks(pipeline: Pipeline):
    shutil.copytree(pipeline.folder / "journal", pipeline.folder / "backup")
    insert(pipeline.database, 4)
    pipeline.run(lambda: 4 in pipeline.delivered and pipeline.caught_up())
    shutil.rmtree(pipeline.folder / "journal")
    (pipeline.folder / "backup").rename(pipeline.folder / "journal")

    insert(pipeline.database, 5)
    assert pipeline.run(lambda: 5 in pipeline.delivered) == [5]
    assert pipeline.gaps() == ["every consumer had it"]


def test_a_sink_of_last_night_is_filled_from_the_journal_and_without_it_stops(pipeline: Pipeline):
    backup = pipeline.position
    insert(pipeline.database, 4)
    pipeline.run(lambda: 4 in pipeline.delivered and pipeline.caught_up())
    pipeline.position = backup
    assert pipeline.run(lambda: pipeline.delivered[-1] == 4) == [4]

    pipeline.position = backup
    shutil.rmtree(pipeline.folder / "journal")
    with pytest.raises(SlotAhead):
        pipeline.run(lambda: False)


@pytest.mark.parametrize("strategy", ["fail", "trust_slot"])
def test_a_slot_that_was_dropped_and_made_again_has_a_gap(pipeline: Pipeline, strategy: str):
    pipeline.database.execute("select pg_drop_replication_slot(%s)", pipeline.database.name)
    insert(pipeline.database, 4)
    pipeline.database.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", pipeline.database.name)
    insert(pipeline.database, 5)
    if strategy == "fail":
        with pytest.raises(SlotAhead):
            pipeline.run(lambda: False)
        return
    assert pipeline.run(lambda: 5 in pipeline.delivered, offset_mismatch_strategy=strategy) == [5]
    assert pipeline.gaps() == ["trust_slot"]


@pytest.mark.parametrize(("strategy", "moves"), [("trust_offset", True), ("trust_greater_lsn", True), ("fail", False)])
def test_a_slot_that_is_behind_is_moved_at_the_start_or_later(pipeline: Pipeline, strategy: str, moves: bool):
    pipeline.options["lsn_flush_mode"] = "manual"
    insert(pipeline.database, 4)
    behind = pipeline.confirmed
    pipeline.run(lambda: 4 in pipeline.delivered)
    assert pipeline.confirmed == behind < flush_lsn(pipeline.position)

    begin = make_source(pipeline.database, tables="public.t", offset_mismatch_strategy=strategy).prepare(
        pipeline.position
    )
    assert pipeline.confirmed == (flush_lsn(pipeline.position) if moves else behind) == flush_lsn(begin)
    insert(pipeline.database, 5)
    assert pipeline.run(lambda: 5 in pipeline.delivered) == [5]


# -- when the slot is told ---------------------------------------------------------------------------------------


def test_manual_never_confirms(pipeline: Pipeline):
    before = pipeline.confirmed
    insert(pipeline.database, 4)
    turns = iter(range(30))
    pipeline.run(lambda: 4 in pipeline.delivered and next(turns, None) is None, lsn_flush_mode="manual")
    assert pipeline.confirmed == before


def test_with_escrow_a_sink_that_is_down_does_not_pin_the_log(pipeline: Pipeline):
    pipeline.options["wal_escrow"] = True
    insert(pipeline.database, 4, 5)
    written = parse_lsn(pipeline.database.execute("select pg_current_wal_flush_lsn()::text")[0][0])
    pipeline.down = True
    pipeline.run(lambda: pipeline.confirmed >= written)
    assert pipeline.delivered == [1, 2, 3]

    pipeline.down = False
    assert pipeline.run(lambda: 5 in pipeline.delivered) == [4, 5]


def test_with_escrow_a_lost_journal_is_a_gap(pipeline: Pipeline):
    pipeline.options["wal_escrow"] = True
    insert(pipeline.database, 4)
    written = parse_lsn(pipeline.database.execute("select pg_current_wal_flush_lsn()::text")[0][0])
    pipeline.down = True
    pipeline.run(lambda: pipeline.confirmed >= written)
    shutil.rmtree(pipeline.folder / "journal")
    with pytest.raises(SlotAhead):
        pipeline.run(lambda: False)


def test_a_heartbeat_moves_a_quiet_database(pipeline: Pipeline):
    pipeline.options |= {
        "heartbeat_interval_ms": 50,
        "heartbeat_action_query": "insert into public.other values ('still here, 100%')",
    }
    before = pipeline.confirmed
    pipeline.run(lambda: pipeline.confirmed > before + 1000)
    assert pipeline.database.execute("select count(*) > 0 from other where v like 'still%'") == [(True,)]


def test_a_heartbeat_that_fails_is_told_and_hurts_nobody(pipeline: Pipeline, caplog):
    insert(pipeline.database, 4)
    assert pipeline.run(
        lambda: 4 in pipeline.delivered and "no_such_table" in caplog.text,
        heartbeat_interval_ms=20,
        heartbeat_action_query="insert into no_such_table values (1)",
    ) == [4]


# -- servers that come back --------------------------------------------------------------------------------------


def test_a_slot_that_went_back_with_a_crashed_server_sends_nothing_twice(pipeline: Pipeline):
    server = pipeline.database.server
    insert(pipeline.database, 4, 5)
    pipeline.run(lambda: 5 in pipeline.delivered and pipeline.caught_up())
    told = pipeline.confirmed
    # What a slot was told is on disk at the next checkpoint, and a crash comes before it; or nearly always.
    server.kill()
    server.start()
    assert pipeline.confirmed <= told
    insert(pipeline.database, 6)
    assert pipeline.run(lambda: 6 in pipeline.delivered) == [6]


def test_a_server_that_is_restarted_is_read_on_by_itself(pipeline: Pipeline):
    server = pipeline.database.server
    restarts: list[threading.Thread] = []

    def restart(mode: str, *then: int) -> None:
        # `fast` waits for its readers, so this one must go on reading meanwhile.
        server.restart(mode)
        insert(pipeline.database, *then)

    def until() -> bool:
        match pipeline.delivered[-1], len(restarts):
            case 4, 0:
                restarts.append(threading.Thread(target=restart, args=("fast", 5, 6)))
                restarts[-1].start()
            case 6, 1:
                restarts.append(threading.Thread(target=restart, args=("immediate", 7, 8)))
                restarts[-1].start()
        return pipeline.delivered[-1] == 8

    insert(pipeline.database, 4)
    # Nothing is confirmed: a server that waits for that would wait for ever.
    assert pipeline.run(until, lsn_flush_mode="manual") == [4, 5, 6, 7, 8]
    for thread in restarts:
        thread.join()


def test_a_server_restored_from_a_backup_is_refused(pipeline: Pipeline):
    """The same system, the same timeline, the same slot: but its log ends before our position."""
    server = pipeline.database.server
    server.stop()
    backup = server.data.with_name("backup")
    shutil.copytree(server.data, backup)
    for path in (backup, *backup.rglob("*")):
        shutil.chown(path, server.data.stat().st_uid, server.data.stat().st_gid)
    server.start()
    try:
        insert(pipeline.database, *range(4, 40))
        pipeline.run(lambda: 39 in pipeline.delivered)
        server.stop()
        newer = server.data.with_name("newer")
        server.data.rename(newer)
        backup.rename(server.data)
        server.start()
        with pytest.raises(Stop, match="before our position"):
            pipeline.run(lambda: False)
        server.stop()
        shutil.rmtree(server.data)
        newer.rename(server.data)
    finally:
        if not server.running:
            server.start()
    insert(pipeline.database, 40)
    assert pipeline.run(lambda: 40 in pipeline.delivered) == [40]
