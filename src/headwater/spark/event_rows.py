"""Changes as Debezium events, one a row. Loads the formats' kernels: imported where rows are made, not planned."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pyarrow as pa

from headwater.event import Position
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.debezium_records import heartbeat_record
from headwater.formats.record import ORDERED
from headwater.registry import source_class
from headwater.spark.rows import arrow_schema, event_schema
from headwater.spark.slices import Slice, decode_slice
from headwater.transforms.chain import Chain
from headwater.transforms.stream import EventStream


def event_rows(
    part: Slice, facts: Mapping[str, str], options: DebeziumOptions, transforms: Chain
) -> Iterator[pa.RecordBatch]:
    """The changes of the slice as Debezium events, in log order."""
    target = arrow_schema(event_schema())
    stream = EventStream(options, source_class(part.source).connector(facts), transforms)
    for decoded in decode_slice(part, events=True):
        records = stream.events(decoded, time.time_ns(), part.after, part.upto)
        yield from records.cast(target).combine_chunks().to_batches()
    if part.beat:
        yield from heartbeat(options, part.upto, time.time_ns()).cast(target).to_batches()


def heartbeat(options: DebeziumOptions, position: Position, now: int) -> pa.Table:
    """A sign of life behind everything up to `position`, as one event."""
    record = heartbeat_record(options, now // 1_000_000)
    fields = {"topic": record.topic, "key": record.key, "value": record.value, "headers": None}
    place = {"commit": position.commit, "ordinal": position.ordinal, "commit_time": None}
    return pa.Table.from_pylist([{**fields, **place}], schema=ORDERED)
