"""The position lies in the table itself: replays, other writers, maintenance and crashes cannot make it lie."""

from __future__ import annotations

import glob
import json
import os
import pickle
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.unit.sinks.lake_of_orders import ORDERS, Changes, load, row, rows_at, sink, table_at, write

from headwater.errors import Stop
from headwater.event import Position
from headwater.sinks.delta import log as delta_log
from headwater.sinks.delta import native

MODES = pytest.mark.parametrize("mode", ["upsert", "append"])


@MODES
def test_a_replayed_batch_has_no_effect_and_makes_no_commit(tmp_path: Path, mode: str) -> None:
    to, changes = sink(tmp_path, mode), Changes().insert(**row(1)).insert(**row(2))
    write(to, changes)
    before = table_at(tmp_path).version()

    assert write(to, changes) == 0
    assert write(sink(tmp_path, mode), changes) == 0

    assert table_at(tmp_path).version() == before
    assert len(rows_at(tmp_path)) == 2


@MODES
def test_only_the_rest_of_a_half_known_batch_is_applied(tmp_path: Path, mode: str) -> None:
    to, changes = sink(tmp_path, mode), Changes().insert(**row(1))
    write(to, changes)
    changes.insert(**row(2))

    assert write(to, changes) == 1
    assert len(rows_at(tmp_path)) == 2


def test_what_is_remembered_is_the_end_of_the_batch_not_the_last_change(tmp_path: Path) -> None:
    to, changes = sink(tmp_path), Changes().insert(**row(1))

    to.write(ORDERS, [changes.batch()], Position(900, 7, "elsewhere"))

    found = to.table_position(ORDERS)
    assert found == Position(900, 7)
    assert found.resume == "elsewhere"


def test_an_empty_batch_makes_no_table(tmp_path: Path) -> None:
    to = sink(tmp_path)

    assert to.write(ORDERS, [], Position(5, 1)).changes == 0
    assert to.write(ORDERS, [Changes().batch()], Position(5, 1)).changes == 0

    assert to.table_position(ORDERS) is None
    assert not (tmp_path / "shop").exists()


def test_position_survives_optimize_vacuum_and_a_users_own_commits(tmp_path: Path) -> None:
    to = sink(tmp_path)
    for commit in range(100, 800, 100):
        changes = Changes(commit=commit).insert(**row(commit))
        write(to, changes)
    table = table_at(tmp_path)
    table.optimize.compact()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
    for _ in range(50):
        table.alter.set_table_properties({"delta.appendOnly": "false"})

    assert to.table_position(ORDERS) == changes.upto
    assert write(to, changes) == 0
    write(to, Changes(commit=900).update(**row(100, qty=5)))
    assert rows_at(tmp_path)[0] == row(100, qty=5)


def test_position_survives_a_checkpoint_and_the_cleanup_of_old_log_files(tmp_path: Path) -> None:
    to, changes = sink(tmp_path), Changes(commit=2**62).insert(**row(1))
    write(to, changes)
    table = table_at(tmp_path)
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
    table.create_checkpoint()
    for file in glob.glob(f"{table_at(tmp_path).table_uri.removeprefix('file://')}/_delta_log/*"):
        os.utime(file, (1e9, 1e9))
    table.cleanup_metadata()
    assert len(DeltaTable(table.table_uri).history()) == 1, "the commits of ours are gone"

    assert sink(tmp_path).table_position(ORDERS) == changes.upto


def test_every_commit_says_in_its_metadata_where_it_ends(tmp_path: Path) -> None:
    changes = Changes().insert(**row(1))
    write(sink(tmp_path), changes)

    said = json.loads(table_at(tmp_path).history(1)[0]["userMetadata"])

    assert said == {"headwater": "shop", "position": {"commit": 100, "ordinal": 1, "resume": "resume-100"}}


@MODES
def test_a_second_writer_that_moved_the_table_is_a_stop(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = sink(tmp_path, mode)
    write(to, Changes().insert(**row(1)))
    commit = delta_log.TableLog.commit

    def late(log: delta_log.TableLog, *args: object, **named: object) -> None:
        monkeypatch.setattr(delta_log.TableLog, "commit", commit)
        monkeypatch.setattr(native, "open_log", delta_log.TableLog)
        write(sink(tmp_path, mode), Changes(commit=200).insert(**row(2)))
        commit(log, *args, **named)

    monkeypatch.setattr(delta_log.TableLog, "commit", late)
    with pytest.raises(Stop, match="two writers"):
        write(to, Changes(commit=300).insert(**row(3)))

    assert len(rows_at(tmp_path)) == 2


def test_a_users_commit_in_between_is_no_second_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to = sink(tmp_path)
    write(to, Changes().insert(**row(1)))
    commit = delta_log.TableLog.commit

    def late(log: delta_log.TableLog, *args: object, **named: object) -> None:
        monkeypatch.setattr(delta_log.TableLog, "commit", commit)
        table_at(tmp_path).alter.set_table_properties({"delta.appendOnly": "false"})
        commit(log, *args, **named)

    monkeypatch.setattr(delta_log.TableLog, "commit", late)
    write(to, Changes(commit=300).insert(**row(3)))

    assert rows_at(tmp_path) == [row(1), row(3)]


def test_a_table_of_another_pipeline_or_of_someone_else_is_refused(tmp_path: Path) -> None:
    write(sink(tmp_path), Changes().insert(**row(1)))
    with pytest.raises(Stop, match="mode 'upsert'"):
        write(sink(tmp_path, "append"), Changes(commit=200).insert(**row(2)))
    shutil.rmtree(tmp_path / "shop")
    write_deltalake(tmp_path / "shop" / "orders", pa.table({"x": [1]}))

    with pytest.raises(Stop, match="someone else"):
        load(sink(tmp_path), ORDERS, [], Position(5, 0))


def test_a_load_done_twice_is_done_once(tmp_path: Path) -> None:
    to = sink(tmp_path)
    receipt = to.load_part(ORDERS, [Changes().read(**row(1)).batch()])

    to.load(ORDERS, [receipt], Position(500, 0))
    to.load(ORDERS, [receipt], Position(500, 0))

    assert rows_at(tmp_path) == [row(1)]
    assert table_at(tmp_path).version() == 0


def test_a_part_without_a_commit_is_seen_by_nobody(tmp_path: Path) -> None:
    to = sink(tmp_path)
    to.load_part(ORDERS, [Changes().read(**row(1)).batch()])
    assert to.table_position(ORDERS) is None

    load(to, ORDERS, [[]], Position(500, 0))

    assert rows_at(tmp_path) == []
    assert to.table_position(ORDERS) == Position(500, 0)


def test_the_sinks_own_position_is_a_file_that_is_replaced_whole(tmp_path: Path) -> None:
    to = sink(tmp_path)
    assert to.position() is None

    to.advance(Position(7, 1, "a"))
    to.advance(Position(8, 2, "b"))

    assert sink(tmp_path).position() == Position(8, 2)
    assert sink(tmp_path).position().resume == "b"
    assert os.listdir(tmp_path / "_headwater") == ["shop.json"]


def test_a_sink_travels_to_executors_open_or_not(tmp_path: Path) -> None:
    to = sink(tmp_path)
    write(to, Changes().insert(**row(1)))

    there = pickle.loads(pickle.dumps(to))  # noqa: S301

    assert there.table_position(ORDERS) == Position(100, 1)


def test_a_table_removed_and_made_anew_is_not_mistaken_for_the_old_one(tmp_path: Path) -> None:
    to = sink(tmp_path)
    write(to, Changes(commit=500).insert(**row(1)))
    shutil.rmtree(tmp_path / "shop")

    write(to, Changes(commit=100).insert(**row(2)))

    assert rows_at(tmp_path) == [row(2)]
