"""Sink: where changes go. One file per target; the contract suite runs over every sink it finds.

A sink stores its position with its data, table by table, so that a replayed batch, a lost checkpoint or
a second attempt has no second effect.
"""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pyarrow as pa

from headwater.errors import HeadwaterError, Usage
from headwater.event import ChangeBatch, Position, TableSchema
from headwater.options import option
from headwater.sources.base import Finding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """Options that every sink has."""

    on_error: str = option(
        "stop",
        help="a record that the target will never take: stop the run; retry until a person has made room for it; or"
        " dead_letter: keep it aside with all later changes of its key, and go on (headwater dead-letters)",
        choices=["stop", "retry", "dead_letter"],
    )


T = TypeVar("T")


class Again(Iterable[T]):
    """An iterable that is made anew for everybody who reads it."""

    def __init__(self, make: Callable[[], Iterator[T]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[T]:
        return self._make()


NOTHING_STOPPED: Mapping[str, Position] = MappingProxyType({})


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

    def place(self) -> str:
        """What no other sink of the pipeline may write into as well; empty when that cannot be said. Does no I/O."""
        return ""

    def check(self, tables: Sequence[TableSchema]) -> list[Finding]:
        """Is the target reachable, can every table be written? Changes nothing."""
        return []

    def warm_up(self) -> None:
        """Load what `write` needs, wherever it will run: the first batch should not wait for it."""
        self.position()

    @abstractmethod
    def position(self) -> Position | None:
        """The position this sink as a whole has reached; None before the first. Asked once at start, by the one run
        that is to write: who wrote before must not be able to from then on, where the target can see to that."""

    def seen_position(self) -> Position | None:
        """What `position` says, for somebody who does not write: changes nothing and shuts nobody out."""
        return self.position()

    @abstractmethod
    def table_position(self, table: TableSchema) -> Position | None:
        """The position one table has reached; None when the table was never loaded."""

    def replaced(self, table: TableSchema) -> bool:
        """Whether the rows there are of another table that had this name (`TableSchema.origin`), so that a mirror must
        be loaded anew."""
        return False

    @abstractmethod
    def write(self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position) -> Written:
        """Apply `batches` (in commit order, newest schema = `table`) and remember `upto`, together.

        Runs on an executor, or for a small batch on the driver, where other tables are written beside it by other
        threads; one task at a time owns a table. Called again with the same or older changes
        after a crash: what is at or before the table's own position must have no second effect. Raise Retry for
        what passes by itself, Rejected for a record that will never fit, Drift for a table that will not in this
        shape."""

    @abstractmethod
    def load_part(self, table: TableSchema, rows: Iterable[ChangeBatch]) -> str:
        """Write one part of a table's snapshot so that no reader sees it yet; return a receipt.

        Runs on an executor, or for small tables on the driver; several parts at a time, except on the driver when this
        sink takes the log as a whole. `rows` may be read more than once. A part whose receipt is lost does no harm."""

    @abstractmethod
    def load(self, table: TableSchema, receipts: Sequence[str], upto: Position) -> None:
        """Make exactly the parts with these receipts the table's content, at `upto`, in one step."""

    @abstractmethod
    def advance(self, upto: Position) -> None:
        """Every table is durable up to `upto`: remember it for `position`. Runs on the driver."""

    def key(self, table: TableSchema) -> Sequence[str]:
        """The columns whose values tell one row's changes from another's: their order is kept."""
        return table.event_key

    def target(self, table: TableSchema) -> str:
        """Where a table goes, in the target's own words; for people."""
        return table.table

    def refuse(self, batch: ChangeBatch, error: HeadwaterError) -> None:
        """Changes that cannot be decoded for this sink, values that fit no lake type as text: raises, unless somebody
        keeps them."""
        raise error

    def write_late(self, table: TableSchema, batches: Sequence[ChangeBatch]) -> Written:
        """Apply changes that were kept aside (dead letters) while their table went on, in their order; no later
        change of their rows has been written. No position moves; a second call has no second effect."""
        raise Usage(f"a sink of type {self.type} cannot take changes that were kept aside")

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

    def write_log(
        self,
        decoded: Iterable[Sequence[ChangeBatch]],
        upto: Position,
        stopped: Mapping[str, Position] = NOTHING_STOPPED,
    ) -> list[Written]:
        """As `write` for all tables at once and as `advance`, together: `decoded` is the log up to `upto`, chunk by
        chunk, and may be read more than once. The first and the last chunk may reach further than what is new, or than
        `upto`. It has no changes of tables that are `stopped`: those are held up to the position given, which
        `position` must not pass."""
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


class WrappedSink(Sink):
    """A sink around a sink: hands everything on. What wraps sinks overrides what it is there for."""

    def __init__(self, inner: Sink) -> None:  # no plug-in: has no options of its own
        self.inner = inner
        self.name = inner.name

    def __getattr__(self, name: str) -> Any:
        # What this wrapper does not know is the sink's own; while unpickling there is no inner sink yet.
        if name.startswith("__") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def writes_events(self) -> bool:  # type: ignore[override]
        return self.inner.writes_events

    def check(self, tables: Sequence[TableSchema]) -> list[Finding]:
        return self.inner.check(tables)

    def warm_up(self) -> None:
        self.inner.warm_up()

    def position(self) -> Position | None:
        return self.inner.position()

    def seen_position(self) -> Position | None:
        return self.inner.seen_position()

    def table_position(self, table: TableSchema) -> Position | None:
        return self.inner.table_position(table)

    def replaced(self, table: TableSchema) -> bool:
        return self.inner.replaced(table)

    def write(self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position) -> Written:
        return self.inner.write(table, batches, upto)

    def load_part(self, table: TableSchema, rows: Iterable[ChangeBatch]) -> str:
        return self.inner.load_part(table, rows)

    def load(self, table: TableSchema, receipts: Sequence[str], upto: Position) -> None:
        self.inner.load(table, receipts, upto)

    def advance(self, upto: Position) -> None:
        self.inner.advance(upto)

    def key(self, table: TableSchema) -> Sequence[str]:
        return self.inner.key(table)

    def target(self, table: TableSchema) -> str:
        return self.inner.target(table)

    def refuse(self, batch: ChangeBatch, error: HeadwaterError) -> None:
        self.inner.refuse(batch, error)

    def write_late(self, table: TableSchema, batches: Sequence[ChangeBatch]) -> Written:
        return self.inner.write_late(table, batches)

    def replay(self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position) -> Written:
        return self.inner.replay(table, batches, upto)

    def contents(self, table: TableSchema) -> Contents | None:
        return self.inner.contents(table)

    def takes_log(self) -> bool:
        return self.inner.takes_log()

    def write_log(
        self,
        decoded: Iterable[Sequence[ChangeBatch]],
        upto: Position,
        stopped: Mapping[str, Position] = NOTHING_STOPPED,
    ) -> list[Written]:
        return self.inner.write_log(decoded, upto, stopped)

    def spark_settings(self, tables: Sequence[TableSchema]) -> Mapping[str, str]:
        return self.inner.spark_settings(tables)

    def takes_frame(self, table: TableSchema, settings: Mapping[str, str]) -> bool:
        return self.inner.takes_frame(table, settings)

    def write_frame(self, spark: SparkSession, table: TableSchema, frame: DataFrame, upto: Position) -> Written:
        return self.inner.write_frame(spark, table, frame, upto)
