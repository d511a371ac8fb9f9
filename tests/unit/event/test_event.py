"""Positions, schemas and batches: plain data that survives storage and orders rightly."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import Stop
from headwater.event import (
    ORIGIN,
    ChangeBatch,
    Column,
    Position,
    TableSchema,
    change_schema,
    concat,
    qualified,
    unquoted,
)
from headwater.event.schema import arrow_from_text, arrow_to_text

TABLE = TableSchema("public", "t", (Column("id", "bigint", pa.int64()), Column("v", "text", pa.string())), ("id",))


def batch(*rows: tuple[int, int, list[str] | None]) -> ChangeBatch:
    """Rows of (commit, ordinal, unchanged)."""
    records = [
        {
            "op": "c",
            "commit": commit,
            "ordinal": ordinal,
            "lsn": commit,
            "commit_time": 0,
            "transaction_id": 1,
            "before": None,
            "after": {"id": n, "v": "x"},
            "unchanged": unchanged,
        }
        for n, (commit, ordinal, unchanged) in enumerate(rows)
    ]
    return ChangeBatch(TABLE, pa.RecordBatch.from_pylist(records, schema=change_schema(TABLE)))


def places(found: ChangeBatch) -> list[tuple[int, int]]:
    columns = (found.records.column(name).to_pylist() for name in ("commit", "ordinal"))
    return list(zip(*columns, strict=True))


@given(*[st.text(alphabet='a."', min_size=1, max_size=4)] * 4)
def test_two_tables_never_have_the_same_name(schema, name, other_schema, other_name):
    same = (schema, name) == (other_schema, other_name)
    assert (qualified(schema, name) == qualified(other_schema, other_name)) == same
    assert unquoted(qualified(schema, name)) == f"{schema}.{name}"


def test_a_name_is_quoted_only_where_it_must_be():
    names = [("public", 'Odd "name"'), ("a.b", "c"), ("a", 'b".c'), ("", "b.c"), ('"', "x")]
    assert [qualified(*name) for name in names] == ['public.Odd "name"', '"a.b".c', 'a."b"".c"', '"b.c"', '"""".x']


@given(st.integers(0, 2**63), st.integers(0, 2**40), st.text())
def test_a_position_survives_json_with_its_resume(commit, ordinal, resume):
    back = Position.from_json(Position(commit, ordinal, resume).to_json())
    assert (back.commit, back.ordinal, back.resume) == (commit, ordinal, resume)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"commit": 1}', "[1, 2]", '{"commit": "x", "ordinal": 0, "resume": ""}', "\0"]
)
def test_a_position_that_cannot_be_read_stops(text):
    with pytest.raises(Stop, match="cannot be read"):
        Position.from_json(text)


def test_positions_order_by_commit_then_ordinal_and_not_by_resume():
    assert ORIGIN < Position(1, 0) < Position(1, 1) < Position(2, 0)
    assert Position(1, 1, "b") == Position(1, 1, "a")


@pytest.mark.parametrize(
    "kind", [pa.int16(), pa.decimal128(38, 5), pa.list_(pa.decimal128(3, 1)), pa.list_(pa.list_(pa.string()))]
)
def test_a_lake_type_survives_its_name(kind):
    assert arrow_from_text(arrow_to_text(kind)) == kind


def test_a_type_that_is_not_the_lakes_is_refused_both_ways():
    with pytest.raises(TypeError):
        arrow_to_text(pa.int8())
    with pytest.raises(TypeError):
        arrow_from_text("money")


def test_a_schema_survives_json_and_its_id_follows_its_content():
    columns = (Column("ü'\n", "numeric(5,2)", pa.decimal128(5, 2), False, "1", True, {"oid": 1700}),)
    table = TableSchema("s", "t", columns, ("ü'\n",), ("ü'\n",), {"oid": 5})
    back = TableSchema.from_json(table.to_json())
    assert back == table
    assert back.id == table.id
    assert TableSchema("s", "t2", columns).id != table.id


def test_between_keeps_what_is_after_and_up_to():
    changes = batch((1, 1, None), (1, 2, None), (2, 1, None), (3, 1, None))
    assert places(changes.between(Position(1, 1), Position(2, 1))) == [(1, 2), (2, 1)]
    assert places(changes.between(None, Position(1, 2))) == [(1, 1), (1, 2)]
    assert places(changes.between(Position(3, 1), None)) == []
    assert changes.between(ORIGIN, Position(9)) is changes


def test_unchanged_masks_name_the_rows_of_every_column_also_in_a_part_of_a_batch():
    changes = batch((1, 1, ["v"]), (1, 2, None), (1, 3, ["id", "v"]), (1, 4, ["id"]))
    assert {name: mask.tolist() for name, mask in changes.unchanged_masks.items()} == {
        "v": [True, False, True, False],
        "id": [False, False, True, True],
    }
    part = ChangeBatch(TABLE, changes.records.slice(2))
    assert {name: mask.tolist() for name, mask in part.unchanged_masks.items()} == {
        "id": [True, True],
        "v": [True, False],
    }
    assert batch((1, 1, None)).unchanged_masks == {}


def test_batches_are_put_together_in_order_empty_ones_too():
    one, empty, two = batch((1, 1, None)), batch(), batch((2, 1, None), (2, 2, None))
    assert places(concat([one, empty, two])) == [(1, 1), (2, 1), (2, 2)]
    assert places(concat([empty, empty])) == []
    assert concat([empty, one]) is one
