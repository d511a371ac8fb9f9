"""How changes look as Spark rows: typed rows of one table, or one Debezium event a row.

A RecordBatch given to Spark must equal the declared schema to the letter, nested names included; `fit`
makes it so and refuses to lose a column.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from headwater.errors import Stop
from headwater.event import ChangeBatch, TableSchema, change_schema
from headwater.formats.connector import Moment
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.log_order import ORDERED, in_log_order
from headwater.registry import source_class
from headwater.spark.slices import Slice, read_slice
from headwater.transforms.chain import Chain
from headwater.transforms.encoder import encoder as event_encoder


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


def event_rows(
    part: Slice, facts: Mapping[str, str], options: DebeziumOptions, transforms: Chain
) -> Iterator[pa.RecordBatch]:
    """The changes of the slice as Debezium events, in log order."""
    target = arrow_schema(event_schema())
    encoder = event_encoder(options, source_class(part.source).connector(facts), transforms.events)
    for decoded in read_slice(part):
        batches = transforms.apply_all(decoded)
        now = time.time_ns()
        records = in_log_order([(batch, encoder.encode(batch, moment_of(batch, now))) for batch in batches])
        yield from records.cast(target).combine_chunks().to_batches()


def moment_of(batch: ChangeBatch, now: int) -> Moment:
    """What the events of a batch have in common; rows of a snapshot know whether they begin or end it."""
    marks = batch.records.schema.metadata or {}
    first, last = (marks.get(key, b"true").decode() for key in (b"first", b"last"))
    return Moment(now=now, first=first, last=last)


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
