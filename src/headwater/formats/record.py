"""What an encoded record is: topic, key, value, headers. Light: the planner of a stream needs it and no kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        # Null when the table has no key.
        pa.field("key", pa.string()),
        # Null for a tombstone.
        pa.field("value", pa.string()),
        pa.field("headers", HEADERS),
        # The change in the batch that this record came from: one change may give up to three records.
        pa.field("change", pa.int64(), nullable=False),
    ]
)

# The same with the position of the change instead of its place in a batch: how Spark gets events.
ORDERED = pa.schema(
    [
        *(SCHEMA.field(name) for name in ("topic", "key", "value", "headers")),
        pa.field("commit", pa.int64(), nullable=False),
        pa.field("ordinal", pa.int64(), nullable=False),
        pa.field("commit_time", pa.timestamp("us", tz="UTC")),
    ]
)


@dataclass(frozen=True)
class Encoded:
    """Records in the order in which they have to be sent."""

    batches: tuple[pa.RecordBatch, ...]

    @cached_property
    def table(self) -> pa.Table:
        # Transforms may add columns: the partition and the timestamp that an event asks for.
        return pa.Table.from_batches(self.batches, None if self.batches else SCHEMA)

    def __len__(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    def __iter__(self) -> Iterator[dict[str, object]]:
        """Record by record, for printing and tests."""
        for batch in self.batches:
            yield from batch.to_pylist()
