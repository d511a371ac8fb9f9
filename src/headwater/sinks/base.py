"""Sink: where changes go. One file per target; the contract suite runs over every sink it finds.

A sink stores its position with its data, table by table, so that a replayed batch, a lost checkpoint or
a second attempt has no second effect.
"""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from headwater.errors import Usage
from headwater.event import ChangeBatch, Position, TableSchema
from headwater.sources.base import Finding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class SinkOptions:
    """Options that every sink has (none yet)."""


@dataclass(frozen=True)
class Written:
    """What one `write` did, for status and metrics."""

    table: str
    changes: int
    seconds: float


@dataclass(frozen=True)
class Contents:
    """A table as a reader of the target finds it; for comparing it with its source."""

    # The columns by which the sink tells rows apart.
    key: tuple[str, ...]
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


class Sink(ABC):
    """Where changes go. Pickled to executors before it is opened: keep connections out of __init__."""

    type: ClassVar[str]
    options_class: ClassVar[builtins.type[SinkOptions]]
    # A sink of events is no mirror of tables: `write` is given the log's messages too, as changes of a table with
    # `TableSchema.message` (never loaded), and values that no lake type can hold as text (`Source.decode_events`).
    writes_events: ClassVar[bool] = False
    # What the pipeline file calls this sink; the definition sets it.
    name: str = ""

    @abstractmethod
    def __init__(self, options: Any, *, pipeline: str) -> None:
        """Keeps the options; does no I/O."""

    def check(self, tables: Sequence[TableSchema]) -> list[Finding]:
        """Is the target reachable, can every table be written? Changes nothing."""
        return []

    def warm_up(self) -> None:
        """Load what `write` needs, on an executor: the first batch should not wait for it."""
        self.position()

    @abstractmethod
    def position(self) -> Position | None:
        """The position this sink as a whole has reached; None before the first. Asked once at start, by the one run
        that is to write: who wrote before must not be able to from then on, where the target can see to that."""

    @abstractmethod
    def table_position(self, table: TableSchema) -> Position | None:
        """The position one table has reached; None when the table was never loaded."""

    @abstractmethod
    def write(self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position) -> Written:
        """Apply `batches` (in commit order, newest schema = `table`) and remember `upto`, together.

        Runs on an executor; one task at a time owns a table. Called again with the same or older changes
        after a crash: what is at or before the table's own position must have no second effect. Raise
        Rejected for a record that will never fit; anything else raised is retried."""

    @abstractmethod
    def load_part(self, table: TableSchema, rows: Iterable[ChangeBatch]) -> str:
        """Write one part of a table's snapshot so that no reader sees it yet; return a receipt.

        Runs on an executor, several parts of one table at a time. A part whose receipt gets lost must do
        no harm."""

    @abstractmethod
    def load(self, table: TableSchema, receipts: Sequence[str], upto: Position) -> None:
        """Make exactly the parts with these receipts the table's content, at `upto`, in one step."""

    @abstractmethod
    def advance(self, upto: Position) -> None:
        """Every table is durable up to `upto`: remember it for `position`. Runs on the driver."""

    def replay(self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position) -> Written:
        """Apply again what the table holds already: all its changes in a range that ends at `upto`.

        The table then is as if they had been decoded so the first time; no position moves. Optional: Usage when
        the target cannot take a change twice, or not to that position."""
        raise Usage(f"a sink of type {self.type} cannot be replayed into")

    def contents(self, table: TableSchema) -> Contents | None:
        """What the target holds of a table now; None when it has no such table. Optional: Usage when the target
        is no mirror of the source or cannot be read."""
        raise Usage(f"what is in a sink of type {self.type} cannot be compared with the source")

    # -- targets that take the log as a whole ----------------------------------------------------------

    def takes_log(self) -> bool:
        """Whether the changes of all tables go to `write_log` on the driver, instead of table by table to `write`."""
        return False

    def write_log(self, decoded: Iterable[Sequence[ChangeBatch]], upto: Position) -> list[Written]:
        """As `write` for all tables at once and as `advance`, together: `decoded` is the log up to `upto`, chunk by
        chunk. The first and the last chunk may reach further than what is new, or than `upto`."""
        raise NotImplementedError

    # -- tables that Spark itself writes -------------------------------------------------------------

    def spark_settings(self, tables: Sequence[TableSchema]) -> Mapping[str, str]:
        """Settings that the session must be started with (jars, extensions); none for most sinks."""
        return {}

    def takes_frame(self, table: TableSchema, settings: Mapping[str, str]) -> bool:
        """Whether the next batch of this table goes to `write_frame` instead of `write`.

        `settings` are the session's, as far as `spark_settings` named them. Asked on executors."""
        return False

    def write_frame(self, spark: SparkSession, table: TableSchema, frame: DataFrame, upto: Position) -> Written:
        """As `write`, on the driver, with one DataFrame of decoded changes (columns of `change_schema`)."""
        raise NotImplementedError
