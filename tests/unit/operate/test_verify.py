"""Verification against a source and a sink made of plain rows: shapes, parts on disk, reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from headwater.errors import Usage
from headwater.event import ChangeBatch, Column, Position, TableSchema, change_schema
from headwater.operate import verify
from headwater.operate.verify import Verdict, Verification, other_shape, part_of
from headwater.pipeline.definition import Definition
from headwater.sinks.base import Contents
from headwater.sources.base import CopyChunk, Snapshot

TABLE = TableSchema(
    "public",
    "orders",
    (Column("id", "bigint", pa.int64()), Column("note", "text", pa.string())),
    key=("id",),
    identity=("id",),
)
POSITION = Position(100, 0, "0/64")


class Rows:
    """A source of one table, given as rows; copied in chunks of three."""

    def __init__(self, rows: Sequence[tuple[int, str | None]], chunk_bytes: int = 0) -> None:
        self.rows = rows
        self.chunk_bytes = chunk_bytes

    def tables(self) -> list[TableSchema]:
        return [TABLE]

    @contextmanager
    def snapshot(self, tables: Sequence[TableSchema], tasks: int) -> Iterator[Snapshot]:
        starts = range(0, max(1, len(self.rows)), 3)
        yield Snapshot(POSITION, 0, [CopyChunk(TABLE, {"at": at}, self.chunk_bytes) for at in starts])

    def copy(self, chunk: CopyChunk, snapshot: Snapshot, *, events: bool = False) -> Iterator[ChangeBatch]:
        rows = self.rows[chunk.where["at"] : chunk.where["at"] + 3]
        changes = [
            {"op": "r", "commit": 100, "ordinal": 0, "after": dict(zip(("id", "note"), row, strict=True))}
            for row in rows
        ]
        yield ChangeBatch(TABLE, pa.RecordBatch.from_pylist(changes, schema=change_schema(TABLE)))


class Held:
    """A sink that holds one table, or none, or cannot be read."""

    def __init__(self, rows: Sequence[tuple[int, str | None]] | None, schema: pa.Schema | None = None) -> None:
        self.rows = rows
        self.schema = schema or pa.schema(list(TABLE.arrow))

    def contents(self, table: TableSchema) -> Contents | None:
        if self.rows is None:
            return None
        columns = list(zip(*self.rows, strict=True)) or [(), ()]
        held = pa.table([pa.array(c, f.type) for c, f in zip(columns, self.schema, strict=True)], schema=self.schema)
        return Contents(("id",), self.schema, iter(held.to_batches(max_chunksize=2)))


class Unreadable(Held):
    def contents(self, table: TableSchema) -> Contents | None:
        raise Usage("a changelog is no mirror")


def verdict(source: Rows, sink: Held) -> Verdict:
    definition = cast("Definition", SimpleNamespace(source=source, sinks={"lake": sink}))
    [found] = Verification(definition).verdicts()
    return found


ROWS = [(number, f"note {number}") for number in range(10)]


def test_a_lake_that_holds_the_same_rows_is_equal() -> None:
    found = verdict(Rows(ROWS), Held(ROWS[::-1]))

    assert found.equal
    assert found.to_json()["source_rows"] == 10


def test_a_large_table_is_compared_in_parts_from_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "PART_BYTES", 10)
    lake = [*ROWS[1:], (77, "only here")]

    assert verdict(Rows(ROWS, chunk_bytes=10), Held(ROWS)).equal
    found = verdict(Rows(ROWS, chunk_bytes=10), Held(lake))

    assert (found.difference.missing, found.difference.extra) == (1, 1)
    assert (found.difference.source_rows, found.difference.lake_rows) == (10, 10)


@pytest.mark.parametrize(
    "key", [["a", None, "ü"], [b"\xff", b"", None], [1, 2, None], [[1], [2, 3], None], [0.0, -0.0, None]]
)
def test_a_key_has_one_part_whatever_its_type(key: list[Any]) -> None:
    table = pa.table({"k": key * 2})

    parts = part_of(table, ["k"], 4)

    assert parts[:3].tolist() == parts[3:].tolist()
    assert max(parts) < 4


def test_a_table_that_the_lake_lacks_is_not_equal() -> None:
    found = verdict(Rows([]), Held(None))

    assert not found.equal
    assert found.reason == verify.NO_TABLE


def test_a_sink_that_cannot_be_compared_says_why() -> None:
    assert verdict(Rows(ROWS), Unreadable(None)).reason == "a changelog is no mirror"


def test_a_pattern_without_a_table_is_a_mistake() -> None:
    definition = cast("Definition", SimpleNamespace(source=Rows(ROWS), sinks={}))

    with pytest.raises(Usage, match="no captured table matches"):
        list(Verification(definition, ["public.typo"]).verdicts())


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (pa.schema([("id", pa.int64())]), "the columns differ: note"),
        (pa.schema([("note", pa.string()), ("id", pa.int64())]), "the columns have another order"),
        (
            pa.schema([("id", pa.int32()), ("note", pa.string())]),
            "id: the lake has int32, the source gives int64",
        ),
        (pa.schema([("id", pa.int64()), ("note", pa.large_string())]), ""),
        (pa.schema([("id", pa.int64()), ("note", pa.list_(pa.string()))]), "the lake has array<string>"),
    ],
)
def test_columns_must_have_the_source_s_names_order_and_types(schema: pa.Schema, said: str) -> None:
    found = other_shape(TABLE, schema)

    assert said in found
    assert bool(said) == bool(found)
