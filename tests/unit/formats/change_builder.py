"""Small tables and batches for the format tests, and an independent, slow writer of Debezium's payloads."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headwater.event import ChangeBatch, Column, TableSchema, change_schema
from headwater.sources.postgres.types import BUILTIN, PgType, lake_type, type_facts

NOW = 1_700_000_000_200_111_222
COMMIT_TIME = 1_700_000_000_123_456

_BY_NAME = {kind.name: oid for oid, kind in BUILTIN.items()}


def column(name: str, kind: str, typmod: int = -1, **more: Any) -> Column:
    """A column of a built-in type, with the catalog's own facts."""
    facts = type_facts(_BY_NAME[kind], typmod, 0, BUILTIN)
    return Column(name, kind, lake_type(facts), detail=facts, **more)


def enum_column(name: str, labels: Sequence[str], **more: Any) -> Column:
    facts = type_facts(99_999, -1, 0, {99_999: PgType(99_999, "mood", "e", "public", labels=tuple(labels))})
    return Column(name, "mood", lake_type(facts), detail=facts, **more)


def numeric(precision: int, scale: int) -> int:
    """The type modifier of numeric(precision, scale)."""
    return ((precision << 16) | scale) + 4


ORDERS = TableSchema(
    "public",
    "orders",
    (
        column("id", "int8", nullable=False),
        column("name", "text"),
        column("count", "int4", nullable=False),
        column("price", "numeric", numeric(10, 2)),
        column("made", "timestamptz"),
    ),
    key=("id",),
    identity=("id",),
    detail={"replica_identity": "d"},
)


def order(id: int, **more: Any) -> dict[str, Any]:
    made = dt.datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
    return {"id": id, "name": f"order {id}", "count": 7, "price": Decimal("1.10"), "made": made, **more}


def change(op: str, after: Any = None, before: Any = None, *, unchanged: Any = None, **more: Any) -> dict[str, Any]:
    facts = {"op": op, "after": after, "before": before, "unchanged": unchanged}
    return {**facts, "commit": 1000, "lsn": 24_023_128, "commit_time": COMMIT_TIME, "transaction_id": 555, **more}


def batch(changes: Sequence[Mapping[str, Any]], table: TableSchema = ORDERS) -> ChangeBatch:
    rows = [{"ordinal": number, **row} for number, row in enumerate(changes, 1)]
    return ChangeBatch(table, pa.RecordBatch.from_pylist(rows, schema=change_schema(table)))


def slow_order(row: Mapping[str, Any] | None) -> Any:
    """A row of ORDERS as Debezium's payload shows it, one value at a time."""
    if row is None:
        return None
    cents = None if row.get("price") is None else int(row["price"] * 100)
    return {
        "id": row["id"],
        "name": row.get("name"),
        "count": row.get("count") if row.get("count") is not None else 0,
        "price": None if cents is None else base64.b64encode(_java_bytes(cents)).decode(),
        "made": None if row.get("made") is None else row["made"].strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }


def _java_bytes(number: int) -> bytes:
    size = 1
    while not -(1 << 8 * size - 1) <= number < 1 << 8 * size - 1:
        size += 1
    return number.to_bytes(size, "big", signed=True)
