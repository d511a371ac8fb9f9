"""Replaying into a lake: what was damaged is mended, what was right stays, no position moves."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.unit.sinks.lake_of_orders import ORDERS, Changes, load, row, rows_at, sink, table_at, write

from headwater.errors import Usage
from headwater.event import Position
from headwater.sinks.delta import Delta


def history() -> Changes:
    """Every kind of change, a key change with a left-out value and a key used again among them."""
    changes = Changes().insert(**row(1)).insert(**row(2, body="long")).insert(**row(3)).next()
    changes.update(**row(1, note="changed")).update(unchanged=["body"], before={"id": 2}, **row(20, body=None)).next()
    changes.delete(id=3).insert(**row(2, body="another")).next()
    return changes.update(unchanged=["body"], **row(20, note="last", body=None)).insert(**row(3, note="again"))


def again(to: Delta, changes: Changes, after: int = 0) -> int:
    batch = changes.batch(after)
    return to.replay(ORDERS, [batch], to.table_position(ORDERS) or changes.upto).changes


@pytest.mark.parametrize("mode", ["upsert", "append"])
@pytest.mark.parametrize("after", range(9))
def test_whatever_part_is_replayed_to_the_end_nothing_changes(tmp_path: Path, mode: str, after: int) -> None:
    to, changes = sink(tmp_path, mode), history()
    write(to, changes)
    before, position = rows_at(tmp_path), to.table_position(ORDERS)

    assert again(to, changes, after) == len(changes.rows) - after

    assert sorted(map(repr, rows_at(tmp_path))) == sorted(map(repr, before))
    assert to.table_position(ORDERS) == position
    assert write(sink(tmp_path, mode), changes) == 0


def test_a_damaged_mirror_is_mended(tmp_path: Path) -> None:
    to, changes = sink(tmp_path), history()
    write(to, changes)
    before = rows_at(tmp_path)
    damaged: DeltaTable = table_at(tmp_path)
    damaged.delete("id = 3")
    table_at(tmp_path).update(updates={"note": "'wrong'"})
    assert rows_at(tmp_path) != before

    again(to, changes)

    assert rows_at(tmp_path) == before


def test_a_damaged_changelog_is_mended(tmp_path: Path) -> None:
    to, changes = sink(tmp_path, "append"), history()
    write(to, changes)
    before = sorted(map(repr, rows_at(tmp_path)))
    table_at(tmp_path).delete("_headwater_commit = 110")

    again(to, changes)

    assert sorted(map(repr, rows_at(tmp_path))) == before


def test_a_changelog_s_snapshot_stays_and_what_came_before_it_stays_out(tmp_path: Path) -> None:
    to, changes = sink(tmp_path, "append"), history()
    load(to, ORDERS, [[Changes(commit=115).read(**row(1)).batch()]], Position(115, 1, "r"))
    write(to, changes)
    before = sorted(map(repr, rows_at(tmp_path)))

    assert again(to, changes) == 4

    assert sorted(map(repr, rows_at(tmp_path))) == before


def test_a_mirror_is_never_taken_back_in_time(tmp_path: Path) -> None:
    to, changes = sink(tmp_path), history()
    write(to, changes)

    with pytest.raises(Usage, match="back in time"):
        to.replay(ORDERS, [changes.batch(0, 3)], Position(100, 3))


def test_a_truncate_in_the_range_empties_what_came_before(tmp_path: Path) -> None:
    to = sink(tmp_path)
    changes = Changes().insert(**row(1)).next().truncate().insert(**row(2))
    write(to, changes)

    again(to, changes)

    assert rows_at(tmp_path) == [row(2)]
