"""Source: the one interface a database implements. One folder per database.

Four jobs, each used in another process: `check` and `prepare` before anything starts (driver), `log` to
read raw frames (the tail), `snapshot` to copy tables (driver plans, executors copy), `decode` to turn
frames into changes (executors; needs no connection and no secret).
"""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.errors import Usage
from headwater.event import ChangeBatch, Chunk, Position, TableSchema
from headwater.journal import SourceFiles
from headwater.options import option

if TYPE_CHECKING:
    from headwater.formats.connector import Connector


class Severity(StrEnum):
    """How bad a finding is: `error` prevents starting, `warning` will hurt some day."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Finding:
    """One thing that `headwater check` looked at, and the statement that would mend it."""

    subject: str
    severity: Severity
    text: str
    remedy: str = ""


class Confirm(StrEnum):
    """When the database may forget a part of its log; docs/positions.md weighs them."""

    # Never by us: somebody else tells it.
    NEVER = "never"
    # When every sink holds it.
    DURABLE = "durable"
    # Also when every sink holds all changes, and what follows in the journal has none.
    IDLE = "idle"
    # When the journal is on disk, however far the sinks are.
    JOURNALED = "journaled"


@dataclass(frozen=True)
class Holder:
    """Something on the server that keeps log for one reader (PostgreSQL: a replication slot)."""

    name: str
    # Who it is for, in a few words: `headwater`, or what the server tells of somebody else's.
    owner: str
    ours: bool
    # The one that this very source reads from.
    current: bool
    # The process on the server that reads from it now.
    active_pid: int | None
    # The server's own word for how safe it is.
    status: str
    lost: bool
    # Everything up to here has been confirmed, in the database's words.
    position: str
    retained_bytes: int
    # How much more log may be written before it is lost; None: no limit, it can fill the disk.
    safe_bytes: int | None
    # Since when nobody reads from it; None while somebody does, or when the server does not tell.
    idle_seconds: float | None = None
    # Transactions since the oldest one it keeps from being cleaned up.
    age: int | None = None
    database: str = ""


@dataclass(frozen=True)
class Kept:
    """A log that the server keeps by time, whoever reads it."""

    # On the server's disk.
    bytes: int
    # How old it may get; None: it is kept for ever.
    seconds: float | None


@dataclass(frozen=True)
class SourceOptions:
    """Options that every source has."""

    tables: list[str] = option(["*.*"], help="tables to capture, as schema.table patterns with *", aliases=["include"])
    exclude: list[str] = option([], help="patterns of tables to leave out")
    snapshot: str = option(
        "initial",
        help="initial: copy each table once, then stream; no_data: stream only",
        aliases=["snapshot.mode"],
        choices=["initial", "no_data"],
    )
    heartbeat_interval_ms: int = option(
        0,
        help="how often an idle log reports that it has moved; 0: every 30 s, or after 8 MB",
        aliases=["heartbeat.interval.ms"],
    )
    heartbeat_action_query: str = option(
        "",
        help="statement run at the source with every heartbeat, to move a quiet database's log",
        aliases=["heartbeat.action.query"],
    )
    errors_max_retries: int = option(
        -1,
        help="attempts to reach the source in a row before the pipeline ends with status 1; -1: for ever",
        aliases=["errors.max.retries"],
    )
    # Names of old → names of today, with their values of old → of today, and patterns of names that mean nothing
    # here → why; see formats/settings.py.
    renamed: ClassVar[Mapping[str, str]] = {}
    old_values: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    no_effect: ClassVar[Mapping[str, str]] = {}


@dataclass(frozen=True)
class CopyChunk:
    """A part of one table that one task copies: plain data, sent to an executor."""

    table: TableSchema
    # How to find it again: the exported snapshot's name, a row range, … (the source's own words).
    where: Mapping[str, Any]
    # For progress and for balancing tasks; an estimate.
    bytes: int = 0


@dataclass(frozen=True)
class Snapshot:
    """Tables as they were at exactly one position; valid while the source's `snapshot()` is held open."""

    position: Position
    # The time of the snapshot, microseconds since the epoch.
    taken: int
    chunks: Sequence[CopyChunk]
    detail: Mapping[str, Any] = field(default_factory=dict)
    # For how long writers had to wait for it; None: no lock was needed.
    locked_seconds: float | None = None


class Log(ABC):
    """An open log. Used by one thread; `read` is called in a loop until `close`."""

    @abstractmethod
    def read(self, timeout: float) -> Chunk | None:
        """The next chunk, or None when nothing came within `timeout` seconds.

        An idle log whose position moved without captured changes gives a chunk without frames; one that had to
        leave something out begins with `Chunk.gap`. Raises
        Retry when the connection broke: open a new Log after the last whole chunk's position."""

    @abstractmethod
    def schema(self, schema: str) -> TableSchema:
        """The TableSchema with this id, for a TableRun of a chunk that `read` returned."""

    @abstractmethod
    def confirm(self, position: Position) -> None:
        """Everything up to `position` is durable where it has to be: the database may forget it."""

    def hold(self) -> None:
        """Called now and then instead of `read` while nothing more can be taken: stay connected."""

    @property
    def spilled(self) -> int:
        """Bytes that wait on the journal's disk until their transaction has ended; they count against its cap."""
        return 0

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection. The log can be opened again."""

    def lag(self) -> Mapping[str, Any]:
        """Numbers for status: what the server has written, what was read, what is confirmed."""
        return {}


class Source(ABC):
    """A database whose log we read."""

    type: ClassVar[str]
    options_class: ClassVar[builtins.type[SourceOptions]]
    # URL schemes that mean this database.
    schemes: ClassVar[tuple[str, ...]] = ()
    # Debezium's connectors for this database, and what a pipeline file calls each of them.
    connectors: ClassVar[Mapping[str, str]] = MappingProxyType({})
    options: Any
    # Where the source may keep what it must know in the next run; None: it keeps nothing.
    files: SourceFiles | None = None
    # A folder on this machine for what may be lost; None: there is none.
    scratch: Path | None = None
    # A tail of ours reads the log at this moment, on another machine: `prepare` leaves to it what one reader may do.
    read_elsewhere: bool = False

    @abstractmethod
    def __init__(self, options: Any) -> None:
        """Keeps the options; does no I/O."""

    @staticmethod
    def take_over(config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """A connector's settings, with what Debezium takes when nothing is said; and what people should know."""
        return dict(config), []

    @abstractmethod
    def identity(self) -> str:
        """What makes this log this log (PostgreSQL: system identifier, database, slot). A journal of one
        identity refuses another."""

    @abstractmethod
    def facts(self) -> Mapping[str, str]:
        """What `connector` needs to know; kept in the journal, so nothing secret."""

    @staticmethod
    @abstractmethod
    def connector(facts: Mapping[str, str]) -> Connector:
        """This database as Debezium's events show it."""

    @abstractmethod
    def check(self) -> list[Finding]:
        """Everything that can be wrong before starting, each with its remedy. Changes nothing."""

    def examine(self, *, running: bool) -> list[Finding]:
        """`check`, and what hurts a pipeline that has been running for a while. `running`: it runs now."""
        return self.check()

    @property
    def confirms(self) -> Confirm:
        """When `Log.confirm` is to be called."""
        return Confirm.DURABLE

    @abstractmethod
    def prepare(self, durable: Position | None, journaled: Position | None = None) -> Position:
        """Make the log readable (PostgreSQL: publication, then slot) and return where it begins.

        `durable` is the lowest position any sink holds, None when there is none; `journaled` is how far the journal
        holds what follows it. Raises Stop when the log no longer has what comes after that."""

    def close(self) -> None:
        """Let go of whatever `prepare` holds."""

    @abstractmethod
    def tables(self) -> list[TableSchema]:
        """The captured tables as the catalog has them now."""

    @abstractmethod
    def candidates(self) -> list[TableSchema]:
        """The tables that the patterns choose, whether or not the log carries them yet. For `check`."""

    def sizes(self, tables: Sequence[TableSchema]) -> Mapping[str, int]:
        """About how many bytes there are of each table to copy, where the server says."""
        return {}

    @abstractmethod
    def snapshot(self, tables: Sequence[TableSchema], tasks: int) -> AbstractContextManager[Snapshot]:
        """A context manager giving a Snapshot of `tables`, cut into chunks for about `tasks` tasks."""

    @abstractmethod
    def copy(self, chunk: CopyChunk, snapshot: Snapshot, *, events: bool = False) -> Iterator[ChangeBatch]:
        """The rows of one chunk as changes with op `r` at the snapshot's position; for `events` as by
        `decode_events`. Runs on executors, and may be called again."""

    @abstractmethod
    def log(self, after: Position) -> Log:
        """Open the log behind `after`. A transaction that `after` lies inside of comes again from its first
        change. Raises Stop when the log no longer reaches back that far."""

    @abstractmethod
    def copy_log(self) -> Log:
        """All captured tables as of one position, as a log that ends: for readers that snapshot through the
        journal. Its last chunk is whole and ends at that position."""

    @abstractmethod
    def listen(self, *, temporary: bool) -> Log:
        """Open the log where it is now, for looking at it. What a temporary listener makes on the server
        (PostgreSQL: slot and publication) is gone after `close`."""

    @staticmethod
    @abstractmethod
    def decode(chunk: Chunk, schemas: Mapping[str, TableSchema], tables: set[str] | None = None) -> list[ChangeBatch]:
        """The changes of a chunk, one batch per table, each in log order; only `tables` when given.

        `schemas` maps TableRun.schema to its definition. Pure: the same chunk gives the same batches."""

    @classmethod
    def decode_events(
        cls, chunk: Chunk, schemas: Mapping[str, TableSchema], tables: set[str] | None = None
    ) -> list[ChangeBatch]:
        """As `decode`, for events: what the column's lake type cannot hold comes as text, and the format decides."""
        return cls.decode(chunk, schemas, tables)

    @classmethod
    def decode_rows(
        cls,
        chunk: Chunk,  # noqa: ARG003
        schemas: Mapping[str, TableSchema],  # noqa: ARG003
        run: int,  # noqa: ARG003
        rows: range,  # noqa: ARG003
        *,
        as_text: bool,  # noqa: ARG003
    ) -> ChangeBatch | None:
        """Some changes of one run of the chunk, 0 is its first: for finding those that `decode` refuses. `as_text`:
        whatever fits no lake type comes as text. None: this source cannot tell changes apart."""
        return None

    @staticmethod
    @abstractmethod
    def positions(chunk: Chunk, tables: set[str] | None = None) -> list[Position]:
        """The position of every change of a chunk, in order; only `tables` when given. For cutting batches."""

    @abstractmethod
    def end(self) -> int:
        """How far the server's log has been written by now, on the scale of `Log.lag()["received"]`."""

    @staticmethod
    def parse_position(text: str) -> Position:
        """A position as people write it, in the database's words (PostgreSQL: an LSN). Raises ValueError."""
        raise ValueError(text)

    # -- what keeps the log on the server; a database that keeps it by time alone has none of these ------

    def holders(self) -> list[Holder]:
        """Everything on the server that keeps log, ours or not."""
        return []

    def kept(self) -> Kept | None:
        """How the server keeps its log when nobody holds it; None: it keeps what its holders need."""
        return None

    def create_holder(self, name: str) -> None:
        """Keep log from now on, under this name."""
        raise Usage(f"a source of type {self.type} has nothing of that kind to create")

    def drop_holder(self, name: str) -> None:
        """Keep nothing for `name` any more. Raises Stop while somebody reads."""
        raise Usage(f"a source of type {self.type} has nothing of that kind to drop")

    def advance_holder(self, name: str, to: str) -> str:
        """Give up what `name` keeps before the position `to` (empty: before now); where it is then."""
        raise Usage(f"a source of type {self.type} has nothing of that kind to advance")

    @staticmethod
    def warm_up() -> None:
        """Load what `decode` needs, so that the first batch does not wait for it. Once per process."""
