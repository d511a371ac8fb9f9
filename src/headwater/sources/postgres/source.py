"""PostgreSQL as a Source: ties catalog, publication, slot, log, copy and decode together."""

from __future__ import annotations

import builtins
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg
from psycopg import sql

from headwater.errors import Retry, Stop, Usage
from headwater.event import ChangeBatch, Chunk, Position, TableSchema
from headwater.sources.base import (
    Confirm,
    CopyChunk,
    Finding,
    Holder,
    Log,
    Severity,
    Snapshot,
    Source,
    SourceOptions,
)
from headwater.sources.copy_log import CopyLog
from headwater.sources.postgres.agreement import advances, beginning, skips
from headwater.sources.postgres.capture import captured_tables
from headwater.sources.postgres.catalog import describe
from headwater.sources.postgres.check import check
from headwater.sources.postgres.chunks import plan_chunks, table_bytes
from headwater.sources.postgres.connection import connect, connect_replication, now_microseconds
from headwater.sources.postgres.examine import examine
from headwater.sources.postgres.history import (
    History,
    keep_timeline,
    known_timeline,
    read_history,
    refuse_other_history,
    refuse_rewritten,
)
from headwater.sources.postgres.log import PostgresLog
from headwater.sources.postgres.options import PostgresOptions
from headwater.sources.postgres.pgoutput import Relation
from headwater.sources.postgres.position import at_lsn, flush_lsn, format_lsn, parse_lsn
from headwater.sources.postgres.publication import (
    Published,
    ensure_publication,
    find_publication,
    published_tables,
    refuse_narrowed,
)
from headwater.sources.postgres.relation import relation_schema
from headwater.sources.postgres.retention import advance_holder, create_holder, drop_holder, find_holders
from headwater.sources.postgres.slot import (
    Exported,
    Slot,
    SlotInUse,
    advance_slot,
    create_slot,
    ensure_failover,
    find_slot,
    last_reply,
    refuse_unusable,
    sender_timeout,
)
from headwater.sources.postgres.takeover import take_over

if TYPE_CHECKING:
    from headwater.formats.connector import Connector

LOG = logging.getLogger("headwater.postgres")

# What `lsn.flush.mode` means to the tail.
_CONFIRMS = {"manual": Confirm.NEVER, "connector": Confirm.DURABLE, "connector_and_driver": Confirm.IDLE}
# A killed reader's walsender is gone as soon as the server notices the closed socket.
SLOT_RELEASE_SECONDS = 5.0


class Postgres(Source):
    """PostgreSQL 14 and newer, by logical decoding with pgoutput."""

    type: ClassVar[str] = "postgres"
    options_class: ClassVar[builtins.type[SourceOptions]] = PostgresOptions
    schemes: ClassVar[tuple[str, ...]] = ("postgresql", "postgres")
    connectors: ClassVar[Mapping[str, str]] = {"io.debezium.connector.postgresql.PostgresConnector": "postgres"}
    take_over = staticmethod(take_over)

    def __init__(self, options: PostgresOptions) -> None:
        if options.wal_escrow and options.lsn_flush_mode == "manual":
            raise Usage("source: wal.escrow confirms, and lsn.flush.mode: manual does not; keep one")
        self.options = options
        self._captured = captured_tables(options)
        # The snapshot that came with a slot we just created; held until `close`.
        self._held = ExitStack()
        self._exported: Exported | None = None
        # The log opened last, and whether a standby gives it.
        self._log: PostgresLog | None = None
        self._standby = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Executors get the options only: connections stay where they were opened."""
        return (Postgres, (self.options,))

    def identity(self) -> str:
        history = self._history()
        return f"postgres:{history.system}/{history.database}/{self.options.slot}"

    @property
    def confirms(self) -> Confirm:
        if self.options.wal_escrow:
            return Confirm.JOURNALED
        return _CONFIRMS[self.options.lsn_flush_mode]

    def facts(self) -> Mapping[str, str]:
        with connect(self.options) as connection:
            return {"database": connection.info.dbname}

    @staticmethod
    def connector(facts: Mapping[str, str]) -> Connector:
        from headwater.sources.postgres.debezium import PostgresConnector

        return PostgresConnector(facts["database"])

    def check(self) -> list[Finding]:
        return check(self.options, self._candidates)

    def examine(self, *, running: bool) -> list[Finding]:
        found = check(self.options, self._candidates, running=running)
        if found[0].severity is Severity.ERROR:
            # Nobody answers there.
            return found
        return [*found, *examine(self.options, self._captured, running=running)]

    def prepare(self, durable: Position | None, journaled: Position | None = None) -> Position:
        with connect(self.options) as connection:
            if durable is not None:
                # Before what it lacks is added: that would hide what was lost meanwhile.
                refuse_narrowed(connection, self.options, self._captured, self.files)
            # The publication comes first: a slot made before it fails on every change in between.
            ensure_publication(connection, self.options, self._candidates(connection))
            slot = self._released_slot(connection)
            if slot is not None and self.options.slot_failover and not self.read_elsewhere:
                ensure_failover(self.options)
            if durable is not None:
                held = max(durable, journaled or durable)
                self._refuse_other_history(connection, held)
                return self._existing(connection, slot, durable, held)
            if slot is not None:
                return at_lsn(slot.confirmed)
        self._exported = self._held.enter_context(create_slot(self.options, self.options.slot))
        return at_lsn(self._exported.lsn)

    def close(self) -> None:
        """Let go of the snapshot that came with a new slot."""
        self._held.close()
        self._exported = None

    def tables(self) -> list[TableSchema]:
        with connect(self.options) as connection:
            return self._published(connection, published_tables(connection, self.options.publication))

    def candidates(self) -> list[TableSchema]:
        with connect(self.options) as connection:
            return self._candidates(connection)

    def sizes(self, tables: Sequence[TableSchema]) -> Mapping[str, int]:
        with connect(self.options) as connection:
            return table_bytes(connection, tables)

    @contextmanager
    def snapshot(self, tables: Sequence[TableSchema], tasks: int) -> Iterator[Snapshot]:
        with ExitStack() as stack:
            exported = self._exported or stack.enter_context(create_slot(self.options, None))
            connection = stack.enter_context(connect(self.options))
            published = published_tables(connection, self.options.publication)
            wanted = {table.table for table in tables}
            now = [table for table in self._published(connection, published) if table.table in wanted]
            yield Snapshot(
                position=at_lsn(exported.lsn),
                taken=now_microseconds(),
                chunks=plan_chunks(connection, now, published, tasks),
                detail={"snapshot": exported.snapshot, "xid": _last_seen(connection, exported.snapshot)},
            )

    def copy(self, chunk: CopyChunk, snapshot: Snapshot, *, events: bool = False) -> Iterator[ChangeBatch]:
        from headwater.sources.postgres.copy import copy_rows

        with connect(self.options) as connection:
            yield from copy_rows(connection, chunk, snapshot, snapshot.detail["snapshot"], events=events)

    def log(self, after: Position) -> Log:
        with connect(self.options) as connection:
            slot = self._released_slot(connection)
            refuse_narrowed(connection, self.options, self._captured, self.files)
            timeline = self._refuse_other_history(connection, after)
            if slot is not None and self._log is not None:
                refuse_rewritten(connection, self.options, slot.confirmed, self._log.confirmed)
            self._standby = in_recovery(connection)
        confirmed = slot.confirmed if slot else 0
        gap = None
        if skips(self.options, confirmed, after):
            gap = Chunk.gap(after, at_lsn(confirmed), self.options.offset_mismatch_strategy)
        blocks = self.scratch is not None and not (self._log and self._log.blocks_failed)
        self._log = PostgresLog(
            self.options,
            gap.last if gap else after,
            self._describe,
            confirmed=confirmed,
            gap=gap,
            spill=self.scratch / "spill" if self.scratch and blocks else None,
            verify=self._verify,
        )
        keep_timeline(self.files, timeline)
        return self._log

    def copy_log(self) -> Log:
        from headwater.sources.postgres.copy import copy_chunks

        return CopyLog(self.snapshot(self.tables(), tasks=1), partial(copy_chunks, self.options))

    def listen(self, *, temporary: bool) -> Log:
        options = self.options
        with connect(options) as connection:
            made = find_publication(connection, options.publication) is None
            ensure_publication(connection, options, self._candidates(connection))
            here = written_lsn(connection)
            slot = None if temporary else self._released_slot(connection)
        if made and temporary:
            self._held.callback(self._drop_publication)
        confirmed = slot.confirmed if slot else 0
        return PostgresLog(options, at_lsn(confirmed or here), self._describe, confirmed=confirmed, temporary=temporary)

    @staticmethod
    def decode(chunk: Chunk, schemas: Mapping[str, TableSchema], tables: set[str] | None = None) -> list[ChangeBatch]:
        # Loads the kernels (half a second): the tail, which never decodes, does without.
        from headwater.sources.postgres.decode import decode

        return decode(chunk, schemas, tables)

    @classmethod
    def decode_events(
        cls, chunk: Chunk, schemas: Mapping[str, TableSchema], tables: set[str] | None = None
    ) -> list[ChangeBatch]:
        from headwater.sources.postgres.decode import decode

        return decode(chunk, schemas, tables, numeric_as_text=True)

    @classmethod
    def decode_rows(
        cls, chunk: Chunk, schemas: Mapping[str, TableSchema], run: int, rows: range, *, as_text: bool
    ) -> ChangeBatch | None:
        from headwater.sources.postgres.decode import decode_rows

        return decode_rows(chunk, schemas, run, rows, as_text=as_text)

    @staticmethod
    def positions(chunk: Chunk, tables: set[str] | None = None) -> list[Position]:
        from headwater.sources.postgres.decode import positions

        return positions(chunk, tables)

    @staticmethod
    def warm_up() -> None:
        # Importing compiles the kernels, or loads them from Numba's cache.
        from headwater.sources.postgres import copy, decode  # noqa: F401

    def end(self) -> int:
        with connect(self.options) as connection:
            return written_lsn(connection)

    @staticmethod
    def parse_position(text: str) -> Position:
        return at_lsn(parse_lsn(text))

    def holders(self) -> list[Holder]:
        return find_holders(self.options)

    def create_holder(self, name: str) -> None:
        create_holder(self.options, name)

    def drop_holder(self, name: str) -> None:
        drop_holder(self.options, name)

    def advance_holder(self, name: str, to: str) -> str:
        return advance_holder(self.options, name, to)

    # ----------------------------------------------------------------------------------------------

    def _candidates(self, connection: psycopg.Connection[Any]) -> list[TableSchema]:
        """Tables that the patterns choose and that a publication can hold. One without columns has no data."""
        publication = find_publication(connection, self.options.publication)
        root = publication.via_root if publication else self.options.publish_via_partition_root
        return [
            table
            for table in describe(connection, cast=self.options.cast)
            if self._captured(table.schema, table.name)
            and table.columns
            and table.detail["persistence"] == "p"
            and ("root" not in table.detail if root else table.detail["kind"] == "r")
        ]

    def _published(
        self, connection: psycopg.Connection[Any], published: dict[tuple[str, str], Published]
    ) -> list[TableSchema]:
        """The captured tables, with the columns that the publication hands out."""
        # PostgreSQL 15 lists generated columns and does not send them; 18 lists them when it sends them.
        generated = connection.info.server_version >= 180000
        found = []
        for table in describe(connection, cast=self.options.cast):
            part = published.get((table.schema, table.name))
            if part is None or not self._captured(table.schema, table.name):
                continue
            columns = tuple(
                column
                for column in table.columns
                if (generated or not column.generated) and (part.columns is None or column.name in part.columns)
            )
            if columns:
                names = {column.name for column in columns}
                identity = tuple(name for name in table.identity if name in names)
                found.append(replace(table, columns=columns, identity=identity))
        return found

    def _describe(self, relation: Relation) -> TableSchema | None:
        if not relation.columns or not self._captured(relation.schema, relation.name):
            return None
        with connect(self.options) as connection:
            # A publication that was altered makes the server describe its tables again.
            refuse_narrowed(connection, self.options, self._captured, self.files)
            described = describe(connection, [relation.oid], self.options.cast)
        return relation_schema(relation, described[0] if described else None, self.options.cast)

    def _verify(self) -> None:
        """Asked now and then while the log is read: does it still carry what it did?"""
        # A server that does not answer is the log's to tell.
        with suppress(Retry), connect(self.options) as connection:
            refuse_narrowed(connection, self.options, self._captured, self.files)
            if self._standby and not in_recovery(connection):
                self._standby = False
                # The stream was not interrupted: what we read now is of the new timeline, and of the same history.
                keep_timeline(self.files, timeline := self._history().timeline)
                LOG.warning("the standby was promoted: reading goes on, on timeline %d", timeline)

    def _drop_publication(self) -> None:
        with connect(self.options) as connection:
            connection.execute(
                sql.SQL("drop publication if exists {}").format(sql.Identifier(self.options.publication))
            )

    def _released_slot(self, connection: psycopg.Connection[Any]) -> Slot | None:
        """Our slot, once nobody reads from it; a reader that stays is named by its PID.

        One that answers the server while we wait is alive. One that does not may be a client that died with its
        network: the server lets go of it after wal_sender_timeout."""
        began, spoke = time.monotonic(), last_reply(connection, self.options.slot)
        while (slot := find_slot(connection, self.options.slot)) is not None:
            refuse_unusable(slot, connection.info.dbname)
            if slot.active_pid is None or self.read_elsewhere:
                break
            alive = last_reply(connection, self.options.slot) != spoke
            patience = SLOT_RELEASE_SECONDS + (0.0 if alive else sender_timeout(connection))
            if time.monotonic() - began > patience:
                raise SlotInUse(slot.name, slot.active_pid)
            time.sleep(0.1)
        return slot

    def _existing(
        self, connection: psycopg.Connection[Any], slot: Slot | None, durable: Position, held: Position
    ) -> Position:
        """Where to go on. Sinks hold everything up to `durable`, sinks and journal together up to `held`."""
        if slot is None:
            raise Stop(
                f'the slot "{self.options.slot}" is gone, and with it what came after {format_lsn(flush_lsn(held))}',
                "To load the tables anew: remove the state folder and the tables in the lake, and run again",
                cause="Somebody dropped it, or the server was replaced by one that does not have it",
            )
        refuse_rewritten(connection, self.options, slot.confirmed, durable)
        confirmed = slot.confirmed
        if advances(self.options, confirmed, durable) and not self.read_elsewhere:
            confirmed = advance_slot(connection, slot.name, flush_lsn(durable))
        return beginning(self.options, confirmed, held)

    def _history(self) -> History:
        pgconn = connect_replication(self.options)
        try:
            return read_history(pgconn)
        finally:
            pgconn.finish()

    def _refuse_other_history(self, connection: psycopg.Connection[Any], held: Position) -> int:
        """Stop when the server has another past than our positions; else the timeline it is on."""
        history = self._history()
        standby = in_recovery(connection)
        refuse_other_history(history, known_timeline(self.files), flush_lsn(held), standby=standby)
        return history.timeline


def in_recovery(connection: psycopg.Connection[Any]) -> bool:
    """Whether the server is a standby."""
    row = connection.execute("select pg_is_in_recovery()").fetchone()
    return bool(row and row[0])


def _last_seen(connection: psycopg.Connection[Any], snapshot: str) -> int:
    """The newest transaction that a snapshot may see."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        connection.execute(sql.SQL("set transaction snapshot {}").format(sql.Literal(snapshot)))
        row = connection.execute("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1").fetchone()
    return int(row[0]) if row else 0


def written_lsn(connection: psycopg.Connection[Any]) -> int:
    """How far the server's WAL has been written, on a standby: replayed."""
    row = connection.execute(
        "select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_flush_lsn() end::text"
    ).fetchone()
    return parse_lsn(row[0]) if row and row[0] else 0
