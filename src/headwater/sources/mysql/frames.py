"""Events gathered into chunks. No I/O.

`kernels.take_events` looks at rows and known table maps, the bulk of a log; this module at everything else:
where transactions begin and end, which table an id means, which statements stop us.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from headwater.errors import Retry, Stop
from headwater.event import Chunk, Position, TableRun, TableSchema
from headwater.sources.mysql import binlog, kernels
from headwater.sources.mysql.binlog import Event, Gtid, Header, Malformed, event_name
from headwater.sources.mysql.position import (
    FileProgress,
    MariaDbProgress,
    MySqlProgress,
    Progress,
    at,
    file_address,
)
from headwater.sources.mysql.schema_change import RELATION, SCHEMA_CHANGES, SchemaChange
from headwater.sources.mysql.statement import Kind, classify, dropped, truncated
from headwater.sources.mysql.table_map import TableMap, parse_table_id, parse_table_map
from headwater.sources.mysql.tables import Tables

# A chunk is closed at this size, in the middle of a transaction if need be.
CHUNK_BYTES = 4 << 20
# Frames that a chunk may have; a frame of the smallest rows takes 40 bytes.
CHUNK_FRAMES = CHUNK_BYTES // 32
# Ids that we give to tables whose truncation is the first we see of them: far above those the server counts up.
_OWN_IDS = 1 << 47
# An event that only says "the statement ends here".
_DUMMY_TABLE = 0xFFFFFF
# Events that are sent and not written.
_SILENT = (Event.HEARTBEAT, Event.HEARTBEAT_V2)
_PACKET = 5

Describe = Callable[[TableMap], TableSchema | None]
# Database and table → the captured table, as it is or was; without a table: all of the database.
Find = Callable[[str, str], list[TableSchema]]
# A statement that defines something, its transaction's coordinate, its place in the files → what to tell of it.
Define = Callable[[binlog.Query, int, str], SchemaChange | None]


@dataclass(frozen=True)
class _Before:
    """What there was when the open transaction began: a chunk ends there rather than inside."""

    address: int = 0
    # Of the commit before.
    time: int = 0
    # Changes of the chunk, by table.
    ids: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


class ChunkBuilder:
    """Takes events, gives chunks. `describe` names a table map's schema (None = not captured), `find` those of tables
    that the log has not named yet. `define` is told of definitions."""

    def __init__(
        self, start: Position, progress: Progress, describe: Describe, find: Find, define: Define | None = None
    ) -> None:
        # How far the events go that came in, and how far those that were handed on.
        self.progress = progress
        self.handed = start
        self.file = ""
        # Where the last event ended in its file.
        self.offset = 0
        self._describe = describe
        self._find = find
        self._tell = define
        self._tables = Tables()
        self._checksum = False
        self._out = np.empty(CHUNK_BYTES + (64 << 10), dtype=np.uint8)
        self._lengths = np.empty(CHUNK_FRAMES, dtype=np.uint32)
        # Bytes and frames gathered, changes of the open transaction, 1 inside one: shared with the kernel.
        self._state = np.zeros(4, dtype=np.int64)
        self._gtid: Gtid | None = None
        # Inside a transaction that a commit will end, not a single statement.
        self._explicit = False
        # The open transaction's begin frame, and where it lies; a transaction without changes is cut off again.
        self._begin = b""
        self._begin_at = (0, 0)
        self._before = _Before()
        self._commit = 0
        self._commit_time = 0
        self._resume = at(progress).resume
        # The last chunk ended inside a transaction: its end must be handed on, even without another frame.
        self._unfinished = False
        self._ready: list[Chunk] = []
        self._own_ids = _OWN_IDS
        self._context = self._opening("", 0, 0)

    @property
    def in_transaction(self) -> bool:
        return bool(self._state[3])

    @property
    def pending(self) -> bool:
        """Whether whole transactions wait to be handed on."""
        return bool(self._ready) or (not self.in_transaction and (bool(self._state[1]) or self._unfinished))

    @property
    def full(self) -> bool:
        """Whether a chunk waits that cannot grow any more."""
        return bool(self._ready) or self._state[0] >= CHUNK_BYTES

    @property
    def address(self) -> int:
        """Where in the log's files we are."""
        return file_address(self.file, self.offset) if self.file else 0

    @property
    def place(self) -> str:
        return f"{self.file}:{self.offset}"

    def take_packets(self, data: npt.NDArray[np.uint8], begin: int, end: int) -> tuple[int, int]:
        """Take events from packets until one is not whole, or is not an event, or a chunk is full; (why, where)."""
        while True:
            why, begin = self._take(data, begin, end, _PACKET)
            match why:
                case kernels.OTHER:
                    size = int.from_bytes(data[begin : begin + 3].tobytes(), "little")
                    self.add(data[begin + _PACKET : begin + 4 + size].tobytes())
                    begin += 4 + size
                    if self.full:
                        return kernels.FULL, begin
                case kernels.FULL:
                    self._make_room(int.from_bytes(data[begin : begin + 3].tobytes(), "little"))
                    return kernels.FULL, begin
                case kernels.DAMAGED | kernels.CHECKSUM:
                    raise self._damaged(why)
                case _:
                    return int(why), begin

    def add(self, event: bytes, *, inner: bool = False) -> None:
        """One event as the server sent it; `inner` ones, of a compressed transaction, have no checksum."""
        header = binlog.parse_header(event)
        if not inner:
            event = self._checked(event, header)
        rows = header.type in binlog.ROWS or header.type == Event.TABLE_MAP
        if not (rows and self._bare(event)):
            self._other(header, event)
        self._follow(header, inner)

    def take(self) -> Chunk | None:
        """Everything gathered so far as one chunk; None when there is nothing."""
        if not self._ready and (self._state[1] or self.pending):
            self._hand_on()
        return self._ready.pop(0) if self._ready else None

    def tick(self) -> Chunk:
        """An idle log has moved on: an empty chunk that moves the position there."""
        self._cut()
        return self._ready.pop(0)

    # -- rows --------------------------------------------------------------------------------------

    def _take(self, data: npt.NDArray[np.uint8], begin: int, end: int, prefix: int) -> tuple[int, int]:
        tables = self._tables
        checksum = binlog.CHECKSUM_BYTES if prefix and self._checksum else 0
        why, place = kernels.take_events(
            data,
            begin,
            end,
            prefix,
            checksum,
            tables.ids,
            tables.maps,
            tables.map_ends,
            tables.layouts,
            tables.layout_ends,
            tables.counts,
            self._out,
            self._lengths,
            self._state,
        )
        return int(why), int(place)

    def _bare(self, event: bytes) -> bool:
        """One event, its checksum already off. True when the kernel knew what to do with it."""
        data = np.frombuffer(event, dtype=np.uint8).copy()
        while True:
            why, _ = self._take(data, 0, data.size, 0)
            match why:
                case kernels.FULL:
                    self._make_room(len(event))
                case kernels.DAMAGED:
                    raise self._damaged(why)
                case _:
                    return why == kernels.MORE

    def _make_room(self, wanted: int) -> None:
        if self._state[1]:
            self._hand_on()
        if self._state[1] and self._state[0] + wanted + 64 > self._out.size:
            self._cut()
        if self._out.size < wanted + 64:
            self._out = np.empty(wanted + (64 << 10), dtype=np.uint8)

    def _damaged(self, why: int) -> Malformed:
        what = "an event whose checksum is wrong" if why == kernels.CHECKSUM else "a rows event that is damaged"
        return Malformed(what, f"{self.place} or behind it")

    def _keep(self, event: bytes, rows: int) -> None:
        size = len(event) + 4
        if self._state[0] + size > self._out.size or self._state[1] >= self._lengths.size:
            self._make_room(size)
        place, frame = int(self._state[0]), int(self._state[1])
        self._out[place : place + size] = np.frombuffer(rows.to_bytes(4, "little") + event, dtype=np.uint8)
        self._lengths[frame] = size
        self._state[:3] += (size, 1, rows)

    # -- everything else ---------------------------------------------------------------------------

    def _checked(self, event: bytes, header: Header) -> bytes:
        """The event without its checksum, once that has been seen to hold."""
        if header.size != len(event):
            raise Malformed(f"an event of {len(event)} bytes that says {header.size}", self.place)
        body, sum_ = event[:-4], int.from_bytes(event[-4:], "little")
        holds = zlib.crc32(body) == sum_
        match header.type:
            case Event.FORMAT_DESCRIPTION:
                _version, self._checksum = binlog.parse_format_description(event[binlog.HEADER_BYTES :])
                if self._checksum and not holds:
                    # A server clears the "in use" flag of the first event in place and may not sum it again.
                    cleared = event[:17] + bytes([event[17] & ~1]) + event[18:-4]
                    if zlib.crc32(cleared) != sum_:
                        raise self._damaged(kernels.CHECKSUM)
                return body
            case Event.ROTATE if header.flags & binlog.ARTIFICIAL or not header.end:
                # Comes before we know whether there are checksums.
                return body if holds else event
        if not self._checksum:
            return event
        if not holds:
            raise self._damaged(kernels.CHECKSUM)
        return body

    def _follow(self, header: Header, inner: bool) -> None:
        """Where the event ended; artificial ones and those inside others do not say."""
        if header.end and not inner and not header.flags & binlog.ARTIFICIAL and header.type not in _SILENT:
            self.offset += (header.end - self.offset) & 0xFFFFFFFF

    def _start_address(self, header: Header) -> int:
        """Where the event at hand begins."""
        # The header has 32 bits of it. The server may have passed over others before this one.
        return file_address(self.file, self.offset + ((header.end - header.size - self.offset) & 0xFFFFFFFF))

    def _other(self, header: Header, event: bytes) -> None:
        body = event[binlog.HEADER_BYTES :]
        match header.type:
            case Event.MARIADB_GTID:
                gtid = binlog.parse_mariadb_gtid(body, header.server_id)
                self._open(header, gtid, explicit=not gtid.standalone)
            case Event.GTID:
                self._open(header, binlog.parse_mysql_gtid(body), explicit=False)
            case Event.GTID_TAGGED:
                self._open(header, binlog.parse_tagged_gtid(body), explicit=False)
            case Event.ANONYMOUS_GTID:
                gtid = binlog.parse_mysql_gtid(body)
                self._open(header, Gtid("", 0, time=gtid.time), explicit=False)
            case Event.QUERY:
                self._statement(header, binlog.parse_query(body))
            case Event.QUERY_COMPRESSED:
                self._statement(header, binlog.parse_query(binlog.uncompressed_query(body)))
            case Event.XID:
                self._close(header)
            case Event.XA_PREPARE:
                self._prepared(header, one_phase=body[:1] == b"\x01")
            case Event.TABLE_MAP:
                self._relate(body)
            case kind if kind in binlog.ROWS:
                if not self.in_transaction:
                    raise Malformed("rows outside of a transaction", self.place)
                if parse_table_id(body) != _DUMMY_TABLE:
                    raise Malformed("rows of a table that was not named before", self.place)
            case kind if kind in binlog.COMPRESSED_ROWS:
                self.add(binlog.uncompressed_rows(event), inner=True)
            case Event.TRANSACTION_PAYLOAD:
                self._unpack(binlog.parse_payload(body))
            case Event.ROTATE:
                self._rotate(header, body)
            case Event.FORMAT_DESCRIPTION:
                self._restart(header)
            case Event.HEARTBEAT | Event.HEARTBEAT_V2:
                pass
            case kind if kind in binlog.PASSED_OVER:
                pass
            case _:
                self._refuse(header)

    def _refuse(self, header: Header) -> None:
        """What would lose or change data if it were passed over."""
        name = event_name(header.type)
        match header.type:
            case Event.INCIDENT:
                raise Stop(
                    f"the server reports an incident at {self.place}: changes may be missing from its log",
                    "To load the tables anew: remove the state folder and the tables in the lake, and run again",
                )
            case Event.PARTIAL_UPDATE_ROWS:
                raise Stop(
                    f"the log has partial updates of JSON values at {self.place}, which are not read",
                    "set global binlog_row_value_options = '';",
                )
            case Event.BEGIN_LOAD_QUERY | Event.EXECUTE_LOAD_QUERY:
                raise self._not_rows("LOAD DATA")
            case _ if not header.flags & binlog.IGNORABLE:
                raise Stop(
                    f"the log has an event that is not known here: {name} at {self.place}",
                    "If this server is newer than this version of headwater: upgrade headwater",
                )

    def _not_rows(self, what: str) -> Stop:
        return Stop(
            f"the log has a change as a statement, not as rows: {what} at {self.place}",
            "set global binlog_format = 'ROW';   -- then end the sessions that had another format",
            "The change itself cannot be read: load the tables that it touched anew",
        )

    def _open(self, header: Header, gtid: Gtid, *, explicit: bool) -> None:
        if self.in_transaction:
            raise Malformed("a transaction inside a transaction", self.place)
        address = self._start_address(header)
        # Without GTIDs the files themselves count.
        self._commit = address if isinstance(self.progress, FileProgress) else self.progress.coordinate
        if self._commit == self.handed.commit and self.handed.ordinal:
            # We start inside this transaction, and it comes again from its first change.
            self.handed = Position(self._commit, 0, self._resume)
        time = gtid.time or header.time * 1_000_000
        self._begin = binlog.begin_frame(self._commit, time, gtid.number, address, header.server_id, str(gtid))
        self._before = _Before(address, self._commit_time, self._tables.ids, self._tables.counts.copy())
        self._gtid, self._explicit, self._commit_time = gtid, explicit, time
        self._resume = ""
        self._begin_at = (int(self._state[0]), int(self._state[1]))
        self._state[2] = 0
        if not self._state[1] and not self._unfinished:
            self._context = self._opening("", 0, address)
        self._keep(self._begin, 0)
        self._state[3] = 1

    def _opening(self, begin: str, ordinal: int, address: int) -> dict[str, Any]:
        """What a decoder must know to begin at the next frame."""
        return {"begin": begin, "ordinal": ordinal, "address": address, "resume": self.progress.text()}

    def _close(self, header: Header) -> None:
        """The transaction is committed."""
        if not self.in_transaction:
            raise Malformed("a commit outside of a transaction", self.place)
        if not self._state[2] and not self._unfinished:
            # Nothing of it is captured.
            self._state[0], self._state[1] = self._begin_at
        self._state[3] = 0
        gtid = self._gtid
        match self.progress:
            case MariaDbProgress() if gtid:
                self.progress = self.progress.after(gtid.domain, gtid.server, gtid.number)
            case MySqlProgress() if gtid and gtid.source:
                self.progress = self.progress.after(gtid.source, gtid.number)
            case FileProgress():
                self._follow(header, inner=False)
                self.progress = FileProgress(self.file, self.offset)
            case _:
                raise Stop(
                    f"the log has a transaction without a GTID at {self.place}",
                    "The server's gtid_mode was changed; load the tables anew",
                )
        self._gtid = None
        self._explicit = False

    def _prepared(self, header: Header, *, one_phase: bool) -> None:
        """An XA transaction: committed already, or not before another statement, perhaps days later. Rows of the latter
        would have to wait outside of the journal, whose positions move on meanwhile."""
        if not one_phase and (self._state[2] or self._unfinished):
            raise Stop(
                f"an XA transaction of captured tables was prepared at {self.place}; only those of one phase are read",
                "Commit them in one phase (XA COMMIT … ONE PHASE), or write to those tables without XA",
                "Or leave the tables out: source.exclude",
            )
        self._close(header)

    def _statement(self, header: Header, query: binlog.Query) -> None:
        match classify(query.text):
            case Kind.BEGIN:
                self._explicit = True
                self._note_thread(query.thread)
            case Kind.COMMIT:
                self._close(header)
            case Kind.ROLLBACK:
                if self._state[2] or self._unfinished:
                    raise Stop(
                        f"a transaction that was rolled back stands in the log at {self.place}",
                        "It changed tables without transactions (MyISAM, Aria) beside others, so it is neither done"
                        " nor undone: use InnoDB for captured tables, or leave them out",
                    )
                self._close(header)
            case Kind.SAVEPOINT:
                pass
            case Kind.ROLLBACK_TO:
                if self._state[2] or self._unfinished:
                    raise Stop(
                        f"part of a transaction was rolled back in the log at {self.place}",
                        "It changed tables without transactions (MyISAM, Aria) beside others: use InnoDB for"
                        " captured tables, or leave them out",
                    )
            case Kind.CHANGE:
                self._refuse_change(query)
                self._end_single(header)
            case Kind.TRUNCATE:
                self._empty(truncated(query.text, query.database), header)
                self._end_single(header)
            case Kind.DEFINITION:
                # A table that is made again under the name begins without the rows of the one before.
                for name in dropped(query.text, query.database):
                    self._empty(name, header)
                self._define(query)
                self._end_single(header)
            case Kind.DEFINITION_WITH_ROWS:
                # MySQL 8: create table … select, in one transaction with its rows.
                self._define(query)
                self._explicit = True

    def _define(self, query: binlog.Query) -> None:
        if self._tell is not None:
            change = self._tell(query, self._commit, self.place)
            self._tables.expire()
            if change is not None:
                self._note(SCHEMA_CHANGES, RELATION, change.to_json().encode())

    def _note_thread(self, thread: int) -> None:
        """The session that wrote the open transaction: MySQL says it behind the GTID, MariaDB not at all."""
        if self.in_transaction:
            self._begin = binlog.with_thread(self._begin, thread)
            place = self._begin_at[0] + 4
            self._out[place : place + len(self._begin)] = np.frombuffer(self._begin, dtype=np.uint8)

    def _end_single(self, header: Header) -> None:
        if self.in_transaction and not self._explicit:
            self._close(header)

    def _refuse_change(self, query: binlog.Query) -> None:
        # Which tables a statement touches (through views, triggers, procedures) only the server knows.
        verb = re.split(r"\W", query.text.strip(), maxsplit=1)[0].upper()
        raise self._not_rows(f"{verb} in database {query.database!r}")

    def _empty(self, name: tuple[str, str], header: Header) -> None:
        """All rows of a table, or of the tables of a database, are gone at once by the statement with this header."""
        for known in [name] if self._tables.find(name) is not None else self._captured(*name):
            place = self._tables.find(known)
            if place is not None and (schema := self._tables.schemas[place]) is not None:
                self._note(schema, int(self._tables.ids[place]), at=header)

    def _captured(self, database: str, table: str) -> list[tuple[str, str]]:
        """The names of captured tables; those that the log has not named yet are known from here on."""
        found = [(schema, (schema.schema, schema.name)) for schema in self._find(database, table)]
        for schema, name in found:
            if self._tables.find(name) is None:
                self._own_ids += 1
                self._tables.put(self._own_ids, name, b"", schema)
        return [name for _schema, name in found]

    def _note(self, schema: TableSchema, id: int, content: bytes = b"", at: Header | None = None) -> None:
        """A change that is no row: of a whole table, or of no table at all; `at` the place of this event."""
        place = self._tables.place(id)
        if place is None:
            self._tables.put(id, (schema.schema, schema.name), b"", schema)
            place = len(self._tables.schemas) - 1
        size = binlog.HEADER_BYTES + 8 + len(content)
        # Whoever reads it finds its place as that of any event: where it ends, less its size.
        end = (at.end - at.size + size) & 0xFFFFFFFF if at is not None and at.end else 0
        self._keep(binlog.HEADER.pack(0, Event.QUERY, 0, size, end, 0) + id.to_bytes(8, "little") + content, 1)
        self._tables.counts[place] += 1

    def _relate(self, body: bytes) -> None:
        if not self.in_transaction:
            raise Malformed("a TABLE_MAP outside of a transaction", self.place)
        found = parse_table_map(body)
        name = (found.schema, found.name)
        schema = self._describe(found)
        for known in (self._tables.find(name), self._tables.place(found.id)):
            # Within a chunk a table has one schema and one id.
            if known is not None and self._tables.counts[known]:
                self._hand_on()
            if known is not None and self._tables.counts[known]:
                self._cut()
        self._tables.put(found.id, name, body, schema)

    def _unpack(self, events: bytes) -> None:
        begin = 0
        while begin < len(events):
            header = binlog.parse_header(events[begin : begin + binlog.HEADER_BYTES])
            if header.size < binlog.HEADER_BYTES or begin + header.size > len(events):
                raise Malformed("a compressed transaction with an event that is too long", self.place)
            event = bytearray(events[begin : begin + header.size])
            # Ends of their own mean nothing in the file.
            event[13:17] = bytes(4)
            self.add(bytes(event), inner=True)
            begin += header.size

    def _rotate(self, header: Header, body: bytes) -> None:
        file, offset = binlog.parse_rotate(body)
        if file != self.file or offset < self.offset:
            self.offset = offset
        if self.file and isinstance(self.progress, FileProgress) and not self.in_transaction:
            self.progress = FileProgress(file, offset)
        self.file = file

    def _restart(self, header: Header) -> None:
        if self.in_transaction:
            # The server crashed while it wrote this transaction: it was never committed.
            raise Retry(f"the server's log breaks off inside a transaction before {self.place}")

    # -- chunks ------------------------------------------------------------------------------------

    def _hand_on(self) -> None:
        """Close the chunk where a transaction ends, if one does."""
        if not self.in_transaction or not self._begin_at[1]:
            self._cut()
            return
        (size, frames), before = self._begin_at, self._before
        rest = self._out[size : self._state[0]].copy()
        lengths = self._lengths[frames : self._state[1]].copy()
        counts, time, changes = self._tables.counts.copy(), self._commit_time, int(self._state[2])
        self._tables.counts[:] = 0
        for table, count in zip(before.ids.tolist(), before.counts.tolist(), strict=True):
            if count and (place := self._tables.place(table)) is not None:
                self._tables.counts[place] = count
        counts -= self._tables.counts
        self._state[:] = (size, frames, 0, 0)
        self._commit_time = before.time
        self._cut()
        self._commit_time, self._context = time, self._opening("", 0, before.address)
        self._out[: rest.size], self._lengths[: lengths.size], self._tables.counts[:] = rest, lengths, counts
        self._state[:] = (rest.size, lengths.size, changes, 1)

    def _cut(self) -> None:
        """Close the chunk at this event."""
        open_, ordinal = self.in_transaction, int(self._state[2])
        # The progress before the open transaction, or behind the last whole one.
        self._resume = self.progress.text()
        last = Position(self._commit, ordinal, self._resume) if open_ else at(self.progress)
        size, frames = int(self._state[0]), int(self._state[1])
        tables = self._tables
        chunk = Chunk(
            frames=self._out[:size].tobytes(),
            lengths=self._lengths[:frames].copy(),
            first=self.handed,
            last=last,
            whole=not open_,
            tables=tuple(
                TableRun(int(relation), schema.table, schema.id, int(count))
                for relation, schema, count in zip(tables.ids, tables.schemas, tables.counts, strict=True)
                if schema is not None and count
            ),
            context=self._context,
            commit_time=self._commit_time,
        )
        self._ready.append(chunk)
        tables.counts[:] = 0
        self._state[0] = self._state[1] = 0
        self._begin_at = (0, 0)
        self.handed = last
        self._unfinished = open_
        begin = self._begin.hex() if open_ else ""
        self._context = self._opening(begin, ordinal if open_ else 0, self.address)
        if open_:
            self._context["earlier"] = self._earlier(chunk)

    def _earlier(self, chunk: Chunk) -> dict[str, dict[str, int]]:
        """What the open transaction has had: the next chunk's events are numbered behind it."""
        # Here, because only a transaction of more than a chunk needs it, and it loads the kernels of values.
        from headwater.sources.mysql.timeline import open_transaction

        return open_transaction(chunk, {schema.id: schema for schema in self._tables.schemas if schema is not None})
