"""Events that came from topics, as events again: rows keep the JSON they had, `source` says where they stood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from headwater.event import Column, TableSchema
from headwater.formats import names
from headwater.formats.connect import INT64, STRING, quote
from headwater.formats.connector import Moment, SourceField
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.row import ColumnForm, RowForm
from headwater.formats.text import Slot, Template, Text
from headwater.formats.writers import int_text
from headwater.sources.kafka.values import schema_of

_ZEROS = {"string": '""', "bytes": '""', "boolean": "false", "array": "[]", "map": "{}", "struct": "{}"}
_TRANSACTION = Template((Slot('"'),), '"')


@dataclass(frozen=True)
class KafkaConnector:
    """See `formats.connector.Connector`."""

    # The id of the cluster that events come from: whoever writes to it must not write what he reads.
    cluster: str
    name: ClassVar[str] = "kafka"

    def database_of(self, table: TableSchema) -> str:
        return table.schema

    def row(self, table: TableSchema, options: DebeziumOptions) -> RowForm:
        forms = tuple(_form(column, place, options) for place, column in enumerate(table.columns))
        return RowForm(table.table, forms, options.converting_failure)

    def size(self, column: Column) -> tuple[str, int | None, int | None]:
        return column.type.upper(), None, None

    def topic_parts(self, table: TableSchema) -> tuple[str, ...]:
        return (table.schema, table.name) if table.schema else (table.name,)

    def source_fields(self, table: TableSchema) -> list[SourceField]:
        some = INT64.as_optional()
        return [
            SourceField("schema", STRING, quote(table.schema)),
            SourceField("table", STRING, quote(table.name)),
            SourceField("txId", some, lambda records: int_text(records.column("transaction_id"))),
            SourceField("topic", STRING, quote(str(table.detail["topic"]))),
            SourceField("offset", some, lambda records: int_text(records.column("lsn"))),
        ]

    def sequence(self, records: pa.RecordBatch, moment: Moment) -> Text | None:
        return None

    def transaction_id(self, records: pa.RecordBatch) -> Text:
        """A record is a transaction of its own: its place in the journal."""
        return _TRANSACTION.fill([int_text(records.column("commit"))], records.num_rows)


def _form(column: Column, place: int, options: DebeziumOptions) -> ColumnForm:
    """The value's own JSON (`decode.as_json`), under the schema that it came with."""
    schema = schema_of(column)
    name = names.adjust(column.name, options.field_name_adjustment, field=True)
    return ColumnForm(column.name, place, name, schema, Text.from_arrow, _ZEROS.get(schema.type, "0"))
