"""The parts of Debezium's envelope that are the same for every database: its schema, `source`, `transaction`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.event import ChangeBatch, TableSchema
from headwater.formats.connect import INT64, STRING, Schema, quote, struct
from headwater.formats.connector import Connector, Moment, SourceField
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.text import Bytes, Longs, Mask, Slot, Template, Text, bytes_of, literal, null_state
from headwater.formats.writers import long_text, longs_of

SNAPSHOT_VALUES = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
SNAPSHOT = Schema(
    "string",
    optional=True,
    name="io.debezium.data.Enum",
    version=1,
    parameters=(("allowed", SNAPSHOT_VALUES),),
    default='"false"',
)
TRANSACTION = struct(
    "event.block",
    [("id", STRING), ("total_order", INT64), ("data_collection_order", INT64)],
    optional=True,
    version=1,
)
_TRANSACTION = Template((Slot('{"id":'), Slot(',"total_order":'), Slot(',"data_collection_order":')), "}")
_READ = ord("r")


def value_schema(name: str, row: Schema, source: Schema) -> Schema:
    """The envelope of a table's events."""
    some = INT64.as_optional()
    fields = [("before", row), ("after", row), ("source", source), ("transaction", TRANSACTION)]
    fields += [("op", STRING), ("ts_ms", some), ("ts_us", some), ("ts_ns", some)]
    return struct(name, fields, version=2)


class SourceBlock:
    """`source`: constants as literals, the rest as columns."""

    def __init__(self, table: TableSchema, options: DebeziumOptions, connector: Connector) -> None:
        self.connector = connector
        self.suffix = connector.source_fields(table)
        self.schema = source_schema(connector.name, self.suffix)
        start = (
            f'{{"version":{quote(options.version)},"connector":{quote(connector.name)},'
            f'"name":{quote(options.topic_prefix)},"ts_ms":'
        )
        slots = [
            Slot(start),
            Slot(',"snapshot":'),
            Slot(f',"db":{quote(connector.database_of(table))},"sequence":'),
            Slot(',"ts_us":'),
            Slot(',"ts_ns":'),
        ]
        open_end = ""
        for field in self.suffix:
            open_end += f",{quote(field.name)}:"
            if isinstance(field.write, str):
                open_end += field.write
            else:
                slots.append(Slot(open_end))
                open_end = ""
        self.slots = tuple(slots)
        self.end = open_end + "}"

    def texts(self, records: pa.RecordBatch, moment: Moment) -> list[Text]:
        """The columns for `slots`."""
        times = records.column("commit_time")
        micros = longs_of(times)
        if times.null_count:
            # A change without a commit time gets the time at which we saw it.
            micros = np.where(null_state(times) != 0, moment.now // 1000, micros)
        sequence = self.connector.sequence(records, moment)
        return [
            long_text(micros // 1000),
            snapshot_text(records.column("op"), moment),
            Text.nulls(len(times)) if sequence is None else sequence,
            long_text(micros),
            long_text(micros * 1000),
            *(field.write(records) for field in self.suffix if not isinstance(field.write, str)),
        ]


def source_schema(connector: str, suffix: list[SourceField]) -> Schema:
    """The schema of `source` for a connector."""
    some = INT64.as_optional()
    fields = [("version", STRING), ("connector", STRING), ("name", STRING), ("ts_ms", INT64), ("snapshot", SNAPSHOT)]
    fields += [("db", STRING), ("sequence", STRING.as_optional()), ("ts_us", some), ("ts_ns", some)]
    fields += [(field.name, field.schema) for field in suffix]
    return struct(f"io.debezium.connector.{connector}.Source", fields, version=1)


def snapshot_text(op: pa.Array, moment: Moment) -> Text:
    """`source.snapshot`: false for streamed changes; a snapshot's first and last row may say so."""
    words = [quote("false"), quote("true"), quote(moment.first), quote(moment.last)]
    data, offsets = bytes_of(op)
    read = data[offsets[:-1]] == _READ if len(op) else np.zeros(0, dtype=bool)
    code: Longs = read.astype(np.int64)
    if len(op) and read[0] and moment.first != "true":
        code[0] = 2
    # Of a single row: the last of all, the first of all, the last of its table, the first of its table.
    only_first = len(op) == 1 and moment.first == "first" and moment.last != "last"
    if len(op) and read[-1] and moment.last != "true" and not only_first:
        code[-1] = 3
    ends = np.cumsum([0, *map(len, words)])
    return Text(literal("".join(words)), ends[code], ends[code + 1])


def transaction_text(id: Text, total: Longs, own: Longs, state: Bytes) -> Text:
    """The `transaction` block of every event."""
    return _TRANSACTION.fill([id, long_text(total), long_text(own)], len(id)).with_state(state)


def within(moment: Moment, begin: int, rows: int, total: int) -> Moment:
    """The moment of a part of a batch."""
    return replace(
        moment,
        first=moment.first if begin == 0 else "true",
        last=moment.last if begin + rows == total else "true",
    )


def beside(moment: Moment, batch: ChangeBatch) -> Moment:
    """The moment with what the batch's timeline knows of its changes."""
    if batch.timeline is None:
        return moment
    places = batch.timeline.places(*(longs_of(batch.records.column(name)) for name in ("commit", "ordinal")))
    previous = batch.timeline.previous[places]
    return replace(moment, previous=pa.array(previous, mask=previous == 0))


def from_before(batch: ChangeBatch, unchanged: Mapping[str, Mask]) -> tuple[pa.StructArray, dict[str, Mask]]:
    """`after` with values that the log left out taken from `before`, where that has them; and what is still out.

    Only REPLICA IDENTITY FULL logs the old value of a column that did not change."""
    table, before, after = batch.table, batch.before, batch.after
    if before.null_count == len(batch) or not set(unchanged) & set(table.identity):
        return after, dict(unchanged)
    known = before.is_valid().to_numpy(zero_copy_only=False)
    fields, left = [], {}
    for i, column in enumerate(table.columns):
        values = after.field(i)
        mask: Bytes | Mask | None = unchanged.get(column.name)
        if mask is not None:
            taken = mask & known & (column.name in table.identity)
            values = pc.if_else(pa.array(taken), before.field(i), values)
            if (mask & ~taken).any():
                left[column.name] = mask & ~taken
        fields.append(values)
    return pa.StructArray.from_arrays(fields, fields=list(table.arrow), mask=after.is_null()), left
