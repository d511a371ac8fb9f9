"""MySQL and MariaDB as Debezium's events show them: the `source` block, and the form of every column.

What a type looks like is in `debezium_types.py`; the envelope around it in `headwater.formats`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from headwater.event import ChangeBatch, Column, TableSchema
from headwater.formats import names
from headwater.formats.connect import INT32, INT64, STRING, quote
from headwater.formats.connector import Moment, SourceField
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.debezium_records import Record
from headwater.formats.envelope import SourceBlock
from headwater.formats.order import Orders
from headwater.formats.row import ColumnForm, RowForm
from headwater.formats.text import Longs, Slot, Template, Text
from headwater.formats.writers import int_text, long_text, longs_of, string_text
from headwater.sources.mysql import binlog
from headwater.sources.mysql.debezium_defaults import default_text
from headwater.sources.mysql.debezium_schema_change import schema_change_record
from headwater.sources.mysql.debezium_types import shape
from headwater.sources.mysql.decode import TRANSACTIONS
from headwater.sources.mysql.position import FILE_BITS
from headwater.sources.mysql.schema_change import table_changes

_PLACE = Template((Slot('"file='), Slot(",pos=")), '"')


@dataclass(frozen=True)
class BinlogConnector:
    """See `formats.connector.Connector`."""

    # Names of the log's files: what stands before the number, and its digits.
    log: str
    digits: int
    name: ClassVar[str] = "mysql"

    def database_of(self, table: TableSchema) -> str:
        return table.schema

    def row(self, table: TableSchema, options: DebeziumOptions) -> RowForm:
        forms = tuple(column_form(column, place, options) for place, column in enumerate(table.columns))
        return RowForm(table.table, forms, options.converting_failure)

    def size(self, column: Column) -> tuple[str, int | None, int | None]:
        facts = column.detail
        return str(facts["type"]).upper(), facts.get("length"), facts.get("scale")

    def topic_parts(self, table: TableSchema) -> tuple[str, ...]:
        return (table.schema, table.name)

    def source_fields(self, table: TableSchema) -> list[SourceField]:
        return [
            SourceField("table", STRING.as_optional(), quote(table.name)),
            SourceField("server_id", INT64, lambda records: long_text(transactions(records).servers)),
            SourceField("gtid", STRING.as_optional(), lambda records: string_text(transactions(records).gtids)),
            SourceField("file", STRING, lambda records: string_text(self._files(records))),
            SourceField("pos", INT64, lambda records: long_text(_addresses(records) & (1 << FILE_BITS) - 1)),
            SourceField("row", INT32, lambda records: long_text(_rows(records))),
            SourceField("thread", INT64.as_optional(), lambda records: int_text(transactions(records).threads)),
            SourceField("query", STRING.as_optional()),
        ]

    def message_records(
        self, batch: ChangeBatch, options: DebeziumOptions, moment: Moment, orders: Orders | None
    ) -> list[Record]:
        """See `formats.connector.MessageConnector`: changes of definitions."""
        made = []
        for row, message in enumerate(batch.after.to_pylist()):
            changes = table_changes(message["changes"])
            tables = ",".join(change.name[1] for change in changes)
            block = SourceBlock(TableSchema(message["database"], tables, ()), options, self)
            text = Template(block.slots, block.end).fill(block.texts(batch.records.slice(row, 1), moment), 1)
            source, now = text.to_arrow()[0].as_py(), moment.now // 1_000_000
            made.append(schema_change_record(message, changes, options, source, block.schema, now))
        return made

    def sequence(self, records: pa.RecordBatch, moment: Moment) -> Text | None:
        return None

    def transaction_id(self, records: pa.RecordBatch) -> Text:
        """The GTID; without one, where the transaction stands."""
        gtids = transactions(records).gtids
        if gtids.null_count == 0:
            return string_text(gtids)
        pos = long_text(_addresses(records) & (1 << FILE_BITS) - 1)
        files = Template((Slot(""),), "").fill([_unquoted(self._files(records))], records.num_rows)
        return _PLACE.fill([files, pos], records.num_rows)

    def _files(self, records: pa.RecordBatch) -> pa.Array:
        numbers, places = np.unique(_addresses(records) >> FILE_BITS, return_inverse=True)
        texts = [f"{self.log}.{number:0{self.digits}}" for number in numbers.tolist()]
        return pa.array(texts, pa.string()).take(pa.array(places.astype(np.int64)))


class MariaDbConnector(BinlogConnector):
    """The same under another name."""

    name: ClassVar[str] = "mariadb"


def _unquoted(array: pa.Array) -> Text:
    return Text.from_arrow(array)


def _addresses(records: pa.RecordBatch) -> Longs:
    return longs_of(records.column("lsn"))


def _rows(records: pa.RecordBatch) -> Longs:
    """The number of each change in its event: events hold the changes of one table, one behind the other."""
    if not records.num_rows or records.column("op")[0].as_py() == "r":
        return np.zeros(records.num_rows, dtype=np.int64)
    address, ordinal = _addresses(records), longs_of(records.column("ordinal"))
    begins = np.ones(address.size, dtype=bool)
    begins[1:] = address[1:] != address[:-1]
    first: Longs = ordinal[begins]
    return np.asarray(ordinal - first[np.cumsum(begins) - 1], dtype=np.int64)


@dataclass(frozen=True)
class Transactions:
    """What the log says of each change's transaction."""

    gtids: pa.Array
    servers: Longs
    # The session that wrote it; null where the log does not say.
    threads: pa.Array


def transactions(records: pa.RecordBatch) -> Transactions:
    """One entry per change, from the begin frames that came with the batch."""
    frames = (records.schema.metadata or {}).get(TRANSACTIONS, b"")
    commits, gtids, servers, threads = [], [], [], []
    at = 0
    while at < len(frames):
        header = binlog.parse_header(frames[at : at + binlog.HEADER_BYTES])
        body = frames[at + binlog.HEADER_BYTES : at + header.size]
        commits.append(binlog.BEGIN.unpack_from(body)[0])
        gtids.append(body[binlog.BEGIN.size :].decode() or None)
        servers.append(header.server_id)
        threads.append(header.end or None)
        at += header.size
    rows = records.num_rows
    if not commits:
        return Transactions(pa.nulls(rows, pa.string()), np.zeros(rows, np.int64), pa.nulls(rows, pa.int64()))
    places = np.searchsorted(np.array(commits), longs_of(records.column("commit")))
    indices = pa.array(places)
    return Transactions(
        pa.array(gtids, pa.string()).take(indices),
        np.array(servers, dtype=np.int64)[places],
        pa.array(threads, pa.int64()).take(indices),
    )


def column_form(column: Column, place: int, options: DebeziumOptions) -> ColumnForm:
    """A column's form."""
    found = shape(column.detail, column.arrow, options)
    schema = found.schema.as_optional(column.nullable)
    default = default_text(column, found)
    if default is not None:
        schema = replace(schema, default=default)
    if options.include_schema_comments and column.detail.get("comment"):
        schema = replace(schema, doc=column.detail["comment"])
    name = names.adjust(column.name, options.field_name_adjustment, field=True)
    return ColumnForm(column.name, place, name, schema, found.write, found.zero)
