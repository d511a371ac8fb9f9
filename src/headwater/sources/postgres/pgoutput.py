"""pgoutput's letters, and the messages around rows: BEGIN, COMMIT, RELATION, TRUNCATE, MESSAGE, STREAM …. No I/O.

Protocol: "Logical Replication Message Formats" in the PostgreSQL manual, protocol version 2. Rows are left
to `kernels.py`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from headwater.errors import Stop

# An XLogData frame as it comes from the walsender: 'w', WAL start, WAL end, send time, then the message.
XLOG_HEADER = 25
# Microseconds between the Unix epoch and PostgreSQL's (2000-01-01).
POSTGRES_EPOCH = 946_684_800_000_000

BEGIN, COMMIT, RELATION, TYPE, ORIGIN = b"BCRYO"
INSERT, UPDATE, DELETE, TRUNCATE, MESSAGE = b"IUDTM"
STREAM_START, STREAM_STOP, STREAM_COMMIT, STREAM_ABORT = b"SEcA"
ROW_KINDS = frozenset((INSERT, UPDATE, DELETE))

# Lengths with a meaning in tuple bounds.
NULL = -1
UNCHANGED = -2


class Malformed(Stop):
    """Bytes that are not a pgoutput message: a damaged journal, or a plug-in that is not pgoutput."""

    def __init__(self, frame: int, kind: int) -> None:
        super().__init__(
            f"frame {frame} is not a pgoutput message that a chunk may hold (kind {chr(kind)!r})",
            "If the journal is damaged: remove it; what was not confirmed is read again from the slot",
        )


@dataclass(frozen=True)
class Begin:
    """Protocol message 'B'."""

    commit_lsn: int
    commit_time: int
    xid: int


@dataclass(frozen=True)
class Commit:
    """Protocol message 'C'."""

    commit_lsn: int
    end_lsn: int
    commit_time: int


@dataclass(frozen=True)
class StreamCommit(Commit):
    """Protocol message 'c': a transaction that came in blocks has committed."""

    xid: int


@dataclass(frozen=True)
class RelationColumn:
    """A column of protocol message 'R'."""

    name: str
    type_oid: int
    typmod: int
    identity: bool


@dataclass(frozen=True)
class Relation:
    """Protocol message 'R': a table's shape, before its first row and after every change of shape."""

    oid: int
    schema: str
    name: str
    replica_identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True)
class Message:
    """Protocol message 'M': what somebody wrote into the log by pg_logical_emit_message."""

    transactional: bool
    # Behind the message's own record.
    lsn: int
    prefix: str
    content: bytes


def sent_at(frame: bytes | memoryview) -> int:
    """When the server sent an XLogData frame, microseconds since the epoch."""
    (time,) = struct.unpack_from("!q", frame, 17)
    return int(time) + POSTGRES_EPOCH


def parse_begin(message: bytes) -> Begin:
    """Protocol message 'B'."""
    lsn, time, xid = struct.unpack_from("!QqI", message, 1)
    return Begin(lsn, time + POSTGRES_EPOCH, xid)


def parse_commit(message: bytes) -> Commit:
    """Protocol message 'C'."""
    _flags, lsn, end, time = struct.unpack_from("!BQQq", message, 1)
    return Commit(lsn, end, time + POSTGRES_EPOCH)


def parse_stream_start(message: bytes) -> int:
    """The xid of protocol message 'S'."""
    return int(struct.unpack_from("!I", message, 1)[0])


def parse_stream_commit(message: bytes) -> StreamCommit:
    """Protocol message 'c'."""
    xid, _flags, lsn, end, time = struct.unpack_from("!IBQQq", message, 1)
    return StreamCommit(lsn, end, time + POSTGRES_EPOCH, xid)


def parse_stream_abort(message: bytes) -> tuple[int, int]:
    """Transaction and sub-transaction of protocol message 'A'; the same when all of it was rolled back."""
    xid, subxid = struct.unpack_from("!II", message, 1)
    return xid, subxid


def begin_frame(commit: StreamCommit) -> bytes:
    """The Begin that the server would have sent, had it kept the transaction until its end."""
    head = struct.pack("!cQQq", b"w", commit.commit_lsn, commit.commit_lsn, 0)
    return head + struct.pack("!BQqI", BEGIN, commit.commit_lsn, commit.commit_time - POSTGRES_EPOCH, commit.xid)


def commit_frame(commit: StreamCommit) -> bytes:
    """And the Commit."""
    head = struct.pack("!cQQq", b"w", commit.commit_lsn, commit.end_lsn, 0)
    time = commit.commit_time - POSTGRES_EPOCH
    return head + struct.pack("!BBQQq", COMMIT, 0, commit.commit_lsn, commit.end_lsn, time)


def parse_relation(message: bytes) -> Relation:
    """Protocol message 'R'."""
    (oid,) = struct.unpack_from("!I", message, 1)
    schema, at = _text(message, 5)
    name, at = _text(message, at)
    identity = chr(message[at])
    (count,) = struct.unpack_from("!H", message, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = message[at]
        column, at = _text(message, at + 1)
        type_oid, typmod = struct.unpack_from("!Ii", message, at)
        at += 8
        columns.append(RelationColumn(column, type_oid, typmod, bool(flags & 1)))
    # An empty namespace on the wire stands for pg_catalog.
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))


def parse_truncate(message: bytes) -> list[int]:
    """Relation oids of protocol message 'T', in order."""
    (count,) = struct.unpack_from("!I", message, 1)
    return list(struct.unpack_from(f"!{count}I", message, 6))


def parse_message(message: bytes) -> Message:
    """Protocol message 'M'."""
    try:
        flags, lsn = struct.unpack_from("!BQ", message, 1)
        prefix, at = _text(message, 10)
        (size,) = struct.unpack_from("!I", message, at)
    except (ValueError, struct.error):
        raise Malformed(0, MESSAGE) from None
    if at + 4 + size != len(message):
        raise Malformed(0, MESSAGE)
    return Message(bool(flags & 1), lsn, prefix, message[at + 4 :])


def _text(message: bytes, start: int) -> tuple[str, int]:
    end = message.index(b"\0", start)
    return bytes(message[start:end]).decode(), end + 1
