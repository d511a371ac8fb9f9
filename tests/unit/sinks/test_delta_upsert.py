"""The Delta mirror equals the source after every kind of change, however the changes are cut into batches."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.unit.sinks.lake_of_orders import ORDERS, Changes, batch_of, load, row, rows_at, sink, table_at, write

from headwater.errors import Stop
from headwater.event import Position


def test_a_new_table_holds_the_rows_inserted(tmp_path: Path) -> None:
    write(sink(tmp_path), Changes().insert(**row(1)).insert(**row(2, note=None)))

    assert rows_at(tmp_path) == [row(1), row(2, note=None)]
    assert table_at(tmp_path).to_pyarrow_table().column_names == ["id", "note", "body", "qty"]


def test_update_delete_and_insert_reach_rows_of_earlier_batches(tmp_path: Path) -> None:
    to = sink(tmp_path)
    write(to, Changes().insert(**row(1)).insert(**row(2)).insert(**row(3)))

    write(to, Changes(commit=200).update(**row(1, qty=7)).delete(id=2).insert(**row(4)))

    assert rows_at(tmp_path) == [row(1, qty=7), row(3), row(4)]


def test_insert_and_partial_update_in_one_batch_keep_the_value_left_out(tmp_path: Path) -> None:
    changes = Changes().insert(**row(1, body="long")).update(["body"], **row(1, note="new", body=None))

    write(sink(tmp_path), changes)

    assert rows_at(tmp_path) == [row(1, note="new", body="long")]


def test_partial_update_keeps_what_the_target_has(tmp_path: Path) -> None:
    to = sink(tmp_path)
    write(to, Changes().insert(**row(1, body="one")).insert(**row(2, body=None)))

    changes = Changes(commit=200)
    changes.update(["body"], **row(1, note="x", body=None)).update(["body"], **row(2, note="y", body=None))
    write(to, changes)

    assert rows_at(tmp_path) == [row(1, "x", "one"), row(2, "y", None)]


def test_a_value_set_and_then_left_out_is_the_one_set(tmp_path: Path) -> None:
    to = sink(tmp_path)
    write(to, Changes().insert(**row(1, body="old")))

    changes = Changes(commit=200).update(**row(1, body="set"))
    for qty in range(5):
        changes.update(["body"], **row(1, body=None, qty=qty))
    write(to, changes)

    assert rows_at(tmp_path) == [row(1, body="set", qty=4)]


def test_key_change_carries_the_left_out_value_of_the_old_row_from_the_target(tmp_path: Path) -> None:
    to = sink(tmp_path)
    write(to, Changes().insert(**row(1, body="of one")).insert(**row(2, body="of two")))

    write(to, Changes(commit=200).update(["body"], before={"id": 1}, **row(9, body=None)))

    assert rows_at(tmp_path) == [row(2, body="of two"), row(9, body="of one")]


def test_key_change_carries_the_left_out_value_from_an_earlier_change_of_the_batch(tmp_path: Path) -> None:
    to = sink(tmp_path)
    write(to, Changes().insert(**row(1, body="stale")))

    changes = Changes(commit=200).update(**row(1, body="fresh")).update(["body"], before={"id": 1}, **row(9, body=None))
    changes.insert(**row(1, body="other")).update(["body"], before={"id": 9}, **row(8, body=None, qty=3))
    write(to, changes)

    assert rows_at(tmp_path) == [row(1, body="other"), row(8, body="fresh", qty=3)]


def test_a_key_taken_over_in_the_same_batch_does_not_lend_its_value(tmp_path: Path) -> None:
    """Row 1 leaves, row 2 takes key 1: the value left out is that of row 2."""
    to = sink(tmp_path)
    write(to, Changes().insert(**row(1, body="of one")).insert(**row(2, body="of two")))

    changes = Changes(commit=200).delete(id=1).update(["body"], before={"id": 2}, **row(1, body=None))
    write(to, changes)

    assert rows_at(tmp_path) == [row(1, body="of two")]


def test_before_holds_the_left_out_value_under_full_identity(tmp_path: Path) -> None:
    full = type(ORDERS)(ORDERS.schema, ORDERS.name, ORDERS.columns, ORDERS.key, tuple(c.name for c in ORDERS.columns))
    changes = Changes(full).update(["body"], before=row(1, body="seen"), **row(1, body=None, qty=5))

    write(sink(tmp_path), changes)

    assert rows_at(tmp_path) == [row(1, body="seen", qty=5)]


def test_a_left_out_value_that_nobody_has_stops_the_table(tmp_path: Path) -> None:
    to = sink(tmp_path)
    write(to, Changes().insert(**row(1)))

    with pytest.raises(Stop, match="'body'"):
        write(to, Changes(commit=200).update(["body"], **row(2, body=None)))

    assert rows_at(tmp_path) == [row(1)]


def test_delete_then_insert_and_insert_then_delete_of_one_key(tmp_path: Path) -> None:
    to = sink(tmp_path)
    write(to, Changes().insert(**row(1)))

    write(to, Changes(commit=200).delete(id=1).insert(**row(1, qty=2)).insert(**row(2)).delete(id=2))

    assert rows_at(tmp_path) == [row(1, qty=2)]


def test_truncate_voids_what_was_before_it(tmp_path: Path) -> None:
    to = sink(tmp_path)
    write(to, Changes().insert(**row(1)).insert(**row(2)))

    write(to, Changes(commit=200).insert(**row(3)).truncate().insert(**row(4)))
    assert rows_at(tmp_path) == [row(4)]

    write(to, Changes(commit=300).truncate())
    assert rows_at(tmp_path) == []


def test_changes_that_leave_the_table_as_it_was_move_its_position(tmp_path: Path) -> None:
    to = sink(tmp_path)
    none = [Changes().insert(**row(1)).truncate(), Changes(commit=200).truncate(), Changes(commit=300).delete(id=1)]
    for changes in none:
        write(to, changes)

        assert sink(tmp_path).table_position(ORDERS) == changes.upto


def test_a_key_of_several_columns_is_the_pair(tmp_path: Path) -> None:
    pair = type(ORDERS)(ORDERS.schema, ORDERS.name, ORDERS.columns, ("id", "note"), ("id", "note"))
    to = sink(tmp_path)
    write(to, Changes(pair).insert(**row(1, "a")).insert(**row(1, "b")).insert(**row(2, "a")))

    changes = Changes(pair, commit=200).update(**row(1, "b", qty=5)).delete(id=2, note="a")
    write(to, changes.insert(**row(2, "b")))

    assert rows_at(tmp_path) == [row(1, "a"), row(1, "b", qty=5), row(2, "b")]


@pytest.mark.parametrize("before", [True, False])
def test_rows_that_exchange_keys_stop_the_table_instead_of_losing_one(tmp_path: Path, before: bool) -> None:
    """Possible under a deferred primary key; by key alone the two rows cannot be told apart."""
    to, changes = sink(tmp_path), Changes().insert(**row(1)).insert(**row(2))
    if before:
        write(to, changes)
        changes = Changes(commit=200)
    changes.update(before={"id": 1}, **row(2, qty=1)).update(before={"id": 2}, **row(1, qty=2))

    with pytest.raises(Stop, match="another row still had"):
        write(to, changes)


class Model:
    """The source as a plain dict, and the log it would write."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.rows: dict[int, dict[str, Any]] = {}
        self.changes = Changes()
        self.states: list[tuple[Position, dict[int, dict[str, Any]]]] = []

    def step(self) -> None:
        choice = self.random.random()
        old = self.random.choice(list(self.rows)) if self.rows else None
        if choice < 0.01:
            self.rows.clear()
            self.changes.truncate()
        elif old is None or (choice < 0.35 and len(self.rows) < 30):
            self._insert()
        elif choice < 0.55:
            self.rows[old] = row(old, *self._values())
            self.changes.update(**self.rows[old])
        elif choice < 0.75:
            self._partial(old, old)
        elif choice < 0.88:
            free = self.random.choice([key for key in range(40) if key not in self.rows])
            self._partial(old, free)
        else:
            del self.rows[old]
            self.changes.delete(id=old)
        if self.random.random() < 0.4:
            self.changes.next()

    def _values(self) -> tuple[Any, Any, Any]:
        pick = self.random
        return pick.choice([None, "n", "é"]), pick.choice([None, f"body {pick.random()}"]), pick.randrange(100)

    def _insert(self) -> None:
        free = self.random.choice([key for key in range(40) if key not in self.rows])
        self.rows[free] = row(free, *self._values())
        self.changes.insert(**self.rows[free])

    def _partial(self, old: int, new: int) -> None:
        """An update that leaves columns out, of the same key or to another."""
        was, values = self.rows.pop(old), row(new, *self._values())
        left_out = [name for name in ("note", "body") if self.random.random() < 0.6]
        self.rows[new] = {**values, **{name: was[name] for name in left_out}}
        before = {"id": old} if new != old else None
        self.changes.update(left_out, before=before, **{**values, **dict.fromkeys(left_out)})


@pytest.mark.parametrize("seed", [*range(3), None])
def test_random_histories_in_random_batches_with_replays_equal_a_dict(tmp_path: Path, seed: int | None) -> None:
    seed = random.randrange(10**9) if seed is None else seed  # noqa: S311
    print("seed", seed)
    model, to = Model(seed), sink(tmp_path, target_file_mb=1)
    pick = random.Random(seed + 1)  # noqa: S311
    done = 0
    for _ in range(12):
        for _ in range(pick.choice([1, 3, 40])):
            model.step()
        start = pick.randrange(max(0, done - 20), done + 1)
        rows = model.changes.rows[start:]
        cut = pick.randrange(len(rows) + 1)
        batches = [batch_of(ORDERS, part) for part in (rows[:cut], rows[cut:]) if part]
        upto = Position(rows[-1]["commit"], rows[-1]["ordinal"])
        to.write(ORDERS, batches, upto)
        if pick.random() < 0.5:
            assert sink(tmp_path).write(ORDERS, batches, upto).changes == 0
        done = len(model.changes.rows)

        assert rows_at(tmp_path) == [model.rows[key] for key in sorted(model.rows)]
        assert to.table_position(ORDERS) == upto


def test_a_load_replaces_whatever_a_killed_attempt_left(tmp_path: Path) -> None:
    to = sink(tmp_path)
    write(to, Changes().insert(**row(77)))
    to.load_part(ORDERS, [Changes().read(**row(66)).batch()])
    one, two = Changes(commit=500).read(**row(1)), Changes(commit=500).read(**row(2)).read(**row(3))

    load(to, ORDERS, [[one.batch()], [two.batch()], []], Position(500, 0, "r"))

    assert rows_at(tmp_path) == [row(1), row(2), row(3)]
    assert to.table_position(ORDERS) == Position(500, 0)
