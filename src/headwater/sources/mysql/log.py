"""Reading the binlog as a replica does: one connection, raw bytes in, chunks out."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid5

import pymysql
from pymysql.constants import ER

from headwater.errors import HeadwaterError, Retry, Stop
from headwater.event import Chunk, Position, TableSchema
from headwater.sources.base import Log
from headwater.sources.mysql import kernels
from headwater.sources.mysql.binlog import Query
from headwater.sources.mysql.connection import Refused, Server, connect, replica_id, server_error
from headwater.sources.mysql.frames import ChunkBuilder, Define, Describe, Find
from headwater.sources.mysql.history import History
from headwater.sources.mysql.options import MySqlOptions
from headwater.sources.mysql.packets import Packets, broken, parse_error
from headwater.sources.mysql.position import FileProgress, MariaDbProgress, MySqlProgress, Progress, at, parse_progress
from headwater.sources.mysql.schema_change import SCHEMA_CHANGES, SchemaChange
from headwater.sources.mysql.state import replicas, unread_bytes
from headwater.sources.mysql.table_map import TableMap

_REGISTER, _DUMP, _DUMP_GTID = 0x15, 0x12, 0x1E
# In COM_BINLOG_DUMP_GTID: the set of GTIDs decides where to begin.
_BY_GTID = 0x04
_FORBIDDEN = (ER.ACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR)
# A chunk is handed on this long after the last one: under load, fewer and larger ones.
GATHER_SECONDS = 0.05
# A log that moves without captured changes says so this often: after so many bytes, or seconds.
TICK_BYTES = 8 << 20
TICK_SECONDS = 30.0
# A server that has missed this many heartbeats is gone.
HEARTBEATS_MISSED = 4
# What is asked beside the dump is not worth waiting for.
ANSWER_SECONDS = 2.0
# How far behind we are is asked this often: a new connection each time, a few milliseconds.
ASK_SECONDS = 5.0


class ServerIdTaken(Stop):
    """Another replica has our id."""

    def __init__(self, id: int, host: str) -> None:
        super().__init__(
            f"the server_id {id} is in use by another replica ({host or 'unnamed'})",
            "If that is another run of this pipeline: stop it",
            "Otherwise choose another one: source.server_id",
            cause="The server ends the first of two replicas with one id; they would take turns for ever",
        )


class MySqlLog(Log):
    """See `headwater.sources.base.Log`."""

    def __init__(
        self,
        options: MySqlOptions,
        after: Position,
        describe: Describe,
        find: Find,
        define: Define | None = None,
        history: History | None = None,
    ) -> None:
        self._options = options
        self._schemas: dict[str, TableSchema] = {SCHEMA_CHANGES.id: SCHEMA_CHANGES}
        progress = parse_progress(after.resume)
        self._builder = ChunkBuilder(after, progress, self._remember(describe), self._remember_found(find), define)
        self._buffer, self._place = self._builder.buffer, self._builder.place
        self._history = history
        self._received = after.commit
        self._last_emit = self._last_tick = 0.0
        self._heard = time.monotonic()
        self._ticked = 0
        self._asked = self._heard
        self._behind = 0
        self._server = Server(options)
        try:
            refuse_taken_id(self._server, replica_id(options), options.heartbeat_seconds)
            start_dump(self._server, options, progress)
            self._packets = Packets(self._server.connection)
        except pymysql.Error as error:
            self._server.close()
            code, text = (*error.args, "")[:2]
            if code in _FORBIDDEN:
                # The password was right: it has let us in. What the server says is that of a wrong one.
                raise dump_error(code, str(text), progress) from error
            raise server_error(error, self._server.address) from error
        except Refused as error:
            # It has let us in, and does not let us look who else reads.
            self._server.close()
            raise dump_error(ER.SPECIFIC_ACCESS_DENIED_ERROR, error.what, progress) from error
        except BaseException:
            self._server.close()
            raise

    def read(self, timeout: float) -> Chunk | None:
        deadline = time.monotonic() + timeout
        while True:
            if self._take():
                return self._emit()
            now = time.monotonic()
            wait = deadline - now
            if self._buffer.pending:
                ripe = self._last_emit + GATHER_SECONDS
                if now >= ripe:
                    return self._emit()
                wait = min(wait, ripe - now)
            else:
                self._note_received()
                if (tick := self._tick(now)) is not None:
                    return tick
            if wait <= 0:
                return None
            if self._packets.receive(wait):
                self._heard = time.monotonic()
            elif now - self._heard > HEARTBEATS_MISSED * self._options.heartbeat_seconds:
                raise broken("the server has been silent for longer than it promised")

    def schema(self, schema: str) -> TableSchema:
        return self._schemas[schema]

    def confirm(self, position: Position) -> None:
        """The server keeps its log for as long as it is told to, whoever reads it; we need not keep definitions."""
        if self._history is not None:
            self._history.floor = position.commit

    def close(self) -> None:
        """The server does not listen while it dumps, and notices a closed socket at the next heartbeat only. Until then
        our id is taken: so its end of the connection is ended too, which an account may always do to its own."""
        lent: Any = self._server.connection
        thread = lent.thread_id()
        lent._force_close()
        with suppress(HeadwaterError), connect(self._options, ANSWER_SECONDS) as server:
            server.rows(f"kill {int(thread)}")

    def lag(self) -> Mapping[str, Any]:
        self._ask_server()
        silent = time.monotonic() - self._heard
        return {
            "behind_bytes": self._behind,
            "received": self._received,
            "file": self._place.file,
            "offset": self._place.offset,
            "gtids": self._buffer.progress.text(),
            "in_transaction": self._buffer.in_transaction,
            **({"silent_seconds": int(silent)} if silent > 2 * self._options.heartbeat_seconds else {}),
        }

    def _ask_server(self) -> None:
        """How far its log goes, now and then, on a connection of its own: the one that dumps does not tell."""
        now = time.monotonic()
        if now - self._asked < ASK_SECONDS or not self._place.file:
            return
        self._asked = now
        # A server that does not answer is noticed by reading.
        with suppress(HeadwaterError), connect(self._options, ANSWER_SECONDS) as server:
            self._behind = unread_bytes(server, self._place.file, self._place.offset)

    # -- reading -----------------------------------------------------------------------------------

    def _take(self) -> bool:
        """Take what has come; True when a chunk is full."""
        packets, builder = self._packets, self._builder
        while packets.at < packets.end:
            why, packets.at = builder.take_packets(packets.data, packets.at, packets.end)
            match why:
                case kernels.FULL:
                    return True
                case kernels.LARGE:
                    found = packets.large()
                    if found is None:
                        return self._buffer.full
                    payload, packets.at = found
                    builder.add(payload[1:])
                case kernels.NOT_EVENT:
                    raise self._ended(packets.payload())
                case _:
                    break
        return self._buffer.full

    def _ended(self, payload: bytes) -> HeadwaterError:
        """The server ended the dump. Its reason decides whether trying again can help."""
        if payload[:1] != b"\xff":
            return broken("the server ended the dump")
        code, text = parse_error(payload)
        return dump_error(code, text, self._buffer.progress)

    def _emit(self) -> Chunk | None:
        chunk = self._buffer.take()
        self._last_emit = time.monotonic()
        if chunk is not None and chunk.whole:
            self._received = max(self._received, chunk.last.commit)
        self._note_received()
        return chunk

    def _note_received(self) -> None:
        """Everything that came has been handed on."""
        if not self._buffer.pending and not self._buffer.in_transaction:
            self._received = max(self._received, self._buffer.progress.coordinate)
            if self._history is not None:
                self._history.read_up_to(self._buffer.progress)

    def _tick(self, now: float) -> Chunk | None:
        """An empty chunk when transactions that we do not care about have moved the log on."""
        buffer, address = self._buffer, self._place.address
        if buffer.in_transaction or buffer.progress.coordinate <= buffer.handed.commit:
            return None
        seconds = self._options.heartbeat_interval_ms / 1000 or TICK_SECONDS
        if address - self._ticked >= TICK_BYTES or now - self._last_tick >= seconds:
            self._last_tick, self._ticked = now, address
            return buffer.tick()
        return None

    def _remember(self, describe: Describe) -> Describe:
        def remembered(found: TableMap) -> TableSchema | None:
            schema = describe(found)
            return None if schema is None else self._kept(schema)

        return remembered

    def _remember_found(self, find: Find) -> Find:
        def remembered(database: str, table: str) -> list[TableSchema]:
            return [self._kept(schema) for schema in find(database, table)]

        return remembered

    def _kept(self, schema: TableSchema) -> TableSchema:
        self._schemas[schema.id] = schema
        return schema


def look_through(options: MySqlOptions, begin: Progress, end: Progress, define: Define) -> None:
    """Tell `define` of every definition between two places of the log, and keep no rows."""

    def within(query: Query, commit: int, place: str) -> SchemaChange | None:
        # Events come in large pieces: the last one goes on behind the end.
        if commit < end.coordinate:
            define(query, commit, place)
        return None

    log = MySqlLog(options, at(begin), lambda _found: None, lambda _database, _table: [], within)
    try:
        while log.lag()["received"] < end.coordinate:
            log.read(0.2)
    finally:
        log.close()


# -- starting --------------------------------------------------------------------------------------


def refuse_taken_id(server: Server, id: int, heartbeat: float, now: Callable[[], float] = time.monotonic) -> None:
    """Stop when another replica has our id. One that was killed is forgotten within a heartbeat or two."""
    if id == int(server.value("select @@server_id")):
        raise ServerIdTaken(id, "the server itself")
    deadline = now() + 3 * heartbeat + 1
    while True:
        other = next((row for row in replicas(server) if int(row["server_id"]) == id), None)
        if other is None:
            return
        if now() > deadline:
            raise ServerIdTaken(id, str(other.get("host") or ""))
        time.sleep(0.1)


def start_dump(server: Server, options: MySqlOptions, progress: Progress) -> None:
    """Ask for the log from `progress` on. What comes then is for `Packets`."""
    own = replica_id(options)
    nanoseconds = int(options.heartbeat_seconds * 1e9)
    # Two names each: MySQL has given these variables new ones.
    for word in ("master", "source"):
        server.rows(f"set @{word}_heartbeat_period = {nanoseconds}, @{word}_binlog_checksum = @@global.binlog_checksum")
    uuid = uuid5(NAMESPACE_DNS, f"{options.client}.{own}")
    server.rows("set @slave_uuid = %s, @replica_uuid = %s", [str(uuid), str(uuid)])
    if server.mariadb:
        # 4: understands GTIDs. The server sends no event that a lower number would not know.
        server.rows("set @mariadb_slave_capability = 4")
    connection: Any = server.connection
    connection._execute_command(_REGISTER, _registration(own, options.client))
    connection._read_packet()
    match progress:
        case MariaDbProgress():
            server.rows("set @slave_connect_state = %s, @slave_gtid_strict_mode = 1", [progress.gtids])
            connection._execute_command(_DUMP, struct.pack("<IHI", 4, 0, own))
        case MySqlProgress():
            wanted = _encoded_set(progress)
            head = struct.pack("<HIIQI", _BY_GTID, own, 0, 4, len(wanted))
            connection._execute_command(_DUMP_GTID, head + wanted)
        case FileProgress():
            connection._execute_command(_DUMP, struct.pack("<IHI", progress.offset, 0, own) + progress.file.encode())


def _registration(id: int, client: str) -> bytes:
    host = client.encode()[:60]
    return struct.pack("<IB", id, len(host)) + host + struct.pack("<BBHII", 0, 0, 0, 0, 0)


def _encoded_set(progress: MySqlProgress) -> bytes:
    """A set of GTIDs for COM_BINLOG_DUMP_GTID: ends of intervals lie outside."""
    parts = [struct.pack("<Q", len(progress.sources))]
    for source, spans in progress.sources:
        if ":" in source:
            raise Stop(f"the GTID set has a tag ({source}); resuming behind tagged GTIDs is not supported yet")
        parts.append(UUID(source).bytes + struct.pack("<Q", len(spans)))
        parts.extend(struct.pack("<QQ", first, last + 1) for first, last in spans)
    return b"".join(parts)


def dump_error(code: int, text: str, progress: Progress) -> HeadwaterError:
    """Why the server does not send its log, in words that name the cause: its own are often misleading."""
    where = progress.text().partition(":")[2]
    anew = "To load the tables anew: remove the state folder and the tables in the lake, and run again"
    lower = text.lower()
    if code == 1236:
        if "same server_uuid/server_id" in lower or "a slave with the same" in lower:
            return Stop(
                "another replica with our server_id has taken our place",
                "Choose another one for one of the two: source.server_id",
                cause=text,
            )
        if "purged" in lower or "could not find first log file" in lower or "could not open log file" in lower:
            return Stop(
                f"the server no longer has what comes after {where}: those binlog files were purged",
                anew,
                "Keep them longer: binlog_expire_logs_seconds (expire_logs_days on older servers)",
                cause=text,
            )
        if (
            "not in the master's binlog" in lower
            or "slave has more gtids" in lower
            or "replica has more gtids" in lower
        ):
            return Stop(
                f"the server does not know the position {where}",
                anew,
                cause="Its log was reset (RESET MASTER), it was restored from a backup, or it is not a replica of the"
                " server we read before",
            )
        if "impossible position" in lower or "bogus data" in lower or "event truncated" in lower:
            return Stop(f"the server's log has no event at {where}", anew, cause=text)
        return Stop(f"the server cannot send its log from {where}: {text}", anew)
    if code in _FORBIDDEN:
        return Stop(
            f"the account may not read the log: {text}",
            "grant replication slave, replication client on *.* to …;",
        )
    return Retry(f"the server ended the dump: {text} (error {code})")
