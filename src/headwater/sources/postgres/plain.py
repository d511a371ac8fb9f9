"""The kernels' twins: the same work, one obvious line at a time.

Only tests call them; they hold `kernels.py` to these. Bytes that a kernel must refuse raise Malformed here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headwater.sources.postgres.pgoutput import (
    BEGIN,
    COMMIT,
    DELETE,
    MESSAGE,
    NULL,
    POSTGRES_EPOCH,
    ROW_KINDS,
    TRUNCATE,
    UNCHANGED,
    XLOG_HEADER,
    Malformed,
    parse_begin,
    parse_commit,
    parse_truncate,
)

Bounds = list[tuple[int, int]]

_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True)
class Change:
    """One change of a chunk: what `scan_changes` writes into its arrays."""

    kind: int
    relation: int
    lsn: int
    commit: int
    ordinal: int
    time: int
    xid: int
    previous: int
    message: bytes


@dataclass(frozen=True)
class Row:
    """A row message, with the byte bounds of every value inside it."""

    old_kind: str
    old: Bounds | None
    new: Bounds | None


def scan_changes_plain(frames: bytes, lengths: Sequence[int], opened: Sequence[int]) -> list[Change]:
    """`count_changes` and `scan_changes`."""
    commit, ordinal, time, xid, previous = opened
    found: list[Change] = []
    for number, frame in enumerate(split_frames(frames, lengths)):
        if len(frame) <= XLOG_HEADER:
            raise Malformed(number, 0)
        message = frame[XLOG_HEADER:]
        lsn, kind = int.from_bytes(frame[1:9]), message[0]
        if kind == BEGIN and len(message) == 21:
            begin = parse_begin(message)
            commit, ordinal, time, xid = begin.commit_lsn, 0, begin.commit_time, begin.xid
            continue
        if kind == COMMIT and len(message) == 26:
            previous = parse_commit(message).end_lsn
            continue
        if kind == MESSAGE and len(message) >= 15 and not message[1] & 1:
            previous = lsn
            sent = int.from_bytes(frame[17:25], signed=True) + POSTGRES_EPOCH
            found.append(Change(kind, 0, lsn, lsn - 1, 1, sent, -1, previous, message))
            continue
        for relation in _relations(message, number):
            ordinal += 1
            found.append(Change(kind, relation, lsn, commit, ordinal, time, xid, previous, message))
    return found


def _relations(message: bytes, number: int) -> list[int]:
    kind = message[0]
    if kind in ROW_KINDS and len(message) >= 6:
        return [int.from_bytes(message[1:5])]
    if kind == TRUNCATE and len(message) >= 6 and len(message) == 6 + 4 * int.from_bytes(message[1:5]):
        return parse_truncate(message)
    if kind == MESSAGE and len(message) >= 15:
        return [0]
    raise Malformed(number, kind)


def split_frames(frames: bytes, lengths: Sequence[int]) -> Iterator[bytes]:
    """The XLogData frames of a chunk, one by one; they fill it exactly."""
    at = 0
    for number, length in enumerate(lengths):
        if at + length > len(frames):
            raise Malformed(number, 0)
        yield frames[at : at + length]
        at += length
    if at != len(frames):
        raise Malformed(len(lengths), 0)


def parse_row(message: bytes, columns: int) -> Row:
    """`tuple_bounds`, for one message 'I', 'U' or 'D' of a table with so many columns."""
    kind = message[0]
    old_kind, old, new = "", None, None
    try:
        at = 5
        if message[at] in b"KO":
            old_kind = chr(message[at])
            old, at = _tuple_bounds(message, at + 1, columns)
        if kind != DELETE:
            if message[at] != ord("N"):
                raise Malformed(0, kind)
            new, at = _tuple_bounds(message, at + 1, columns)
    except (IndexError, struct.error):
        raise Malformed(0, kind) from None
    if at != len(message) or (kind == DELETE and old is None):
        raise Malformed(0, kind)
    if new is not None and old is not None:
        # The old row has what the new one left out: all of it (O), or the key (K; its other columns are NULL).
        has = [o[1] != NULL or old_kind == "O" for o in old]
        new = [o if n[1] == UNCHANGED and h else n for n, o, h in zip(new, old, has, strict=True)]
    return Row(old_kind, old, new)


def _tuple_bounds(message: bytes, at: int, columns: int) -> tuple[Bounds, int]:
    """Where each value of a TupleData begins and how long it is (-1 NULL, -2 unchanged TOAST)."""
    (count,) = struct.unpack_from("!H", message, at)
    if count != columns:
        raise Malformed(0, message[0])
    at += 2
    bounds = []
    for _ in range(count):
        match chr(message[at]):
            case "n":
                bounds.append((0, NULL))
                at += 1
            case "u":
                bounds.append((0, UNCHANGED))
                at += 1
            case "t" | "b":
                (length,) = struct.unpack_from("!I", message, at + 1)
                if at + 5 + length > len(message):
                    raise Malformed(0, message[0])
                bounds.append((at + 5, length))
                at += 5 + length
            case _:
                raise Malformed(0, message[0])
    return bounds, at


def copy_data_plain(messages: bytes) -> tuple[int, bytes]:
    """How far whole CopyData messages go, and what is in them, as `copy_data` finds it."""
    at, rows = 0, b""
    while messages[at : at + 1] == b"d" and len(messages) >= at + 5:
        end = at + 1 + int.from_bytes(messages[at + 1 : at + 5], "big")
        if end > len(messages):
            break
        rows += messages[at + 5 : end]
        at = end
    return at, rows


def copy_values_plain(text: bytes, columns: int) -> list[list[bytes | None]]:
    """The rows of COPY text, as `copy_bounds` finds them. ValueError where that reports a bad line."""
    *lines, rest = text.decode("latin-1").split("\n")
    rows = [[_copy_value(field) for field in line.split("\t")] for line in lines]
    if rest or any(len(row) != columns for row in rows):
        raise ValueError("not COPY text with that many columns")
    return rows


def _copy_value(field: str) -> bytes | None:
    if field == "\\N":
        return None
    value, rest = "", iter(field)
    for character in rest:
        if character == "\\":
            escaped = next(rest, None)
            if escaped is None or (escaped == "N" and not value):
                raise ValueError("an escape that the server never writes")
            character = _ESCAPES.get(escaped, escaped)
        value += character
    return value.encode("latin-1")
