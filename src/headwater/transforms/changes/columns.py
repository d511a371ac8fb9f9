"""`columns`: keeps some columns of a table, or leaves some out. Key columns stay: without them no row is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import ClassVar

import pyarrow as pa

from headwater.errors import Usage
from headwater.event import ChangeBatch, TableSchema, change_schema
from headwater.options import option
from headwater.transforms.base import ChangeOptions, ChangeTransform


@dataclass(frozen=True, kw_only=True)
class ColumnsOptions(ChangeOptions):
    """What a user may say about the choice of columns."""

    include: list[str] = option([], help="columns to keep, as patterns with *")
    exclude: list[str] = option([], help="columns to leave out, as patterns with *")


class Columns(ChangeTransform):
    """Fewer columns."""

    type: ClassVar[str] = "columns"
    options_class = ColumnsOptions
    options: ColumnsOptions

    def __init__(self, options: ColumnsOptions) -> None:
        self.options = options
        if bool(options.include) == bool(options.exclude):
            raise Usage("columns: say either include or exclude")

    def _kept(self, table: TableSchema) -> list[str]:
        patterns = self.options.include or self.options.exclude
        wanted = bool(self.options.include)
        return [
            column.name
            for column in table.columns
            if column.name in table.key or any(fnmatchcase(column.name, p) for p in patterns) == wanted
        ]

    def table(self, table: TableSchema) -> TableSchema:
        return with_columns(table, self._kept(table))

    def apply(self, batch: ChangeBatch) -> ChangeBatch:
        return keep_columns(batch, self._kept(batch.table))


def with_columns(table: TableSchema, names: Sequence[str]) -> TableSchema:
    """The table with these columns only."""
    kept = tuple(column for column in table.columns if column.name in names)
    if len(kept) == len(table.columns):
        return table
    return replace(table, columns=kept, identity=tuple(name for name in table.identity if name in names))


def keep_columns(batch: ChangeBatch, names: Sequence[str]) -> ChangeBatch:
    """The changes with these columns only."""
    table = with_columns(batch.table, names)
    if table is batch.table:
        return batch
    places = [i for i, column in enumerate(batch.table.columns) if column.name in names]
    records = batch.records
    arrays = [records.column(name) for name in ("op", "commit", "ordinal", "lsn", "commit_time", "transaction_id")]
    for side in (batch.before, batch.after):
        fields = [side.field(place) for place in places]
        arrays.append(pa.StructArray.from_arrays(fields, fields=list(table.arrow), mask=side.is_null()))
    # Names of columns that are gone do no harm there, but nobody would expect them.
    gone = [column.name for column in batch.table.columns if column.name not in names]
    arrays.append(_without(records.column("unchanged"), gone))
    schema = change_schema(table).with_metadata(records.schema.metadata)
    return ChangeBatch(table, pa.RecordBatch.from_arrays(arrays, schema=schema), batch.timeline)


def _without(unchanged: pa.ListArray, gone: Sequence[str]) -> pa.ListArray:
    if unchanged.null_count == len(unchanged):
        return unchanged
    lists = [None if row is None else [name for name in row if name not in gone] for row in unchanged.to_pylist()]
    return pa.array([row or None for row in lists], unchanged.type)
