"""What events mean, on their way into a chunk. No I/O.

`kernels.take_events` looks at rows and known table maps, the bulk of a log; this module at everything else:
where transactions begin and end, which table an id means, which statements stop us.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from headwater.errors import Retry, Stop
from headwater.event import Position, TableSchema
from headwater.sources.mysql import binlog, kernels
from headwater.sources.mysql.binlog import Event, Gtid, Header, Malformed, event_name
from headwater.sources.mysql.chunk_buffer import ChunkBuffer
from headwater.sources.mysql.place import Place
from headwater.sources.mysql.position import FileProgress, MariaDbProgress, MySqlProgress, Progress
from headwater.sources.mysql.schema_change import RELATION, SCHEMA_CHANGES, SchemaChange
from headwater.sources.mysql.statement import Kind, classify, dropped, truncated
from headwater.sources.mysql.table_map import TableMap, parse_table_id, parse_table_map

# Ids that we give to tables whose truncation is the first we see of them: far above those the server counts up.
_OWN_IDS = 1 << 47
# An event that only says "the statement ends here".
_DUMMY_TABLE = 0xFFFFFF
_PACKET = 5

Describe = Callable[[TableMap], TableSchema | None]
# Database and table → the captured table, as it is or was; without a table: all of the database.
Find = Callable[[str, str], list[TableSchema]]
# A statement that defines something, its transaction's coordinate, its place in the files → what to tell of it.
Define = Callable[[binlog.Query, int, str], SchemaChange | None]


class ChunkBuilder:
    """Takes events; `buffer` gives the chunks.

    `describe` names a table map's schema (None = not captured), `find` those of tables that the log has not named yet;
    `define` is told of definitions."""

    def __init__(
        self, start: Position, progress: Progress, describe: Describe, find: Find, define: Define | None = None
    ) -> None:
        self.place = Place()
        self.buffer = ChunkBuffer(start, progress, self.place)
        self._describe = describe
        self._find = find
        self._tell = define
        self._checksum = False
        self._gtid: Gtid | None = None
        # Inside a transaction that a commit will end, not a single statement.
        self._explicit = False
        self._commit = 0
        self._own_ids = _OWN_IDS

    def take_packets(self, data: npt.NDArray[np.uint8], begin: int, end: int) -> tuple[int, int]:
        """Take events from packets until one is not whole, or is not an event, or a chunk is full; (why, where)."""
        buffer = self.buffer
        while True:
            # Whether there are any, an event may change.
            checksum = binlog.CHECKSUM_BYTES if self._checksum else 0
            why, begin = buffer.take_events(data, begin, end, _PACKET, checksum)
            match why:
                case kernels.OTHER:
                    size = int.from_bytes(data[begin : begin + 3].tobytes(), "little")
                    self.add(data[begin + _PACKET : begin + 4 + size].tobytes())
                    begin += 4 + size
                    if buffer.full:
                        return kernels.FULL, begin
                case kernels.FULL:
                    buffer.make_room(int.from_bytes(data[begin : begin + 3].tobytes(), "little"))
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
        if not inner:
            # Those inside others do not say where they end.
            self.place.pass_over(header)

    # -- rows --------------------------------------------------------------------------------------

    def _bare(self, event: bytes) -> bool:
        """One event, its checksum already off. True when the kernel knew what to do with it."""
        data = np.frombuffer(event, dtype=np.uint8).copy()
        while True:
            why, _ = self.buffer.take_events(data, 0, data.size, 0, 0)
            match why:
                case kernels.FULL:
                    self.buffer.make_room(len(event))
                case kernels.DAMAGED:
                    raise self._damaged(why)
                case _:
                    return why == kernels.MORE

    def _damaged(self, why: int) -> Malformed:
        what = "an event whose checksum is wrong" if why == kernels.CHECKSUM else "a rows event that is damaged"
        return Malformed(what, f"{self.place} or behind it")

    # -- everything else ---------------------------------------------------------------------------

    def _checked(self, event: bytes, header: Header) -> bytes:
        """The event without its checksum, once that has been seen to hold."""
        if header.size != len(event):
            raise Malformed(f"an event of {len(event)} bytes that says {header.size}", str(self.place))
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
                if not self.buffer.in_transaction:
                    raise Malformed("rows outside of a transaction", str(self.place))
                if parse_table_id(body) != _DUMMY_TABLE:
                    raise Malformed("rows of a table that was not named before", str(self.place))
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
        if self.buffer.in_transaction:
            raise Malformed("a transaction inside a transaction", str(self.place))
        address, progress = self.place.begin_of(header), self.buffer.progress
        # Without GTIDs the files themselves count.
        self._commit = address if isinstance(progress, FileProgress) else progress.coordinate
        time = gtid.time or header.time * 1_000_000
        frame = binlog.begin_frame(self._commit, time, gtid.number, address, header.server_id, str(gtid))
        self.buffer.begin(frame, self._commit, time, address)
        self._gtid, self._explicit = gtid, explicit

    def _close(self, header: Header) -> None:
        """The transaction is committed."""
        if not self.buffer.in_transaction:
            raise Malformed("a commit outside of a transaction", str(self.place))
        self.buffer.end(self._progress_behind(header))
        self._gtid = None
        self._explicit = False

    def _progress_behind(self, header: Header) -> Progress:
        """How far we are with the transaction that this event ends."""
        gtid = self._gtid
        match self.buffer.progress:
            case MariaDbProgress() as progress if gtid:
                return progress.after(gtid.domain, gtid.server, gtid.number)
            case MySqlProgress() as progress if gtid and gtid.source:
                return progress.after(gtid.source, gtid.number)
            case FileProgress():
                self.place.pass_over(header)
                return FileProgress(self.place.file, self.place.offset)
        raise Stop(
            f"the log has a transaction without a GTID at {self.place}",
            "The server's gtid_mode was changed; load the tables anew",
        )

    def _prepared(self, header: Header, *, one_phase: bool) -> None:
        """An XA transaction: committed already, or not before another statement, perhaps days later. Rows of the latter
        would have to wait outside of the journal, whose positions move on meanwhile."""
        if not one_phase and self.buffer.changed:
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
                if self.buffer.in_transaction:
                    self.buffer.note_thread(query.thread)
            case Kind.COMMIT:
                self._close(header)
            case Kind.ROLLBACK:
                if self.buffer.changed:
                    raise Stop(
                        f"a transaction that was rolled back stands in the log at {self.place}",
                        "It changed tables without transactions (MyISAM, Aria) beside others, so it is neither done"
                        " nor undone: use InnoDB for captured tables, or leave them out",
                    )
                self._close(header)
            case Kind.SAVEPOINT:
                pass
            case Kind.ROLLBACK_TO:
                if self.buffer.changed:
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
            change = self._tell(query, self._commit, str(self.place))
            self.buffer.tables.expire()
            if change is not None:
                self._note(SCHEMA_CHANGES, RELATION, change.to_json().encode())

    def _end_single(self, header: Header) -> None:
        if self.buffer.in_transaction and not self._explicit:
            self._close(header)

    def _refuse_change(self, query: binlog.Query) -> None:
        # Which tables a statement touches (through views, triggers, procedures) only the server knows.
        verb = re.split(r"\W", query.text.strip(), maxsplit=1)[0].upper()
        raise self._not_rows(f"{verb} in database {query.database!r}")

    def _empty(self, name: tuple[str, str], header: Header) -> None:
        """All rows of a table, or of the tables of a database, are gone at once by the statement with this header."""
        for known in [name] if self.buffer.tables.find(name) is not None else self._captured(*name):
            place = self.buffer.tables.find(known)
            if place is not None and (schema := self.buffer.tables.schemas[place]) is not None:
                self._note(schema, int(self.buffer.tables.ids[place]), at=header)

    def _captured(self, database: str, table: str) -> list[tuple[str, str]]:
        """The names of captured tables; those that the log has not named yet are known from here on."""
        found = [(schema, (schema.schema, schema.name)) for schema in self._find(database, table)]
        for schema, name in found:
            if self.buffer.tables.find(name) is None:
                self._own_ids += 1
                self.buffer.tables.put(self._own_ids, name, b"", schema)
        return [name for _schema, name in found]

    def _note(self, schema: TableSchema, id: int, content: bytes = b"", at: Header | None = None) -> None:
        """A change that is no row: of a whole table, or of no table at all; `at` the place of this event."""
        place = self.buffer.tables.place(id)
        if place is None:
            self.buffer.tables.put(id, (schema.schema, schema.name), b"", schema)
            place = len(self.buffer.tables.schemas) - 1
        size = binlog.HEADER_BYTES + 8 + len(content)
        # Whoever reads it finds its place as that of any event: where it ends, less its size.
        end = (at.end - at.size + size) & 0xFFFFFFFF if at is not None and at.end else 0
        self.buffer.keep(binlog.HEADER.pack(0, Event.QUERY, 0, size, end, 0) + id.to_bytes(8, "little") + content, 1)
        self.buffer.tables.counts[place] += 1

    def _relate(self, body: bytes) -> None:
        if not self.buffer.in_transaction:
            raise Malformed("a TABLE_MAP outside of a transaction", str(self.place))
        found = parse_table_map(body)
        name = (found.schema, found.name)
        schema = self._describe(found)
        for known in (self.buffer.tables.find(name), self.buffer.tables.place(found.id)):
            if known is not None:
                self.buffer.let_go(known)
        self.buffer.tables.put(found.id, name, body, schema)

    def _unpack(self, events: bytes) -> None:
        begin = 0
        while begin < len(events):
            header = binlog.parse_header(events[begin : begin + binlog.HEADER_BYTES])
            if header.size < binlog.HEADER_BYTES or begin + header.size > len(events):
                raise Malformed("a compressed transaction with an event that is too long", str(self.place))
            event = bytearray(events[begin : begin + header.size])
            # Ends of their own mean nothing in the file.
            event[13:17] = bytes(4)
            self.add(bytes(event), inner=True)
            begin += header.size

    def _rotate(self, header: Header, body: bytes) -> None:
        file, offset = binlog.parse_rotate(body)
        buffer = self.buffer
        if self.place.file and isinstance(buffer.progress, FileProgress) and not buffer.in_transaction:
            buffer.progress = FileProgress(file, offset)
        self.place.rotate(file, offset)

    def _restart(self, header: Header) -> None:
        if self.buffer.in_transaction:
            # The server crashed while it wrote this transaction: it was never committed.
            raise Retry(f"the server's log breaks off inside a transaction before {self.place}")
