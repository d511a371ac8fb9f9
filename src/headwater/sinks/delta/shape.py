"""The columns of the lake's tables: a mirror's own, a changelog's, and how an existing table may follow.

Pure: schemas in, schemas out. Today a table follows new columns; anything else stops it, because going on
would drop or change data silently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import Drift
from headwater.event import ChangeBatch, TableSchema

AWKWARD = frozenset(" ,;{}()\n\t=")

# A changelog's own columns, and where in a ChangeBatch they come from. `before` and `after` keep Debezium's names.
CHANGELOG = {
    "_headwater_op": "op",
    "_headwater_commit": "commit",
    "_headwater_ordinal": "ordinal",
    "_headwater_lsn": "lsn",
    "_headwater_commit_time": "commit_time",
    "_headwater_transaction_id": "transaction_id",
    "_headwater_unchanged": "unchanged",
    "before": "before",
    "after": "after",
}

# What tells the changes of a changelog apart: their position.
CHANGE = ("_headwater_commit", "_headwater_ordinal")


def mirror_schema(table: TableSchema) -> pa.Schema:
    """The source's columns, names and order; all nullable, as Delta cannot take a NOT NULL back."""
    return pa.schema(list(table.arrow))


def changelog_schema(table: TableSchema) -> pa.Schema:
    """One row per change."""
    return pa.schema(
        [
            pa.field("_headwater_op", pa.string()),
            pa.field("_headwater_commit", pa.int64()),
            pa.field("_headwater_ordinal", pa.int64()),
            pa.field("_headwater_lsn", pa.int64()),
            pa.field("_headwater_commit_time", pa.timestamp("us", tz="UTC")),
            pa.field("_headwater_transaction_id", pa.int64()),
            pa.field("_headwater_unchanged", pa.list_(pa.string())),
            pa.field("before", table.arrow),
            pa.field("after", table.arrow),
        ]
    )


def changelog_rows(batch: ChangeBatch) -> pa.Table:
    """A batch as rows of the changelog."""
    schema = changelog_schema(batch.table)
    return pa.Table.from_arrays([batch.records.column(source) for source in CHANGELOG.values()], schema=schema)


def mirror_rows(batch: ChangeBatch) -> pa.Table:
    """The rows of a snapshot batch: `after`, one column each."""
    after = batch.after
    if after.null_count:
        after = after.filter(pc.is_valid(after))
    return pa.Table.from_arrays(
        [after.field(at) for at in range(after.type.num_fields)], schema=mirror_schema(batch.table)
    )


def awkward(names: Iterable[str]) -> list[str]:
    """Column names that Spark reads and writes but with which it refuses ALTER TABLE, for want of column mapping.

    delta-rs writes no column mapping (1.6.6), so there is no better name to give them."""
    return [name for name in names if AWKWARD & set(name)]


def clashing(names: list[str]) -> list[str]:
    """Column names that Delta takes for one, because it does not look at case."""
    seen = Counter(name.lower() for name in names)
    return [name for name in names if seen[name.lower()] > 1]


def added(table: TableSchema, existing: pa.Schema, wanted: pa.Schema) -> bool:
    """True when `wanted` has columns that `existing` lacks. Raises Drift for any other difference."""
    grown = False
    for found in existing:
        at = wanted.get_field_index(found.name)
        if at < 0:
            raise _gone(table, found.name)
        if pa.types.is_struct(found.type):
            grown |= added(table, pa.schema(list(found.type)), pa.schema(list(wanted.field(at).type)))
        elif not same_type(found.type, wanted.field(at).type):
            raise Drift(
                f"{table.table}: the type of column {found.name!r} changed at the source:"
                f" the Delta table has {found.type}, the source now {wanted.field(at).type}",
                "load the table anew: headwater snapshot, which replaces the Delta table",
            )
    return grown or len(wanted) > len(existing)


def _gone(table: TableSchema, column: str) -> Drift:
    return Drift(
        f"{table.table}: column {column!r} of the Delta table is no longer at the source (dropped or renamed)",
        "to keep its values, copy the Delta table first",
        "then load the table anew: headwater snapshot, which replaces the Delta table",
    )


def same_type(one: pa.DataType, other: pa.DataType) -> bool:
    """Equal but for the names and nullability that Delta gives to the insides of lists and maps."""
    if pa.types.is_list(one) and pa.types.is_list(other):
        return same_type(one.value_type, other.value_type)
    if pa.types.is_map(one) and pa.types.is_map(other):
        return same_type(one.key_type, other.key_type) and same_type(one.item_type, other.item_type)
    return bool(one == other)
