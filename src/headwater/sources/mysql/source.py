"""MySQL and MariaDB as a Source: ties catalog, state, log, snapshot and decode together."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.errors import Retry, Stop
from headwater.event import ChangeBatch, Chunk, Position, TableSchema
from headwater.sources.base import CopyChunk, Finding, Kept, Log, Snapshot, Source, SourceOptions
from headwater.sources.copy_log import CopyLog
from headwater.sources.mysql.binlog import Query
from headwater.sources.mysql.capture import captured_tables
from headwater.sources.mysql.catalog import charsets, definitions, describe, flavour, table_bytes
from headwater.sources.mysql.check import check, refuse_settings
from headwater.sources.mysql.connection import Server, connect, now_microseconds
from headwater.sources.mysql.history import History, load_history
from headwater.sources.mysql.known import KnownTables
from headwater.sources.mysql.options import MySqlOptions
from headwater.sources.mysql.position import Progress, at, parse_progress
from headwater.sources.mysql.relation import followed_schema, relation_schema
from headwater.sources.mysql.schema_change import SchemaChange
from headwater.sources.mysql.state import (
    binlog_files,
    has_gtids,
    names_columns,
    refuse_unreachable,
    retention_seconds,
    written,
    written_file,
)
from headwater.sources.mysql.statement import defines_tables
from headwater.sources.mysql.table_map import TableMap
from headwater.sources.mysql.types import with_cast

if TYPE_CHECKING:
    from headwater.formats.connector import Connector

# A snapshot's sessions: more would not be faster than the server's disks and our cores.
MAX_SESSIONS = 8
# So often a moment is looked for in which nobody changes a table.
ATTEMPTS = 5


class MySql(Source):
    """MySQL 8.0 and MariaDB 10.5 and newer, by their row-based binlog."""

    type: ClassVar[str] = "mysql"
    options_class: ClassVar[builtins.type[SourceOptions]] = MySqlOptions
    schemes: ClassVar[tuple[str, ...]] = ("mysql", "mariadb")
    connectors: ClassVar[Mapping[str, str]] = {
        "io.debezium.connector.mysql.MySqlConnector": "mysql",
        "io.debezium.connector.mariadb.MariaDbConnector": "mariadb",
    }

    def __init__(self, options: MySqlOptions) -> None:
        self.options = options
        self._captured = captured_tables(options)
        self._charsets: dict[int, str] = {}
        # Definitions at the place where the log is read; None while the log names columns itself.
        self._history: History | None = None
        # From the first opening of the log on: it is opened again after every cut.
        self._known: KnownTables | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Executors get the options only: connections stay where they were opened."""
        return (MySql, (self.options,))

    def identity(self) -> str:
        with connect(self.options) as server:
            if has_gtids(server):
                # The same on every server that a failover may lead to.
                return f"mysql:{'mariadb' if server.mariadb else 'gtid'}/{self.options.client}"
            return f"mysql:{server.value('select @@server_uuid')}/{self.options.client}"

    def facts(self) -> Mapping[str, str]:
        with connect(self.options) as server:
            log = written_file(server).file.rpartition(".")
            return {
                "kind": "mariadb" if server.mariadb else "mysql",
                "log": log[0],
                "digits": str(len(log[2])),
            }

    @staticmethod
    def connector(facts: Mapping[str, str]) -> Connector:
        from headwater.sources.mysql.debezium import BinlogConnector, MariaDbConnector

        kind = MariaDbConnector if facts["kind"] == "mariadb" else BinlogConnector
        return kind(facts["log"], int(facts["digits"]))

    def check(self) -> list[Finding]:
        return check(self.options, self._captured)

    def prepare(self, durable: Position | None, journaled: Position | None = None) -> Position:
        with connect(self.options) as server:
            refuse_settings(server)
            if durable is None:
                return self._first_history(server) if self._follows(server) else at(written(server))
            # What the journal has need not be in the server's log any more.
            wanted = max(durable, journaled) if journaled is not None else durable
            refuse_unreachable(server, parse_progress(wanted.resume))
        return durable

    def tables(self) -> list[TableSchema]:
        with connect(self.options) as server:
            return describe(server, self._captured, self.options.cast)

    def candidates(self) -> list[TableSchema]:
        return self.tables()

    def sizes(self, tables: Sequence[TableSchema]) -> Mapping[str, int]:
        with connect(self.options) as server:
            return table_bytes(server, tables)

    @contextmanager
    def snapshot(self, tables: Sequence[TableSchema], tasks: int) -> Iterator[Snapshot]:
        from headwater.sources.mysql.chunks import plan_chunks
        from headwater.sources.mysql.relay import Relay
        from headwater.sources.mysql.snapshot import consistent_sessions

        with ExitStack() as stack:
            sessions = stack.enter_context(consistent_sessions(self.options, max(1, min(tasks, MAX_SESSIONS))))
            first = sessions.servers[0]
            wanted = {table.table for table in tables}
            now = [table for table in describe(first, self._captured, self.options.cast) if table.table in wanted]
            chunks, statements = plan_chunks(first, now, tasks)
            relay = Relay(sessions.servers, statements)
            stack.callback(relay.close)
            yield Snapshot(
                position=at(sessions.progress),
                taken=now_microseconds(),
                chunks=chunks,
                detail={
                    "door": relay.door,
                    "address": sessions.address,
                },
                locked_seconds=sessions.locked_seconds,
            )

    def copy(self, chunk: CopyChunk, snapshot: Snapshot, *, events: bool = False) -> Iterator[ChangeBatch]:
        from headwater.sources.mysql.copy import copy_rows

        return copy_rows(chunk, snapshot)

    def log(self, after: Position) -> Log:
        # Here and below: it loads the kernels, which planning and checking do without.
        from headwater.sources.mysql.log import MySqlLog

        with connect(self.options) as server:
            refuse_settings(server)
            refuse_unreachable(server, parse_progress(after.resume))
            self._charsets = charsets(server)
            self._history = self._history_at(server, after)
            if self._known is None:
                self._known = KnownTables(self.files, describe(server, self._captured, self.options.cast))
        define = self._define if self._history else None
        return MySqlLog(self.options, after, self._describe, self._find_emptied, define, self._history)

    def copy_log(self) -> Log:
        from headwater.sources.mysql.copy import copy_chunks

        return CopyLog(self.snapshot(self.tables(), tasks=1), copy_chunks)

    def listen(self, *, temporary: bool) -> Log:
        return self.log(self.prepare(None))

    @staticmethod
    def decode(chunk: Chunk, schemas: Mapping[str, TableSchema], tables: set[str] | None = None) -> list[ChangeBatch]:
        from headwater.sources.mysql.decode import decode

        return decode(chunk, schemas, tables)

    @classmethod
    def decode_events(
        cls, chunk: Chunk, schemas: Mapping[str, TableSchema], tables: set[str] | None = None
    ) -> list[ChangeBatch]:
        from headwater.sources.mysql.decode import decode

        return decode(chunk, schemas, tables, events=True)

    @staticmethod
    def positions(chunk: Chunk, tables: set[str] | None = None) -> list[Position]:
        from headwater.sources.mysql.decode import positions

        return positions(chunk, tables)

    @staticmethod
    def warm_up() -> None:
        # Importing compiles the kernels, or loads them from Numba's cache.
        from headwater.sources.mysql import copy, decode  # noqa: F401

    def end(self) -> int:
        with connect(self.options) as server:
            return written(server).coordinate

    def kept(self) -> Kept:
        with connect(self.options) as server:
            size = sum(int(row["file_size"]) for row in binlog_files(server))
            return Kept(size, retention_seconds(server) or None)

    # ----------------------------------------------------------------------------------------------

    def _describe(self, found: TableMap) -> TableSchema | None:
        if not self._captured(found.schema, found.name):
            return None
        schema = self._described(found)
        if self._known is not None:
            self._known.remember(schema)
        return schema

    def _described(self, found: TableMap) -> TableSchema:
        if found.full:
            known = self._find(found.schema, found.name)
            return relation_schema(found, known, self._charsets, self.options.cast)
        name = f"{found.schema}.{found.name}"
        if self._history is None:
            raise Retry(f"binlog_row_metadata is not FULL any more: {name} has no column names")
        followed = self._history.find((found.schema, found.name))
        if followed is None:
            raise Stop(
                f"the log has rows of {name}, whose definition is not known",
                "Load the tables anew, or leave this one out: source.exclude",
                cause="A statement that created or changed it was not understood, or our account does not see it",
            )
        return followed_schema(found, followed, self._charsets, self.options.cast)

    def _find(self, database: str, table: str) -> TableSchema | None:
        """A captured table at this place of the log; as it is now when nobody follows definitions."""
        if not self._captured(database, table):
            return None
        if self._history is not None and (known := self._history.find((database, table))) is not None:
            return with_cast(replace(known, detail={}), self.options.cast)
        with connect(self.options) as server:
            found = describe(server, self._captured, self.options.cast, only=(database, table))
        return found[0] if found else None

    def _find_emptied(self, database: str, table: str) -> list[TableSchema]:
        """Captured tables whose rows are gone, and which may be gone themselves."""
        known = self._known
        if not table:
            return known.of_database(database) if known else []
        found = self._find(database, table) or (known.find(database, table) if known else None)
        return [found] if found else []

    # -- definitions, where the log does not name columns --------------------------------------------

    def _define(self, query: Query, commit: int, place: str) -> SchemaChange | None:
        if self._history is None:
            return None
        change = self._history.define(query, self._charsets, commit, place)
        told = self.options.include_schema_changes and change is not None
        return change if told and change and any(self._captured(*table.name) for table in change.tables) else None

    def _follows(self, server: Server) -> bool:
        return self.options.include_schema_changes or not names_columns(server)

    def _first_history(self, server: Server) -> Position:
        """Take the definitions of now, and a position that they belong to."""
        for _ in range(ATTEMPTS):
            begin = written(server)
            with suppress(_Changed):
                self._take_history(server, begin)
                return at(begin)
        raise Retry("tables are being changed: there is no moment whose definitions could be taken")

    def _history_at(self, server: Server, after: Position) -> History | None:
        history = self._history
        if self.files is not None:
            history = load_history(self.files, flavour(server), self._captured, after)
        if history is None:
            if not self._follows(server):
                return None
            try:
                return self._take_history(server, parse_progress(after.resume))
            except _Changed as changed:
                raise Stop(
                    f"the definitions of tables at our position are not known: a statement at {changed} changed some",
                    "To load the tables anew: remove the state folder and the tables in the lake, and run again",
                    "Before: set global binlog_row_metadata = 'FULL';   -- the log then names columns itself",
                    cause="binlog_row_metadata was FULL when this pipeline began, and is not any more",
                ) from None
        history.lenient, history.spare = self.options.skip_unparseable_ddl, names_columns(server)
        if history.seen.coordinate < after.commit:
            from headwater.sources.mysql.log import look_through

            self._history = history
            refuse_unreachable(server, history.seen)
            look_through(self.options, history.seen, end := parse_progress(after.resume), self._define)
            history.read_up_to(end, now=True)
        return history

    def _take_history(self, server: Server, begin: Progress) -> History:
        """The definitions of now, when they are also those of `begin`. Raises _Changed when they are not."""
        found = definitions(server)
        end = written(server)
        if end.coordinate > begin.coordinate:
            from headwater.sources.mysql.log import look_through

            look_through(self.options, begin, end, _refuse_change)
        self._history = History(found, begin, self._captured, self.files)
        self._history.lenient, self._history.spare = self.options.skip_unparseable_ddl, names_columns(server)
        self._history.save(begin.coordinate)
        return self._history


class _Changed(Exception):
    """Definitions have changed; where."""


def _refuse_change(query: Query, _commit: int, place: str) -> None:
    if defines_tables(query.text):
        raise _Changed(place)
