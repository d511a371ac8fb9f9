"""Connector: what a database adds to Debezium's events. One class per database, in `sources/*/debezium.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

import pyarrow as pa

from headwater.event import ChangeBatch, Column, TableSchema
from headwater.formats.connect import Schema
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.row import RowForm
from headwater.formats.text import Text

if TYPE_CHECKING:
    from headwater.formats.debezium_records import Record
    from headwater.formats.order import Orders


@dataclass(frozen=True)
class Moment:
    """What the events of one batch have in common and the batch itself does not know."""

    # When the event is made, nanoseconds since the epoch.
    now: int
    # `source.snapshot` of the first and the last row of a snapshot batch, e.g. "first" and "last".
    first: str = "true"
    last: str = "true"
    # Per change: the end of the transaction before its own in the log, when known (PostgreSQL `sequence`). The
    # encoder takes it from the batch's timeline.
    previous: pa.Array | None = None


@dataclass(frozen=True)
class SourceField:
    """A field of the `source` block that only this database has: a constant, or a text per change."""

    name: str
    schema: Schema
    write: str | Callable[[pa.RecordBatch], Text] = "null"


class Connector(Protocol):
    """A database, as Debezium's events show it."""

    # Debezium's word for it, in `source.connector`.
    name: ClassVar[str]

    def database_of(self, table: TableSchema) -> str:
        """What `source.db` says of a table's events."""

    def row(self, table: TableSchema, options: DebeziumOptions) -> RowForm:
        """The forms of a table's columns; columns without a mapping are left out."""

    def size(self, column: Column) -> tuple[str, int | None, int | None]:
        """(type name, length, scale) of a column as the source declares it, for *.propagate.source.type."""

    def topic_parts(self, table: TableSchema) -> tuple[str, ...]:
        """What follows the prefix in the name of the table's topic."""

    def source_fields(self, table: TableSchema) -> list[SourceField]:
        """What follows `ts_ns` in the `source` block."""

    def sequence(self, records: pa.RecordBatch, moment: Moment) -> Text | None:
        """`source.sequence` as JSON text, quotes included; None where the database has none."""

    def transaction_id(self, records: pa.RecordBatch) -> Text:
        """`transaction.id` as JSON text."""


class MessageConnector(Connector, Protocol):
    """A database whose log carries messages (`TableSchema.message`)."""

    def message_records(
        self, batch: ChangeBatch, options: DebeziumOptions, moment: Moment, orders: Orders | None
    ) -> list[Record]:
        """One record for every message of the batch."""


@dataclass(frozen=True)
class Run:
    """Who runs: the values of the `__debezium.context` headers."""

    id: str = ""
    connector: str = ""
    task: str = "0"
    extra: Mapping[str, str] = field(default_factory=dict)
