"""Changes as Debezium events, one a row. Loads the formats' kernels: imported where rows are made, not planned."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pyarrow as pa

from headwater.event import ChangeBatch
from headwater.formats.connector import Moment
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.log_order import in_log_order
from headwater.registry import source_class
from headwater.spark.rows import arrow_schema, event_schema
from headwater.spark.slices import Slice, read_slice
from headwater.transforms.chain import Chain
from headwater.transforms.encoder import encoder as event_encoder


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
