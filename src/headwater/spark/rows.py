"""How changes look as Spark rows: the schemas, and typed rows of one table (events are in `event_rows.py`).

A RecordBatch given to Spark must equal the declared schema to the letter, nested names included; `fit`
makes it so and refuses to lose a column.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from headwater.errors import Stop
from headwater.event import ChangeBatch, TableSchema, change_schema
from headwater.formats.record import ORDERED
from headwater.spark.slices import Slice, read_slice
from headwater.transforms.chain import Chain


def table_schema(table: TableSchema) -> StructType:
    """Typed rows of one table: op, position, commit time, transaction, before, after, unchanged."""
    return from_arrow_schema(change_schema(table), prefer_timestamp_ntz=True)


def event_schema() -> StructType:
    """One event a row: topic, key and value as JSON, headers, position, commit time."""
    return from_arrow_schema(ORDERED)


def arrow_schema(schema: StructType) -> pa.Schema:
    """What Spark will compare our batches with."""
    return to_arrow_schema(schema, timezone="UTC")


def table_rows(part: Slice, schema: StructType, transforms: Chain) -> Iterator[pa.RecordBatch]:
    """The changes of the slice's one table, typed."""
    target = arrow_schema(schema)
    for batches in read_slice(part):
        for batch in transforms.apply_all(batches):
            yield fit(batch, target)


def fit(batch: ChangeBatch, target: pa.Schema) -> pa.RecordBatch:
    """The batch under the declared schema. Columns the table had not yet are null; new ones are refused."""
    arrays = []
    for field in target:
        column = batch.records.column(field.name)
        if field.name in ("before", "after"):
            column = _fit_row(column, field.type, batch.table)
        arrays.append(column.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _fit_row(rows: pa.StructArray, target: pa.StructType, table: TableSchema) -> pa.StructArray:
    have = {field.name: i for i, field in enumerate(rows.type)}
    declared = {field.name for field in target}
    unknown = [name for name in have if name not in declared]
    if unknown:
        raise Stop(
            f"{table.table} has a new column {unknown[0]!r}, which this query's schema does not have",
            "Restart the query: it then reads the table's schema anew and goes on from its checkpoint",
        )
    arrays: list[Any] = []
    for field in target:
        at = have.get(field.name)
        arrays.append(pa.nulls(len(rows), field.type) if at is None else rows.field(at).cast(field.type))
    return pa.StructArray.from_arrays(arrays, fields=list(target), mask=rows.is_null())
