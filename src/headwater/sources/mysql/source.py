"""MySQL and MariaDB as a Source: ties catalog, state, log, snapshot and decode together."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.event import ChangeBatch, Chunk, Position, TableSchema
from headwater.sources.base import CopyChunk, Finding, Log, Snapshot, Source, SourceOptions
from headwater.sources.mysql.capture import capture_filter
from headwater.sources.mysql.catalog import charsets, describe
from headwater.sources.mysql.check import check, refuse_settings
from headwater.sources.mysql.connection import connect, now_microseconds
from headwater.sources.mysql.options import MySqlOptions
from headwater.sources.mysql.position import at, parse_progress
from headwater.sources.mysql.relation import relation_schema
from headwater.sources.mysql.state import has_gtids, refuse_unreachable, written, written_file
from headwater.sources.mysql.table_map import TableMap

if TYPE_CHECKING:
    from headwater.formats.connector import Connector

# A snapshot's sessions: more would not be faster than the server's disks and our cores.
MAX_SESSIONS = 8


class MySql(Source):
    """MySQL 8.0 and MariaDB 10.5 and newer, by their row-based binlog."""

    type: ClassVar[str] = "mysql"
    options_class: ClassVar[builtins.type[SourceOptions]] = MySqlOptions
    schemes: ClassVar[tuple[str, ...]] = ("mysql", "mariadb")

    def __init__(self, options: MySqlOptions) -> None:
        self.options = options
        self._captured = capture_filter(options)
        self._charsets: dict[int, str] = {}

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
                return at(written(server))
            # What the journal has need not be in the server's log any more.
            wanted = max(durable, journaled) if journaled is not None else durable
            refuse_unreachable(server, parse_progress(wanted.resume))
        return durable

    def tables(self) -> list[TableSchema]:
        with connect(self.options) as server:
            return describe(server, self._captured, self.options.cast)

    def candidates(self) -> list[TableSchema]:
        return self.tables()

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
                    "locked_seconds": sessions.locked_seconds,
                },
            )

    def copy(self, chunk: CopyChunk, snapshot: Snapshot) -> Iterator[ChangeBatch]:
        from headwater.sources.mysql.copy import copy_rows

        return copy_rows(chunk, snapshot)

    def log(self, after: Position) -> Log:
        from headwater.sources.mysql.log import MySqlLog

        with connect(self.options) as server:
            refuse_settings(server)
            refuse_unreachable(server, parse_progress(after.resume))
            self._charsets = charsets(server)
        return MySqlLog(self.options, after, self._describe, self._find)

    def copy_log(self) -> Log:
        from headwater.sources.mysql.copy_log import CopyLog

        return CopyLog(self.snapshot(self.tables(), tasks=1))

    def listen(self, *, temporary: bool) -> Log:
        return self.log(self.prepare(None))

    @staticmethod
    def decode(chunk: Chunk, schemas: Mapping[str, TableSchema], tables: set[str] | None = None) -> list[ChangeBatch]:
        from headwater.sources.mysql.decode import decode

        return decode(chunk, schemas, tables)

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

    # ----------------------------------------------------------------------------------------------

    def _describe(self, found: TableMap) -> TableSchema | None:
        if not self._captured(found.schema, found.name):
            return None
        known = self._find(found.schema, found.name)
        return relation_schema(found, known, self._charsets, self.options.cast)

    def _find(self, database: str, table: str) -> TableSchema | None:
        if not self._captured(database, table):
            return None
        with connect(self.options) as server:
            found = describe(server, self._captured, self.options.cast, only=(database, table))
        return found[0] if found else None
