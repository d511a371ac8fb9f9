"""Debezium's events as JSON: key, value, topic and headers of every change, put together by columns.

The envelope is database-neutral; what a database adds comes from its Connector, how a column looks from its
ColumnForm. Records that are no row changes (transactions, heartbeats, messages) are in `debezium_records.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from headwater.errors import Stop
from headwater.event import ChangeBatch, TableSchema
from headwater.formats import envelope, kernels, names
from headwater.formats.column_options import ColumnRules
from headwater.formats.connect import STRING, quote
from headwater.formats.connector import Connector, MessageConnector, Moment, Run
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.debezium_records import Record
from headwater.formats.failures import leaving_out
from headwater.formats.order import Orders
from headwater.formats.record import HEADERS, SCHEMA, Encoded
from headwater.formats.row import key_form
from headwater.formats.split import Records, split
from headwater.formats.text import (
    NONE,
    PACK,
    Bytes,
    Mask,
    Slot,
    Template,
    Text,
    blocks,
    bytes_of,
    null_state,
)


class DebeziumJson:
    """Changes → Debezium JSON. Keeps what it worked out per table; one instance per thread."""

    def __init__(self, options: DebeziumOptions, connector: Connector, run: Run | None = None) -> None:
        self.options = options
        self.connector = connector
        self.run = run or Run(connector=connector.name)
        self._plans: dict[str, Plan] = {}
        self._orders: Orders | None = None

    def plan(self, table: TableSchema) -> Plan:
        """What is constant for a table under one schema."""
        found = self._plans.get(table.id)
        if found is None:
            found = self._plans[table.id] = Plan(table, self.options, self.connector, self.run)
        return found

    def encode(self, batch: ChangeBatch, moment: Moment) -> Encoded:
        """All records of the batch. The same batch and moment give the same bytes."""
        if batch.table.message:
            return self.records(self.messages(batch, moment))
        mode = self.options.processing_failure
        if mode == "fail":
            return Encoded(self._blocks(batch, moment))
        return Encoded(leaving_out(self._blocks, batch, moment, mode))

    def orders(self, batch: ChangeBatch) -> Orders | None:
        """The numbers of events in their transactions; None when nobody asked for them. Of all tables of a chunk."""
        timeline = batch.timeline
        if not self.options.provide_transaction_metadata or timeline is None:
            return None
        if self._orders is None or self._orders.timeline is not timeline:
            skipped = self.options.skipped_operations
            self._orders = Orders(timeline, skipped, lambda table: event_key(self.options, table))
        return self._orders

    def messages(self, batch: ChangeBatch, moment: Moment) -> list[Record]:
        """Logical messages. Not by columns: there are few of them."""
        connector = cast("MessageConnector", self.connector)
        return connector.message_records(batch, self.options, envelope.beside(moment, batch), self.orders(batch))

    def records(self, made: Sequence[Record]) -> Encoded:
        """Records that were made one by one, one for each change."""
        count = len(made)
        columns = ([getattr(record, name) for record in made] for name in ("topic", "key", "value"))
        texts = [pa.array(column, pa.string()) for column in columns]
        arrays = [*texts, pa.nulls(count, HEADERS), pa.array(range(count), pa.int64())]
        return Encoded((pa.RecordBatch.from_arrays(arrays, schema=SCHEMA),) if count else ())

    def _blocks(self, batch: ChangeBatch, moment: Moment) -> tuple[pa.RecordBatch, ...]:
        plan = self.plan(batch.table)
        rows = len(batch)
        orders = self.orders(batch)
        done = []
        for begin, records in blocks(batch.records, plan.value_template.size):
            part = ChangeBatch(batch.table, records, batch.timeline)
            done.append(plan.encode(part, envelope.within(moment, begin, len(part), rows), begin, orders))
        return tuple(block for block in done if block.num_rows)


class Plan:
    """One table's constants: names, schemas, templates."""

    def __init__(self, table: TableSchema, options: DebeziumOptions, connector: Connector, run: Run) -> None:
        self.table = table
        self.options = options
        self.connector = connector
        self.topic = names.topic_name(options, *connector.topic_parts(table))
        whole = connector.row(table, options)
        self.row = ColumnRules(options).row(whole, table, connector.size)
        self.key_columns = event_key(options, table)
        self.key = key_form(whole, self.key_columns)
        self.skipped = np.array([ord(letter) for letter in options.skipped_operations if letter != "none"], np.uint8)
        self.source = envelope.SourceBlock(table, options, connector)
        self.value_template = self._value_template()
        self.key_template = self._key_template()
        self.context = _context_headers(options, run)
        self.repeated = pa.array([], HEADERS)
        self.header_key = self._header_key()

    def schema_name(self, kind: str) -> str:
        """`<topic>.Key`, `<topic>.Value`, `<topic>.Envelope`."""
        return names.adjust(f"{self.topic}.{kind}", self.options.schema_name_adjustment)

    def _value_template(self) -> Template:
        row = self.row.schema(self.schema_name("Value"), optional=True)
        schema = envelope.value_schema(self.schema_name("Envelope"), row, self.source.schema)
        opening = f'{{"schema":{schema.json()},"payload":{{' if self.options.schemas_enable else "{"
        block = self.source.slots
        slots = (
            Slot(f'{opening}"before":'),
            Slot(',"after":'),
            Slot(',"source":' + block[0].before),
            *block[1:],
            Slot(self.source.end + ',"transaction":'),
            Slot(',"op":"'),
        )
        return Template(slots, "")

    def _value_end(self, moment: Moment) -> str:
        closing = "}}" if self.options.schemas_enable else "}"
        now = moment.now
        return f'","ts_ms":{now // 1_000_000},"ts_us":{now // 1000},"ts_ns":{now}{closing}'

    def _key_template(self) -> Template | None:
        if self.key is None:
            return None
        if not self.options.schemas_enable:
            return Template((Slot("", "", ""),), "")
        schema = self.key.schema(self.schema_name("Key"))
        return Template((Slot(f'{{"schema":{schema.json()},"payload":', "", ""),), "}")

    def _header_key(self) -> Template:
        """A key as the value of a header."""
        if self.key_template is not None and self.options.header_converter == "json":
            return self.key_template
        return PACK

    def encode(self, batch: ChangeBatch, moment: Moment, begin: int, orders: Orders | None) -> pa.RecordBatch:
        """The records of one block; `begin` is the block's first row in the batch."""
        changes = np.arange(begin, begin + len(batch), dtype=np.int64)
        keep = self.wanted(batch)
        if not keep.all():
            batch, changes = batch.filter(pa.array(keep)), changes[keep]
        moment = envelope.beside(moment, batch)
        after_key, before_key = self.keys(batch)
        records = self.records(batch, after_key, before_key)
        values = self._values(batch, moment, records, orders)
        rows = len(records.change)
        arrays = [
            pa.repeat(pa.scalar(self.topic, pa.string()), rows),
            self._key_text(records, after_key, before_key, rows),
            values.to_arrow(),
            self._headers(records, after_key, before_key, rows),
            pa.array(changes[records.change]),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    def wanted(self, batch: ChangeBatch) -> Mask:
        """Which changes may give events. An update that changes its key is none any more: its halves decide."""
        return ~np.isin(op_letters(batch), self.skipped[self.skipped != ord("u")])

    def records(self, batch: ChangeBatch, after_key: Text | None, before_key: Text | None) -> Records:
        """Which records the changes give."""
        made = split(op_letters(batch), after_key, before_key, tombstones=self.options.tombstones_on_delete)
        return made.without(self.skipped) if self.skipped.size else made

    def keys(self, batch: ChangeBatch) -> tuple[Text | None, Text | None]:
        """Key payloads of the rows after and before; None where the batch has no such rows."""
        if self.key is None:
            return None, None
        letters = op_letters(batch)
        before = None
        if batch.before.null_count < len(batch):
            known = set(self.table.identity) or {column.name for column in self.table.columns}
            if known.issuperset(self.key_columns):
                before = self.key.text(batch.before)
            elif bool((letters == ord("d")).any()):
                raise self._unknown_key()
        after = self.key.text(batch.after)
        return after, before

    def _unknown_key(self) -> Stop:
        table = self.table.table
        return Stop(
            f"a delete of {table} does not carry the event key ({', '.join(self.key_columns)})",
            f"alter table {table} replica identity full;",
            f"or take the identity's columns as key: message.key.columns: {table}:{','.join(self.table.identity)}",
            cause=f"its REPLICA IDENTITY names other columns: {', '.join(self.table.identity)}",
        )

    def _values(self, batch: ChangeBatch, moment: Moment, records: Records, orders: Orders | None) -> Text:
        unchanged = batch.unchanged_masks
        after = batch.after
        if unchanged:
            after, unchanged = envelope.from_before(batch, unchanged)
        count = len(batch)
        columns = [
            self.row.text(batch.before) if batch.before.null_count < count else Text.nulls(count),
            self.row.text(after, unchanged) if after.null_count < count else Text.nulls(count),
            *self.source.texts(batch.records, moment),
        ]
        letters = records.letters
        if records.index is not None:
            columns = [column.take(records.index) for column in columns]
            columns[0] = columns[0].marked(letters == ord("c"), kernels.NULL)
            columns[1] = columns[1].marked(letters == ord("d"), kernels.NULL)
        columns.append(self._transaction(batch, records, orders))
        places = np.arange(len(letters) + 1, dtype=np.int64)
        columns.append(Text(letters, places[:-1], places[1:]))
        text = self.value_template.fill(columns, len(letters), self._value_end(moment))
        return records.spread(text)

    def _transaction(self, batch: ChangeBatch, records: Records, orders: Orders | None) -> Text:
        """The `transaction` block; null for snapshot rows and when it was not asked for."""
        if orders is None:
            return Text.nulls(len(records.letters))
        total, own = orders.numbers(batch.records, records)
        name = self.connector.transaction_id(batch.records)
        name = name.with_state(null_state(batch.records.column("transaction_id")))
        name = name if records.index is None else name.take(records.index)
        return envelope.transaction_text(name, total, own, name.state)

    def _key_text(self, records: Records, after: Text | None, before: Text | None, rows: int) -> pa.Array:
        if self.key_template is None or after is None:
            return pa.nulls(rows, pa.string())
        payload = records.key(after, before)
        text = payload
        if self.options.schemas_enable:
            text = self.key_template.fill([payload], rows).with_state(payload.state)
        return text.to_arrow()

    def _headers(self, records: Records, after: Text | None, before: Text | None, rows: int) -> pa.Array:
        """The context headers in every record; new and old key first where an update changed the key."""
        if records.index is None or before is None or after is None or not records.has_split:
            return self._same_headers(rows)
        changed = self._changed_headers(records, after, before)
        return pa.array([changed.get(row, self.context or None) for row in range(rows)], HEADERS)

    def _same_headers(self, rows: int) -> pa.Array:
        """The context headers `rows` times. Kept: repeating them costs as much as all the rest of an event."""
        if len(self.repeated) < rows:
            self.repeated = pa.repeat(pa.scalar(self.context or None, HEADERS), max(rows, 2 * len(self.repeated)))
        return self.repeated[:rows]

    def _changed_headers(self, records: Records, after: Text, before: Text) -> dict[int, list[dict[str, str]]]:
        found = {}
        for row in np.flatnonzero(records.halves).tolist():
            new = records.halves[row] == ord("d")
            side = after if new else before
            change = np.array([records.change[row]], dtype=np.int64)
            key = self.header_key.fill([side.take(change).with_state(NONE)], 1).to_arrow()[0].as_py()
            name = "__debezium.newkey" if new else "__debezium.oldkey"
            found[row] = [{"key": name, "value": key}, *self.context]
        return found


def event_key(options: DebeziumOptions, table: TableSchema) -> Sequence[str]:
    """The columns of the key: what message.key.columns says, or the table's own."""
    return names.key_columns(options, table.unquoted, [column.name for column in table.columns], table.event_key)


def op_letters(batch: ChangeBatch) -> Bytes:
    """`op` as bytes: every operation is one letter."""
    data, offsets = bytes_of(batch.op)
    return data[offsets[0] : offsets[-1]]


def _context_headers(options: DebeziumOptions, run: Run) -> list[dict[str, str]]:
    values = context_values(options, run)
    if options.header_converter == "json":
        values = {name: _json_header(value, options.schemas_enable) for name, value in values.items()}
    return [{"key": name, "value": value} for name, value in values.items()]


def context_values(options: DebeziumOptions, run: Run) -> dict[str, str]:
    """The headers that every record of a run has."""
    if not options.extended_headers:
        return {}
    values = {
        "connectorLogicalName": options.topic_prefix,
        "taskId": run.task,
        "connectorName": run.connector,
        **({"runId": run.id} if run.id else {}),
    }
    return {f"__debezium.context.{name}": value for name, value in values.items()}


def _json_header(text: str, schema: bool) -> str:
    return f'{{"schema":{STRING.json()},"payload":{quote(text)}}}' if schema else quote(text)
