"""PostgreSQL as Debezium's events show it: the `source` block, and the form of every column.

What a type looks like is in `debezium_types.py`; the envelope around it in `headwater.formats`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from headwater.event import ChangeBatch, Column, TableSchema
from headwater.formats import names
from headwater.formats.connect import INT64, STRING, quote
from headwater.formats.connector import Moment, SourceField
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.debezium_records import Record
from headwater.formats.envelope import source_schema
from headwater.formats.order import Orders
from headwater.formats.row import ColumnForm, RowForm
from headwater.formats.split import one_each
from headwater.formats.text import Slot, Template, Text, null_state
from headwater.formats.writers import int_text, long_text, longs_of
from headwater.sources.postgres.debezium_defaults import default_text
from headwater.sources.postgres.debezium_message import Message, message_record
from headwater.sources.postgres.debezium_size import column_size
from headwater.sources.postgres.debezium_types import shape

# A JSON array of two strings, inside a JSON string.
_SEQUENCE = Template((Slot('"['), Slot(",")), ']"')
_QUOTED = Template((Slot('\\"', "", ""),), '\\"')
_TRANSACTION = Template((Slot('"'), Slot(":")), '"')


@dataclass(frozen=True)
class PostgresConnector:
    """See `formats.connector.Connector`."""

    database: str
    name: ClassVar[str] = "postgresql"

    def database_of(self, table: TableSchema) -> str:
        return self.database

    def row(self, table: TableSchema, options: DebeziumOptions) -> RowForm:
        forms = (column_form(column, place, options) for place, column in enumerate(table.columns))
        return RowForm(table.table, tuple(form for form in forms if form is not None), options.converting_failure)

    def size(self, column: Column) -> tuple[str, int | None, int | None]:
        return column_size(column)

    def topic_parts(self, table: TableSchema) -> tuple[str, ...]:
        return (table.schema, table.name)

    def source_fields(self, table: TableSchema) -> list[SourceField]:
        return self.source_fields_of(table.schema, table.name)

    def source_fields_of(self, schema: str, table: str) -> list[SourceField]:
        """PostgreSQL's part of `source`; both names are empty in a logical message."""
        some = INT64.as_optional()
        return [
            SourceField("schema", STRING, quote(schema)),
            SourceField("table", STRING, quote(table)),
            SourceField("txId", some, lambda records: int_text(records.column("transaction_id"))),
            SourceField("lsn", some, lambda records: int_text(records.column("lsn"))),
            SourceField("xmin", some),
            SourceField("origin", STRING.as_optional()),
            SourceField("origin_lsn", some),
        ]

    def sequence(self, records: pa.RecordBatch, moment: Moment) -> Text | None:
        """`[end of the transaction before, this change]`, the first null when it is not known."""
        lsn = records.column("lsn")
        rows = len(lsn)
        before = Text.nulls(rows)
        if moment.previous is not None:
            before = _QUOTED.fill([int_text(moment.previous)], rows).with_state(null_state(moment.previous))
        own = _QUOTED.fill([long_text(longs_of(lsn))], rows).with_state(null_state(lsn))
        return _SEQUENCE.fill([before, own], rows)

    def transaction_id(self, records: pa.RecordBatch) -> Text:
        """`<xid>:<lsn of the event>`."""
        xid, lsn = records.column("transaction_id"), records.column("lsn")
        return _TRANSACTION.fill([int_text(xid), int_text(lsn)], len(xid))

    def message_records(
        self, batch: ChangeBatch, options: DebeziumOptions, moment: Moment, orders: Orders | None
    ) -> list[Record]:
        """See `formats.connector.MessageConnector`."""
        schema = source_schema(self.name, self.source_fields_of("", ""))
        records, now = batch.records, moment.now // 1_000_000
        count = len(batch)
        total, own = (None, None) if orders is None else orders.numbers(records, one_each(count))
        made = []
        for row, fields in enumerate(records.select(["lsn", "commit_time", "transaction_id", "after"]).to_pylist()):
            message = Message(
                prefix=fields["after"]["prefix"],
                content=fields["after"]["content"],
                lsn=fields["lsn"],
                time=records.column("commit_time")[row].value,
                xid=fields["transaction_id"],
                previous=None if moment.previous is None else moment.previous[row].as_py(),
                order=None if total is None or own is None else (int(total[row]), int(own[row])),
            )
            made.append(message_record(message, options, self.database, schema, now))
        return made


def column_form(column: Column, place: int, options: DebeziumOptions) -> ColumnForm | None:
    """A column's form; None for a type that Debezium leaves out."""
    found = shape(column.detail, column.arrow, options)
    if found is None:
        return None
    schema = found.schema.as_optional(column.nullable)
    default = default_text(column, found)
    if default is not None:
        schema = replace(schema, default=default)
    if options.include_schema_comments and column.detail.get("comment"):
        schema = replace(schema, doc=column.detail["comment"])
    name = names.adjust(column.name, options.field_name_adjustment, field=True)
    return ColumnForm(column.name, place, name, schema, found.write, found.zero, found.unavailable)
