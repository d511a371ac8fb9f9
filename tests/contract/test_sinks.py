"""The contract of every sink: what may come again, out of order, late, large or oddly named, and what it then holds.

Runs over every Target, with the real server behind it; no Spark. What is special to one sink is in its own tests.
"""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest
from tests.contract.targets import TARGETS, Target
from tests.unit.formats.change_builder import column
from tests.unit.sinks.lake_of_orders import Changes, row

from headwater.errors import Retry, Stop
from headwater.event import Position, TableSchema
from headwater.registry import known
from headwater.sinks.base import Sink

ORDERS = TableSchema(
    "shop",
    "orders",
    (
        column("id", "int8", nullable=False),
        column("note", "text"),
        column("body", "text"),
        column("qty", "int4"),
    ),
    key=("id",),
    identity=("id",),
    detail={"replica_identity": "d"},
)
FULL = dataclasses.replace(
    ORDERS, identity=tuple(column.name for column in ORDERS.columns), detail={"replica_identity": "f"}
)
BEGIN = Position(10, 0, "begin")


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.server) for name in TARGETS])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    return made(TARGETS[request.param], request, tmp_path)


def made(cls: type[Target], request: pytest.FixtureRequest, folder: Path) -> Target:
    """The target with the servers that it needs."""
    target: Any = cls(folder, request.getfixturevalue("kafka") if cls.type == "kafka" else None)  # type: ignore[call-arg]
    if cls.needs_registry:
        target.registry = request.getfixturevalue("registry")
    return target  # type: ignore[no-any-return]


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.server) for kind in known("sinks")])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    """One target of each type: whether the server answers does not depend on how it is used."""
    return made(next(cls for cls in TARGETS.values() if cls.type == request.param), request, tmp_path)


def begun(target: Target, *tables: TableSchema) -> Sink:
    """The sink as it is before the first change: every table loaded, empty."""
    return begun_with(target.sink(), *(tables or (ORDERS,)))


def begun_with(sink: Sink, *tables: TableSchema) -> Sink:
    sink.position()
    for table in tables:
        sink.load(table, [], BEGIN)
    sink.advance(BEGIN)
    return sink


def write(sink: Sink, changes: Changes) -> int:
    return sink.write(changes.table, [changes.batch()], changes.upto).changes


def test_every_sink_has_a_target() -> None:
    assert {cls.type for cls in TARGETS.values()} == set(known("sinks")), "add a Target for it in tests/contract"


def test_a_batch_that_comes_again_has_no_second_effect(target: Target) -> None:
    sink = begun(target)
    changes = Changes(ORDERS).insert(**row(1)).insert(**row(2)).next().update(**row(2, note="new"))
    assert write(sink, changes) > 0
    before = target.rows(ORDERS)

    write(sink, changes)
    write(target.sink(), changes)

    assert target.rows(ORDERS) == before == [row(1), row(2, note="new")]
    if target.keeps_history:
        assert target.seen(ORDERS) == 3


def test_a_batch_that_overlaps_is_applied_from_where_it_is_new(target: Target) -> None:
    sink = begun(target)
    changes = Changes(ORDERS).insert(**row(1)).next().insert(**row(2)).next().insert(**row(3))
    sink.write(ORDERS, [changes.batch(0, 2)], Position(110, 1))

    sink.write(ORDERS, [changes.batch(1, 3)], changes.upto)

    assert target.rows(ORDERS) == [row(1), row(2), row(3)]
    if target.keeps_history:
        assert target.seen(ORDERS) == 3


def test_an_older_batch_after_a_newer_one_has_no_effect(target: Target) -> None:
    sink = begun(target)
    changes = Changes(ORDERS).insert(**row(1)).next().update(**row(1, note="newer"))
    write(sink, changes)

    sink.write(ORDERS, [changes.batch(0, 1)], Position(100, 1))

    assert target.rows(ORDERS) == [row(1, note="newer")]
    position = target.sink().table_position(ORDERS)
    assert position is not None
    assert position >= Position(110, 1)


def test_a_crash_between_write_and_position_doubles_nothing(target: Target) -> None:
    sink = begun(target)
    changes = Changes(ORDERS).insert(**row(1)).next().delete(id=1).next().insert(**row(2))
    write(sink, changes)

    again = target.sink()
    again.position()
    assert again.position() == BEGIN
    write(again, changes)
    again.advance(changes.upto)

    assert target.sink().position() == changes.upto
    assert target.rows(ORDERS) == [row(2)]
    if target.keeps_history:
        assert target.seen(ORDERS) == 3


def test_a_position_survives_a_restart_with_what_the_source_needs_to_resume(target: Target) -> None:
    sink = begun(target)
    upto = Position(500, 3, "0/1F4")
    sink.advance(upto)

    held = target.sink().position()

    assert held == upto
    assert held is not None
    assert held.resume == "0/1F4"


def test_a_table_that_was_never_loaded_has_no_position(target: Target) -> None:
    sink = target.sink()

    assert sink.position() is None
    assert sink.table_position(ORDERS) is None


def test_a_new_column_is_followed(target: Target) -> None:
    sink = begun(target)
    write(sink, Changes(ORDERS).insert(**row(1)))
    wider = dataclasses.replace(ORDERS, columns=(*ORDERS.columns, column("extra", "text")))

    write(sink, Changes(wider, commit=200).insert(**row(2), extra="x"))

    found = target.rows(wider)
    assert [(each["id"], each.get("extra")) for each in found] == [(1, None), (2, "x")]


def test_a_deleted_row_is_gone(target: Target) -> None:
    sink = begun(target)
    write(sink, Changes(ORDERS).insert(**row(1)).insert(**row(2)))

    write(sink, Changes(ORDERS, commit=200).delete(id=1))

    assert target.rows(ORDERS) == [row(2)]


def test_an_update_of_the_key_moves_the_row(target: Target) -> None:
    sink = begun(target)
    write(sink, Changes(ORDERS).insert(**row(1)).insert(**row(2)))

    write(sink, Changes(ORDERS, commit=200).update(before={"id": 1}, **row(9)))

    assert target.rows(ORDERS) == [row(2), row(9)]


def test_a_truncate_empties_the_table_and_what_follows_stays(target: Target) -> None:
    sink = begun(target)
    write(sink, Changes(ORDERS).insert(**row(1)).insert(**row(2)))

    write(sink, Changes(ORDERS, commit=200).truncate().insert(**row(3)))

    assert target.rows(ORDERS) == [row(3)]


def test_a_column_that_the_log_left_out_keeps_its_value(target: Target) -> None:
    sink = begun(target)
    write(sink, Changes(ORDERS).insert(**row(1, body="long text")))
    partial = Changes(ORDERS, commit=200).update(unchanged=["body"], **row(1, note="new", body=None))
    # The worst case: the row and its partial update in one batch.
    partial.next().insert(**row(2, body="other")).update(unchanged=["body"], **row(2, note="new", body=None))

    write(sink, partial)

    assert target.rows(ORDERS) == [row(1, note="new", body="long text"), row(2, note="new", body="other")]


def test_a_batch_without_changes_is_nothing(target: Target) -> None:
    sink = begun(target)
    empty = Changes(ORDERS).insert(**row(1)).batch(0, 0)

    assert sink.write(ORDERS, [empty], Position(100, 0)).changes == 0

    write(sink, Changes(ORDERS, commit=200).insert(**row(1)))
    assert target.rows(ORDERS) == [row(1)]


def test_a_value_of_a_megabyte_arrives_whole(target: Target) -> None:
    sink = begun(target)
    large = "".join(chr(0x20 + i % 90) for i in range(1 << 20)) + '"\\\n\tü😀'

    write(sink, Changes(ORDERS).insert(**row(1, body=large)))

    assert target.rows(ORDERS)[0]["body"] == large


@pytest.mark.parametrize(
    ("schema", "name", "awkward"),
    [
        ('we"ird', "t able", "a b"),
        ("öffentlich", "ta.ble/../x", 'quote"\\'),
        ("s", "'; drop table x; --", "😀"),
        ("S", "UPPER", "sel`ect"),
    ],
)
def test_hostile_names_are_only_names(target: Target, schema: str, name: str, awkward: str) -> None:
    table = TableSchema(
        schema,
        name,
        (column("id", "int8", nullable=False), column(awkward, "text")),
        key=("id",),
        identity=("id",),
        detail={"replica_identity": "d"},
    )
    sink = begun(target, table)

    write(sink, Changes(table).insert(id=1, **{awkward: "x"}).insert(id=2, **{awkward: None}))
    write(sink, Changes(table, commit=200).update(id=1, **{awkward: "y"}).delete(id=2))

    assert target.rows(table) == [{"id": 1, awkward: "y"}]


def test_tables_have_positions_of_their_own(target: Target) -> None:
    other = dataclasses.replace(ORDERS, name="items")
    sink = begun(target, ORDERS, other)
    write(sink, Changes(ORDERS, commit=300).insert(**row(1)))

    write(sink, Changes(other, commit=200).insert(**row(2)))

    assert (target.rows(ORDERS), target.rows(other)) == ([row(1)], [row(2)])


def test_a_snapshot_in_parts_then_the_stream(target: Target) -> None:
    sink = target.sink()
    sink.position()
    taken = Position(100, 0)
    parts = [[Changes(ORDERS).read(**row(1)).batch()], [Changes(ORDERS).read(**row(2)).batch()], []]
    receipts = [_elsewhere(sink).load_part(ORDERS, part) for part in parts]

    sink.load(ORDERS, receipts, taken)
    sink.advance(taken)
    # A change that the snapshot already holds comes again, and one that it does not.
    write(sink, Changes(ORDERS, commit=90).insert(**row(1, note="old")).next().next().update(**row(2, note="new")))

    assert target.rows(ORDERS) == [row(1), row(2, note="new")]


def test_a_snapshot_that_was_interrupted_leaves_no_ghosts(target: Target) -> None:
    sink = target.sink()
    sink.position()
    first = [Changes(ORDERS).read(**row(1)).read(**row(2)).batch()]
    _elsewhere(sink).load_part(ORDERS, first)
    # Killed here. Row 1 is deleted, then the table is copied again under a later snapshot.
    sink = target.sink()
    sink.position()
    assert sink.table_position(ORDERS) is None
    second = [Changes(ORDERS, commit=200).read(**row(2)).batch()]
    sink.load(ORDERS, [_elsewhere(sink).load_part(ORDERS, second)], Position(200, 0))
    sink.advance(Position(50, 0))
    write(sink, Changes(ORDERS, commit=150).delete(id=1).next().next().next().next().next().next().insert(**row(3)))

    assert target.rows(ORDERS) == [row(2), row(3)]


def test_a_server_that_is_not_there_is_a_reason_to_wait_or_to_stop_and_is_named(place: Target) -> None:
    sink = place.unreachable()

    with pytest.raises((Retry, Stop)):
        begun_with(sink, ORDERS)

    assert [finding for finding in sink.check([]) if finding.severity == "error" and finding.remedy]


def test_wrong_credentials_are_for_a_person_and_are_not_shown(place: Target) -> None:
    sink = place.refused()
    if sink is None:
        pytest.skip("this target has no credentials")

    with pytest.raises(Stop) as raised:
        sink.position()

    assert "not-the-password" not in f"{raised.value}{sink.__dict__}{sink.check([])}"


def _elsewhere(sink: Sink) -> Any:
    """The sink as an executor gets it."""
    return pickle.loads(pickle.dumps(sink))  # noqa: S301
