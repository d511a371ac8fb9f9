"""A table of orders, its changes written by hand, and what the lake then holds: for the Delta sink's tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from headwater.event import ChangeBatch, Column, Position, TableSchema, change_schema
from headwater.sinks.delta import Delta, DeltaOptions

ORDERS = TableSchema(
    "shop",
    "orders",
    (
        Column("id", "bigint", pa.int64(), nullable=False),
        Column("note", "text", pa.string()),
        Column("body", "text", pa.string()),
        Column("qty", "integer", pa.int32()),
    ),
    key=("id",),
    identity=("id",),
)


class Changes:
    """Changes in commit order; every transaction holds one change unless told otherwise."""

    def __init__(self, table: TableSchema = ORDERS, commit: int = 100) -> None:
        self.table = table
        self.commit = commit
        self.ordinal = 0
        self.rows: list[dict[str, Any]] = []

    def _add(self, op: str, before: Any, after: Any, unchanged: Sequence[str] = ()) -> Changes:
        self.ordinal += 1
        self.rows.append(
            {
                "op": op,
                "commit": self.commit,
                "ordinal": self.ordinal,
                "lsn": self.commit,
                "commit_time": self.commit,
                "transaction_id": self.commit,
                "before": before,
                "after": after,
                "unchanged": list(unchanged) or None,
            }
        )
        return self

    def next(self) -> Changes:
        self.commit, self.ordinal = self.commit + 10, 0
        return self

    def insert(self, **row: Any) -> Changes:
        return self._add("c", None, row)

    def read(self, **row: Any) -> Changes:
        return self._add("r", None, row)

    def update(self, unchanged: Sequence[str] = (), before: Any = None, **row: Any) -> Changes:
        return self._add("u", before, row, unchanged)

    def delete(self, **before: Any) -> Changes:
        return self._add("d", before, None)

    def truncate(self) -> Changes:
        return self._add("t", None, None)

    @property
    def upto(self) -> Position:
        return Position(self.commit, self.ordinal, f"resume-{self.commit}")

    def batch(self, start: int = 0, end: int | None = None) -> ChangeBatch:
        return batch_of(self.table, self.rows[start:end])


def batch_of(table: TableSchema, rows: Sequence[dict[str, Any]]) -> ChangeBatch:
    return ChangeBatch(table, pa.RecordBatch.from_pylist(list(rows), schema=change_schema(table)))


def sink(path: Path, mode: str = "upsert", **options: Any) -> Delta:
    return Delta(DeltaOptions(path=str(path), mode=mode, **options), pipeline="shop")


def table_at(path: Path, table: TableSchema = ORDERS) -> DeltaTable:
    return DeltaTable(sink(path).lake.table_uri(table))


def rows_at(path: Path, table: TableSchema = ORDERS) -> list[dict[str, Any]]:
    """What any reader of the lake sees, by the first column."""
    read = table_at(path, table).to_pyarrow_table()
    return sorted(read.to_pylist(), key=lambda row: str(row[read.column_names[0]]).rjust(20))


def row(id: int, note: str | None = "n", body: str | None = "b", qty: int | None = 1) -> dict[str, Any]:
    return {"id": id, "note": note, "body": body, "qty": qty}


def write(to: Delta, changes: Changes, table: TableSchema | None = None) -> int:
    return to.write(table or changes.table, [changes.batch()], changes.upto).changes


def load(to: Delta, table: TableSchema, parts: Iterable[Iterable[ChangeBatch]], upto: Position) -> None:
    to.load(table, [to.load_part(table, part) for part in parts], upto)
