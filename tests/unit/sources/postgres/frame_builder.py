"""pgoutput frames made by hand, as a walsender would send them; for tests that need no server."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from headwater.event import TableSchema
from headwater.sources.postgres.pgoutput import POSTGRES_EPOCH, Relation
from headwater.sources.postgres.types import builtin_column

Value = bytes | str | None
# Stands for an unchanged TOAST value.
SAME = b"\0unchanged"
TIME = 1_700_000_000_000_000


def frame(message: bytes, lsn: int = 0) -> bytes:
    return struct.pack("!cQQq", b"w", lsn, lsn, 0) + message


def begin(commit: int, xid: int = 7) -> bytes:
    return frame(struct.pack("!cQqI", b"B", commit, TIME - POSTGRES_EPOCH, xid), commit)


def commit(lsn: int, end: int | None = None) -> bytes:
    return frame(struct.pack("!cBQQq", b"C", 0, lsn, end or lsn + 8, TIME - POSTGRES_EPOCH), end or lsn + 8)


def relation(oid: int, name: str = "t", columns: Sequence[str] = ("id", "v"), key: Sequence[str] = ("id",)) -> bytes:
    head = struct.pack("!cI", b"R", oid) + b"public\0" + name.encode() + b"\0d" + struct.pack("!H", len(columns))
    each = (bytes([c in key]) + c.encode() + b"\0" + struct.pack("!Ii", 25, -1) for c in columns)
    return frame(head + b"".join(each))


def tuple_data(values: Sequence[Value]) -> bytes:
    parts = [struct.pack("!H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value == SAME:
            parts.append(b"u")
        else:
            data = value.encode() if isinstance(value, str) else value
            parts.append(b"t" + struct.pack("!I", len(data)) + data)
    return b"".join(parts)


def insert(oid: int, values: Sequence[Value], lsn: int = 0) -> bytes:
    return frame(struct.pack("!cI", b"I", oid) + b"N" + tuple_data(values), lsn)


def update(oid: int, new: Sequence[Value], old: Sequence[Value] | None = None, kind: bytes = b"O") -> bytes:
    before = b"" if old is None else kind + tuple_data(old)
    return frame(struct.pack("!cI", b"U", oid) + before + b"N" + tuple_data(new))


def delete(oid: int, old: Sequence[Value], kind: bytes = b"K") -> bytes:
    return frame(struct.pack("!cI", b"D", oid) + kind + tuple_data(old))


def truncate(*oids: int) -> bytes:
    return frame(struct.pack(f"!cIB{len(oids)}I", b"T", len(oids), 0, *oids))


def message(prefix: str, content: bytes, lsn: int, *, transactional: bool = True, sent: int = TIME) -> bytes:
    body = struct.pack("!cBQ", b"M", transactional, lsn) + prefix.encode() + b"\0" + struct.pack("!I", len(content))
    return struct.pack("!cQQq", b"w", lsn, lsn, sent - POSTGRES_EPOCH) + body + content


def describe(relation: Relation) -> TableSchema:
    """The relation's schema without a catalog."""
    columns = tuple(builtin_column(column.name, column.type_oid, column.typmod) for column in relation.columns)
    key = tuple(column.name for column in relation.columns if column.identity)
    return TableSchema(relation.schema, relation.name, columns, key, key, {"oid": relation.oid})


def describe_visible(relation: Relation) -> TableSchema | None:
    """As `describe`; tables whose name starts with `hidden` are not captured."""
    return None if relation.name.startswith("hidden") else describe(relation)


# -- transactions that come in blocks: protocol version 2 -----------------------------------------------------


def in_block(made: bytes, xid: int) -> bytes:
    """A frame as it comes inside a block: with the (sub-)transaction it belongs to."""
    return made[:26] + struct.pack("!I", xid) + made[26:]


def stream_start(xid: int) -> bytes:
    return frame(struct.pack("!cIB", b"S", xid, 1))


def stream_stop() -> bytes:
    return frame(b"E")


def stream_commit(xid: int, lsn: int, end: int | None = None) -> bytes:
    return frame(struct.pack("!cIBQQq", b"c", xid, 0, lsn, end or lsn + 8, TIME - POSTGRES_EPOCH), lsn)


def stream_abort(xid: int, subxid: int) -> bytes:
    return frame(struct.pack("!cII", b"A", xid, subxid))
