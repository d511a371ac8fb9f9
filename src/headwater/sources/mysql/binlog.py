"""Events of a binlog, other than rows: what they are called, and what is in those we look into. No I/O.

Format: "Binlog Event" and "Binary Log Events" in the manuals of MySQL and MariaDB. Rows are left to `kernels.py`,
table maps to `table_map.py`.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

import pyarrow as pa

from headwater.errors import Stop

# timestamp, type, server id, size, end position, flags
HEADER = struct.Struct("<IBIIIH")
HEADER_BYTES = 19
CHECKSUM_BYTES = 4
ARTIFICIAL = 0x20
IGNORABLE = 0x80
# A compressed transaction that claims to be larger than this is damaged or an attack.
MAX_PAYLOAD_BYTES = 4 << 30


class Event(IntEnum):
    """Type codes; those above 159 are MariaDB's."""

    # Ours: begins a transaction in a chunk; see `BEGIN`.
    BEGIN = 0
    START_V3 = 1
    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    ANNOTATE_ROWS = 160
    BINLOG_CHECKPOINT = 161
    MARIADB_GTID = 162
    MARIADB_GTID_LIST = 163
    START_ENCRYPTION = 164
    QUERY_COMPRESSED = 165
    WRITE_ROWS_COMPRESSED_V1 = 166
    UPDATE_ROWS_COMPRESSED_V1 = 167
    DELETE_ROWS_COMPRESSED_V1 = 168
    WRITE_ROWS_COMPRESSED = 169
    UPDATE_ROWS_COMPRESSED = 170
    DELETE_ROWS_COMPRESSED = 171


ROWS = frozenset(range(Event.WRITE_ROWS_V1, Event.DELETE_ROWS_V1 + 1)) | frozenset(
    range(Event.WRITE_ROWS, Event.DELETE_ROWS + 1)
)
COMPRESSED_ROWS = {
    Event.WRITE_ROWS_COMPRESSED_V1: Event.WRITE_ROWS_V1,
    Event.UPDATE_ROWS_COMPRESSED_V1: Event.UPDATE_ROWS_V1,
    Event.DELETE_ROWS_COMPRESSED_V1: Event.DELETE_ROWS_V1,
    Event.WRITE_ROWS_COMPRESSED: Event.WRITE_ROWS,
    Event.UPDATE_ROWS_COMPRESSED: Event.UPDATE_ROWS,
    Event.DELETE_ROWS_COMPRESSED: Event.DELETE_ROWS,
}
# What says nothing about rows.
PASSED_OVER = frozenset(
    (
        Event.STOP,
        Event.INTVAR,
        Event.RAND,
        Event.USER_VAR,
        Event.IGNORABLE,
        Event.ROWS_QUERY,
        Event.PREVIOUS_GTIDS,
        Event.TRANSACTION_CONTEXT,
        Event.VIEW_CHANGE,
        Event.ANNOTATE_ROWS,
        Event.BINLOG_CHECKPOINT,
        Event.MARIADB_GTID_LIST,
        Event.START_ENCRYPTION,
    )
)

# Our own frame at the beginning of every transaction in a chunk: an event header of type 0, then the commit
# coordinate, the commit time (microseconds since the epoch), the transaction's number, its address in the log's
# files, and the text of its GTID.
BEGIN = struct.Struct("<qqqq")


class Malformed(Stop):
    """Bytes that are not an event: a damaged binlog, a damaged journal, or a server we do not know."""

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(
            f"the binlog holds {what}" + (f" at {where}" if where else ""),
            "Look at the file with mysqlbinlog; if only the journal is damaged, remove it: it is read again",
        )


@dataclass(frozen=True)
class Header:
    """The first bytes of every event."""

    time: int
    type: int
    server_id: int
    size: int
    end: int
    flags: int


@dataclass(frozen=True)
class Query:
    """A statement: BEGIN, COMMIT, DDL, or a change that was logged as a statement."""

    thread: int
    database: str
    text: str
    # As the session sent it, in the character set of the collation `client`.
    raw: bytes = b""
    client: int = 0
    # The server's own default collation at that time.
    default: int = 0
    sql_mode: int = 0


@dataclass(frozen=True)
class Gtid:
    """Begins a transaction. MySQL names it source:number, MariaDB domain-server-number."""

    source: str
    number: int
    domain: int = 0
    server: int = 0
    # Nothing but one statement follows, and no commit.
    standalone: bool = False
    # Microseconds since the epoch, 0 when the event does not say.
    time: int = 0

    def __str__(self) -> str:
        if self.source:
            return f"{self.source}:{self.number}"
        return f"{self.domain}-{self.server}-{self.number}" if self.number else ""


def parse_header(event: bytes | memoryview) -> Header:
    """Every event begins with it."""
    if len(event) < HEADER_BYTES:
        raise Malformed(f"an event of {len(event)} bytes")
    return Header(*HEADER.unpack_from(event))


def event_name(code: int) -> str:
    """For people."""
    return Event(code).name if code in Event._value2member_map_ else f"event type {code}"


def begin_frame(coordinate: int, time: int, number: int, address: int, server_id: int, gtid: str) -> bytes:
    """See `BEGIN`."""
    body = BEGIN.pack(coordinate, time, number, address) + gtid.encode()
    return HEADER.pack(time // 1_000_000 & 0xFFFFFFFF, 0, server_id, HEADER_BYTES + len(body), 0, 0) + body


def with_thread(begin: bytes, thread: int) -> bytes:
    """A begin frame that names the session. It stands where an event of the log has its end, which this has not."""
    return begin[:13] + thread.to_bytes(4, "little") + begin[17:]


def parse_rotate(body: bytes) -> tuple[str, int]:
    """(next file, offset in it)."""
    if len(body) < 9:
        raise Malformed("a ROTATE event without a file name")
    return body[8:].decode("utf-8", "replace"), int.from_bytes(body[:8], "little")


def parse_format_description(body: bytes) -> tuple[str, bool]:
    """(server version, whether events behind it carry a checksum); `body` with its own checksum."""
    if len(body) < 57 + CHECKSUM_BYTES + 1:
        raise Malformed("a FORMAT_DESCRIPTION event that is too short")
    if int.from_bytes(body[:2], "little") != 4 or body[56] != HEADER_BYTES:
        raise Malformed("a format other than version 4")
    version = body[2:52].rstrip(b"\0").decode("ascii", "replace")
    algorithm = body[-CHECKSUM_BYTES - 1]
    if algorithm not in (0, 1):
        raise Malformed(f"checksums of an unknown kind ({algorithm})")
    return version, algorithm == 1


def parse_mariadb_gtid(body: bytes, server: int) -> Gtid:
    """MariaDB's GTID event; the server's id stands in the header."""
    if len(body) < 13:
        raise Malformed("a GTID event that is too short")
    number, domain, flags = struct.unpack_from("<QIB", body)
    if not 0 < number < 1 << 62:
        raise Malformed("a GTID that no server counts up to")
    return Gtid("", number, domain, server, standalone=bool(flags & 1))


def parse_mysql_gtid(body: bytes) -> Gtid:
    """MySQL's GTID event, tag-less form. Version 8 adds when the transaction was committed."""
    if len(body) < 25:
        raise Malformed("a GTID event that is too short")
    (number,) = struct.unpack_from("<q", body, 17)
    time = 0
    # flags, uuid, number, clock kind, two clock values, then commit times in 7 bytes
    if len(body) >= 49 and body[25] == 2:
        time = int.from_bytes(body[42:49], "little") & ~(1 << 55)
    return Gtid(str(UUID(bytes=body[1:17])), number, time=time)


def parse_tagged_gtid(body: bytes) -> Gtid:
    """MySQL 8.4's GTID event with a tag: fields with numbers of their own, in the order they were added.

    Format: mysql::serialization; numbers are of variable length, their first byte's trailing ones say how long."""
    reader = _Serialized(body)
    reader.number()  # version of the format
    reader.number()  # bytes of the whole message
    reader.number()  # the last field that may not be passed over
    source = tag = ""
    number = time = 0
    while reader.more:
        match reader.number():
            case 0:
                reader.number()  # flags
            case 1:
                source = str(UUID(bytes=bytes(reader.number() & 0xFF for _ in range(16))))
            case 2:
                number = reader.signed()
            case 3:
                tag = reader.text()
            case 4 | 5:
                reader.signed()
            case 6:
                time = reader.number()
            case _:
                break
    if not source or number <= 0:
        raise Malformed("a tagged GTID event that does not say which transaction it begins")
    return Gtid(f"{source}:{tag}" if tag else source, number, time=time)


class _Serialized:
    """Numbers of variable length, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def more(self) -> bool:
        return self._at < len(self._data)

    def number(self) -> int:
        if not self.more:
            raise Malformed("a tagged GTID event that is too short")
        first = self._data[self._at]
        extra = (~first & (first + 1)).bit_length() - 1 if first != 0xFF else 8
        raw = self._data[self._at : self._at + extra + 1]
        self._at += extra + 1
        if len(raw) <= extra:
            raise Malformed("a tagged GTID event that is too short")
        if extra == 8:
            return int.from_bytes(raw[1:], "little")
        return int.from_bytes(raw, "little") >> (extra + 1)

    def signed(self) -> int:
        raw = self.number()
        return -(raw >> 1) - 1 if raw & 1 else raw >> 1

    def text(self) -> str:
        size = self.number()
        raw = self._data[self._at : self._at + size]
        self._at += size
        return raw.decode("ascii", "replace")


def parse_query(body: bytes) -> Query:
    """A QUERY event."""
    if len(body) < 13:
        raise Malformed("a QUERY event that is too short")
    thread, _seconds, database_size, _error, status_size = struct.unpack_from("<IIBHH", body)
    at = 13 + status_size
    if at + database_size + 1 > len(body):
        raise Malformed("a QUERY event that is too short")
    database = body[at : at + database_size].decode("utf-8", "replace")
    raw = body[at + database_size + 1 :]
    sql_mode, client, default = _session(body[13:at])
    return Query(thread, database, raw.decode("utf-8", "replace"), raw, client, default, sql_mode)


def _session(status: bytes) -> tuple[int, int, int]:
    """(sql_mode, the client's collation, the server's) from a QUERY's status variables. Codes come in ascending order
    but for 6; those behind the ones we want differ between servers and are not looked at."""
    sql_mode = client = default = at = 0
    while at < len(status):
        code, at = status[at], at + 1
        match code:
            case 0:
                at += 4
            case 1:
                sql_mode = int.from_bytes(status[at : at + 8], "little")
                at += 8
            case 3:
                at += 4
            case 4:
                client = int.from_bytes(status[at : at + 2], "little")
                default = int.from_bytes(status[at + 4 : at + 6], "little")
                break
            case 6 if at < len(status):
                at += 1 + status[at]
            case _:
                break
    return sql_mode, client, default


def uncompressed_query(body: bytes) -> bytes:
    """The body of a QUERY event from a QUERY_COMPRESSED one: everything but the statement is in clear."""
    if len(body) < 13:
        raise Malformed("a QUERY event that is too short")
    _thread, _seconds, database_size, _error, status_size = struct.unpack_from("<IIBHH", body)
    at = 13 + status_size + database_size + 1
    return body[:at] + inflate(body[at:])


def uncompressed_rows(event: bytes) -> bytes:
    """A rows event from MariaDB's compressed form: everything from the rows on is packed."""
    header = parse_header(event)
    plain = COMPRESSED_ROWS[Event(header.type)]
    at = HEADER_BYTES + 8
    if header.type >= Event.WRITE_ROWS_COMPRESSED:
        at += int.from_bytes(event[at : at + 2], "little")
    try:
        columns, at = length_encoded(event, at)
    except IndexError:
        raise Malformed("a compressed rows event that is too short") from None
    updates = plain in (Event.UPDATE_ROWS_V1, Event.UPDATE_ROWS)
    at += (columns + 7) // 8 * (2 if updates else 1)
    rows = inflate(event[at:])
    body = event[HEADER_BYTES:at] + rows
    # The size stays what it was in the file: with the end position it gives the event's address.
    return HEADER.pack(header.time, plain, header.server_id, header.size, header.end, header.flags) + body


def inflate(packed: bytes) -> bytes:
    """MariaDB's form of zlib data: how many bytes the size takes, the size, the data."""
    if not packed or packed[0] & 0x70 or not 1 <= packed[0] & 0x07 <= 4:
        raise Malformed("data compressed in an unknown way")
    digits = packed[0] & 0x07
    size = int.from_bytes(packed[1 : 1 + digits], "big")
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(packed[1 + digits :], size + 1)
    except zlib.error as error:
        raise Malformed(f"compressed data that cannot be unpacked ({error})") from None
    if len(data) != size:
        raise Malformed("compressed data of another size than it says")
    return data


def parse_payload(body: bytes) -> bytes:
    """The events inside a TRANSACTION_PAYLOAD, without checksums."""
    fields: dict[int, int] = {}
    at = 0
    try:
        while True:
            kind, at = length_encoded(body, at)
            if kind == 0:
                break
            size, at = length_encoded(body, at)
            fields[kind] = length_encoded(body[at : at + size], 0)[0]
            at += size
    except IndexError:
        raise Malformed("a compressed transaction that is too short") from None
    # 1 size of the data, 2 how it is compressed (0 zstd, 255 not), 3 size when unpacked
    packed, method, size = body[at:], fields.get(2, 255), fields.get(3, 0)
    if method == 255:
        return packed
    if method != 0 or size > MAX_PAYLOAD_BYTES:
        raise Malformed(f"a transaction compressed in an unknown way ({method}) or of impossible size ({size})")
    try:
        return bytes(pa.decompress(packed, decompressed_size=size, codec="zstd", asbytes=True))
    except (OSError, pa.ArrowInvalid) as error:
        raise Malformed(f"a compressed transaction that cannot be unpacked ({error})") from None


def length_encoded(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """(number, where it ends), in the protocol's variable length."""
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first, 0)
    if not size or at + 1 + size > len(data):
        raise IndexError("not a length")
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size
