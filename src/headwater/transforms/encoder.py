"""Changes → groups of events → transforms → text: `DebeziumJson` for when events are transformed on their way.

Gives what `DebeziumJson.encode` gives, with the partition and the timestamp that a transform asked for beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from headwater.event import ChangeBatch
from headwater.formats import envelope
from headwater.formats.connector import Connector, Moment, Run
from headwater.formats.debezium_json import DebeziumJson, Plan
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.debezium_records import Record
from headwater.formats.failures import leaving_out
from headwater.formats.order import Orders
from headwater.formats.record import HEADERS, SCHEMA, Encoded
from headwater.formats.text import Longs, Slot, Template, Text, blocks
from headwater.transforms.base import EventTransform
from headwater.transforms.draft import draft
from headwater.transforms.events_model import Events, Node
from headwater.transforms.plain_text import unquoted

ROUTED = pa.schema(
    [
        *SCHEMA,
        # What a transform chose; null: as the sink sees fit.
        pa.field("partition", pa.int32()),
        # Record timestamp, milliseconds since the epoch; null: now.
        pa.field("timestamp", pa.int64()),
    ]
)


class TransformingEncoder:
    """Changes → transformed Debezium JSON. One instance per thread."""

    schema: ClassVar[pa.Schema] = ROUTED

    def __init__(
        self,
        options: DebeziumOptions,
        connector: Connector,
        transforms: Sequence[EventTransform],
        run: Run | None = None,
    ) -> None:
        self.json = DebeziumJson(options, connector, run)
        self.transforms = transforms

    def encode(self, batch: ChangeBatch, moment: Moment) -> Encoded:
        """All records of the batch, in the order in which they have to be sent. Messages are not transformed."""
        if batch.table.message:
            return self.records(self.json.messages(batch, moment))
        mode = self.json.options.processing_failure
        if mode == "fail":
            return Encoded(self._blocks(batch, moment))
        return Encoded(leaving_out(self._blocks, batch, moment, mode))

    @property
    def options(self) -> DebeziumOptions:
        return self.json.options

    def records(self, made: Sequence[Record]) -> Encoded:
        """See `DebeziumJson.records`."""
        return self.json.records(made)

    def orders(self, batch: ChangeBatch) -> Orders | None:
        """See `DebeziumJson.orders`."""
        return self.json.orders(batch)

    def _blocks(self, batch: ChangeBatch, moment: Moment) -> tuple[pa.RecordBatch, ...]:
        plan = self.json.plan(batch.table)
        orders, done = self.json.orders(batch), []
        for begin, records in blocks(batch.records, plan.value_template.size):
            part = ChangeBatch(batch.table, records, batch.timeline)
            part_moment = envelope.within(moment, begin, len(part), len(batch))
            done.append(self._block(plan, part, part_moment, begin, orders))
        return tuple(block for block in done if block.num_rows)

    def _block(
        self, plan: Plan, batch: ChangeBatch, moment: Moment, begin: int, orders: Orders | None
    ) -> pa.RecordBatch:
        groups, rows = draft(plan, self.json.run, batch, moment, orders)
        for transform in self.transforms:
            groups = [
                after
                for group in groups
                for after in (transform.apply(group) if transform.applies(group) else [group])
                if len(after)
            ]
        return self._together(groups, rows + begin)

    def _together(self, groups: Sequence[Events], rows: Longs) -> pa.RecordBatch:
        """Groups as records, back in the order of the events."""
        if not groups:
            return pa.RecordBatch.from_pylist([], self.schema)
        parts = [self._records(group, rows) for group in groups]
        if len(parts) == 1:
            return parts[0]
        order = np.argsort(np.concatenate([group.order for group in groups]), kind="stable")
        table = pa.Table.from_batches(parts).take(pa.array(order)).combine_chunks()
        return table.to_batches()[0]

    def _records(self, group: Events, rows: Longs) -> pa.RecordBatch:
        count = len(group)
        arrays = [
            pa.repeat(pa.scalar(group.topic, pa.string()), count),
            *self.written(group),
            _headers(group, group.context.options),
            pa.array(rows[group.change]),
            pa.nulls(count, pa.int32()) if group.partition is None else pa.array(group.partition).cast(pa.int32()),
            pa.nulls(count, pa.int64()) if group.timestamp is None else pa.array(group.timestamp),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def written(self, group: Events) -> tuple[pa.Array, pa.Array]:
        """Keys and values as they go out."""
        count, schema = len(group), group.context.options.schemas_enable
        return _json(group.key, count, schema), _json(group.value, count, schema)


def encoder(
    options: DebeziumOptions,
    connector: Connector,
    transforms: Sequence[EventTransform] = (),
    run: Run | None = None,
) -> DebeziumJson | TransformingEncoder:
    """The fast way when nothing is transformed."""
    if not transforms:
        return DebeziumJson(options, connector, run)
    return TransformingEncoder(options, connector, transforms, run)


def _json(node: Node | None, rows: int, schema: bool) -> pa.Array:
    """As Connect's JsonConverter writes it: without a schema nothing at all, null of a schema as `null`."""
    if node is None:
        return pa.nulls(rows, pa.string())
    return _text(node, rows, schema).to_arrow()


def _text(node: Node, rows: int, schema: bool) -> Text:
    opening, closing = (f'{{"schema":{node.schema.json()},"payload":', "}") if schema else ("", "")
    slot = node.slot(opening)
    return Template((Slot(opening, slot.null, slot.unavailable),), closing).fill([node.values], rows)


def _headers(group: Events, options: DebeziumOptions) -> pa.Array:
    """Every row has the same header names; their values lie side by side, row after row."""
    rows, count = len(group), len(group.headers)
    if not count:
        return pa.nulls(rows, HEADERS)
    columns = [_header(node, rows, options) for _, node in group.headers]
    names = pa.array([name for name, _ in group.headers], pa.string())
    across = np.arange(rows)[:, None] + rows * np.arange(count)[None, :]
    values = pa.concat_arrays(columns).take(pa.array(across.ravel()))
    keys = names.take(pa.array(np.tile(np.arange(count), rows)))
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32) * count), pairs)


def _header(node: Node, rows: int, options: DebeziumOptions) -> pa.Array:
    if options.header_converter == "json":
        return _json(node, rows, options.schemas_enable)
    # Connect's default: texts as they are.
    return unquoted(node) if node.schema.type == "string" else _json(node, rows, False)
