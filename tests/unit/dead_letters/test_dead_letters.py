"""Records that a sink refuses are kept aside whole, and no later change of their row goes before them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.sinks.lake_of_orders import ORDERS, Changes, row

from headwater.dead_letters import DeadLetters, DeadLetterSink, RetryingSink
from headwater.dead_letters import store as store_module
from headwater.errors import Rejected, Retry, Stop
from headwater.event import ChangeBatch, Column, Position, TableSchema
from headwater.sinks.base import Sink, SinkOptions, Written

POISON = 13


class Picky(Sink):
    """Keeps what it gets, change by change, and refuses batches with the poison in them."""

    type = "picky"
    options_class = SinkOptions

    def __init__(self, *, names_it: bool = False, whole_log: bool = False) -> None:
        self.name = "picky"
        self.names_it = names_it
        self.whole_log = whole_log
        self.got: list[tuple[str, int | None, int | None]] = []
        self.at: Position | None = None
        self.poison: int | None = POISON

    def position(self) -> Position | None:
        return self.at

    def table_position(self, table: TableSchema) -> Position | None:
        return self.at

    def write(self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position) -> Written:
        new = [batch.between(self.at, upto) for batch in batches]
        rows = [
            (place, row) for batch in new for place, row in zip(batch.places, batch.records.to_pylist(), strict=True)
        ]
        refused = [place for place, one in rows if one["after"] and one["after"]["qty"] == self.poison]
        if refused:
            error = Rejected("it is poison")
            error.places = tuple(refused) if self.names_it else ()
            raise error
        for _place, one in rows:
            image = one["after"] or one["before"] or {}
            self.got.append((one["op"], image.get("id"), image.get("qty")))
        self.at = upto
        return Written(table.table, len(rows), 0.0)

    def takes_log(self) -> bool:
        return self.whole_log

    def write_log(self, decoded: Iterable[Sequence[ChangeBatch]], upto: Position, stopped: Any = ()) -> list[Written]:
        batches = [batch for part in decoded for batch in part]
        return [self.write(batches[0].table, batches, upto)]

    def load_part(self, table: TableSchema, rows: Iterable[ChangeBatch]) -> str:
        self.write(table, list(rows), Position(11, 0))
        return "part"

    def load(self, table: TableSchema, receipts: Sequence[str], upto: Position) -> None:
        self.at = upto

    def advance(self, upto: Position) -> None:
        self.at = upto


def changes() -> Changes:
    """Row 1 is refused in its second state; row 2 has nothing to do with it."""
    made = Changes().insert(**row(1)).insert(**row(2)).next().update(**row(1, qty=POISON))
    made.next().update(**row(1, qty=3)).update(**row(2, qty=4))
    return made


ROW_2 = [("c", 1, 1), ("c", 2, 1), ("u", 2, 4)]


@pytest.mark.parametrize("names_it", [True, False])
def test_later_changes_of_a_refused_row_wait_and_other_rows_go_on(tmp_path: Path, names_it: bool) -> None:
    inner = Picky(names_it=names_it)
    sink = DeadLetterSink(inner, tmp_path)

    sink.write(ORDERS, [changes().batch()], changes().upto)

    assert inner.got == ROW_2
    assert inner.at == changes().upto
    refused, follower = DeadLetters(tmp_path, "picky").letters()
    assert (refused.id, refused.keys, refused.follows) == ("picky/110:1", ('{"id": "1"}',), None)
    assert refused.reason["what"] == "it is poison"
    assert (follower.id, follower.follows) == ("picky/120:1", Position(110, 1))


def test_a_sink_that_takes_the_log_as_a_whole_is_divided_too(tmp_path: Path) -> None:
    inner = Picky(names_it=True, whole_log=True)
    sink = DeadLetterSink(inner, tmp_path)
    made = changes()

    sink.write_log([[made.batch(0, 3)], [made.batch(3)]], made.upto)

    assert inner.got == ROW_2
    assert sink.letters.count() == 2


def test_later_batches_and_later_runs_wait_as_well(tmp_path: Path) -> None:
    inner = Picky()
    DeadLetterSink(inner, tmp_path).write(ORDERS, [changes().batch()], changes().upto)
    inner.poison = None
    later = Changes(commit=200).update(**row(1, qty=5)).next().delete(id=2)

    DeadLetterSink(inner, tmp_path).write(ORDERS, [later.batch()], later.upto)

    assert inner.got == [*ROW_2, ("d", 2, None)]
    assert [letter.id for letter in DeadLetters(tmp_path, "picky").letters()][-1] == "picky/200:1"


def test_a_batch_that_comes_again_adds_no_letter_even_when_the_cause_is_gone(tmp_path: Path) -> None:
    inner = Picky()
    sink = DeadLetterSink(inner, tmp_path)
    sink.write(ORDERS, [changes().batch()], changes().upto)
    # Killed before the sink's position was stored, say: everything comes again, and would fit now.
    inner.at, inner.got, inner.poison = None, [], None

    sink.write(ORDERS, [changes().batch()], changes().upto)

    assert inner.got == ROW_2
    assert sink.letters.count() == 2


def test_a_row_that_moves_takes_its_new_key_along(tmp_path: Path) -> None:
    inner = Picky()
    made = Changes().insert(**row(1, qty=POISON)).next().update(before={"id": 1}, **row(9)).next()
    made.update(**row(9, qty=2)).insert(**row(2))

    DeadLetterSink(inner, tmp_path).write(ORDERS, [made.batch()], made.upto)

    assert inner.got == [("c", 2, 1)]
    assert [letter.keys for letter in DeadLetters(tmp_path, "picky").letters()] == [
        ('{"id": "1"}',),
        ('{"id": "1"}', '{"id": "9"}'),
        ('{"id": "9"}',),
    ]


def snapshot(*rows: dict[str, Any]) -> list[ChangeBatch]:
    """Rows as they are copied: all at one place."""
    made = Changes(commit=10)
    for each in rows:
        made.read(**each)
        made.rows[-1]["ordinal"] = 0
    return [made.batch(n, n + 2) for n in range(0, len(rows), 2)]


def test_what_is_refused_of_a_snapshot_waits_and_so_do_the_later_changes_of_its_row(tmp_path: Path) -> None:
    inner = Picky(names_it=True)
    sink = DeadLetterSink(inner, tmp_path)
    rows = [row(1), row(2, qty=POISON), row(3), row(4, qty=POISON), row(5)]

    assert sink.load_part(ORDERS, snapshot(*rows)) == "part"
    sink.load(ORDERS, ["part"], Position(10, 0))
    later = Changes(commit=20).update(**row(2, qty=7)).update(**row(1, qty=8))
    sink.write(ORDERS, [later.batch()], later.upto)

    assert inner.got == [("r", 1, 1), ("r", 3, 1), ("r", 5, 1), ("u", 1, 8)]
    letters = list(sink.letters.letters())
    assert sorted(letter.keys for letter in letters) == [('{"id": "2"}',), ('{"id": "2"}',), ('{"id": "4"}',)]
    assert len({letter.id for letter in letters}) == 3
    assert [letter.follows is not None for letter in letters] == [False, False, True]


def test_a_snapshot_that_comes_again_finds_its_letters_and_a_newer_one_makes_them_void(tmp_path: Path) -> None:
    inner = Picky(names_it=True)
    sink = DeadLetterSink(inner, tmp_path)
    rows = [row(1), row(2, qty=POISON), row(3)]
    sink.load_part(ORDERS, snapshot(*rows))
    inner.at, inner.got = None, []

    sink.load_part(ORDERS, snapshot(*reversed(rows)))

    assert inner.got == [("r", 3, 1), ("r", 1, 1)]
    assert sink.letters.count() == 1
    sink.load(ORDERS, ["part"], Position(50, 0))
    assert [letter.void for letter in sink.letters.letters()] == [True]


def test_a_truncate_makes_what_waited_before_it_void(tmp_path: Path) -> None:
    inner = Picky()
    made = Changes().insert(**row(1, qty=POISON)).next().update(**row(1)).truncate().insert(**row(1, qty=2))

    sink = DeadLetterSink(inner, tmp_path)
    sink.write(ORDERS, [made.batch()], made.upto)

    assert inner.got == [("t", None, None), ("c", 1, 2)]
    assert [letter.void for letter in sink.letters.letters()] == [True, True]
    inner.at, inner.got = None, []
    sink.write(ORDERS, [made.batch()], made.upto)
    assert inner.got == [("t", None, None), ("c", 1, 2)]
    assert sink.letters.count() == 2


def test_without_a_key_only_the_refused_change_is_kept(tmp_path: Path) -> None:
    import dataclasses

    table = dataclasses.replace(ORDERS, key=(), identity=())
    inner = Picky()
    made = Changes(table).insert(**row(1, qty=POISON)).insert(**row(1)).insert(**row(2))

    DeadLetterSink(inner, tmp_path).write(table, [made.batch()], made.upto)

    assert inner.got == [("c", 1, 1), ("c", 2, 1)]


def test_a_letter_holds_the_whole_change_and_gives_it_back_exactly(tmp_path: Path) -> None:
    table = TableSchema(
        "s",
        'od"d/../x',
        (
            Column("id", "bigint", pa.int64(), nullable=False),
            Column("price", "numeric(10,2)", pa.decimal128(10, 2)),
            Column("data", "bytea", pa.binary()),
            Column("tags", "text[]", pa.list_(pa.string())),
            Column("qty", "int", pa.int32()),
        ),
        key=("id",),
    )
    values = {"id": 7, "price": Decimal("1.50"), "data": b"\x00\xff", "tags": ["a", None], "qty": POISON}
    made = Changes(table).update(unchanged=["tags"], before={"id": 7}, **values)

    sink = DeadLetterSink(Picky(), tmp_path)
    sink.write(table, [made.batch()], made.upto)

    [letter] = sink.letters.letters()
    assert letter.change.table == table
    assert letter.change.records.equals(made.batch().records)
    [path] = (tmp_path / "dead-letters").rglob("*.json")
    assert path.parent.parent == tmp_path / "dead-letters" / "picky"
    assert oct(path.stat().st_mode)[-3:] == "600"
    shown = json.loads(path.read_text())
    assert shown["event"]["after"] == {"id": 7, "price": "1.50", "data": "\\x00ff", "tags": ["a", None], "qty": POISON}
    assert shown["position"] == {"commit": 100, "ordinal": 1, "resume": ""}


def test_a_damaged_letter_is_named(tmp_path: Path) -> None:
    sink = DeadLetterSink(Picky(), tmp_path)
    sink.write(ORDERS, [changes().batch()], changes().upto)
    path = next((tmp_path / "dead-letters").rglob("*.json"))
    os.truncate(path, 50)

    with pytest.raises(Stop, match=str(path)):
        list(sink.letters.letters())


def test_too_many_are_no_odd_records_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_LETTERS", 1)

    with pytest.raises(Stop, match="more than 1 dead letters"):
        DeadLetterSink(Picky(), tmp_path).write(ORDERS, [changes().batch()], changes().upto)


def test_retry_waits_until_a_person_has_made_room() -> None:
    inner = Picky()
    sink = RetryingSink(inner)

    with pytest.raises(Retry, match="poison"):
        sink.write(ORDERS, [changes().batch()], changes().upto)
    inner.poison = None
    sink.write(ORDERS, [changes().batch()], changes().upto)

    assert len(inner.got) == 5
