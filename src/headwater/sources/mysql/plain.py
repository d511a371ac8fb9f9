"""The kernels' twins: the same work, one obvious line at a time.

Only tests call them; they hold `kernels.py` to these. Bytes that a kernel must refuse raise ValueError here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headwater.sources.mysql import binlog
from headwater.sources.mysql.binlog import BEGIN, HEADER_BYTES, Event, length_encoded

NULL = -1
ABSENT = -2
UPDATES = (Event.UPDATE_ROWS_V1, Event.UPDATE_ROWS)
WRITES = (Event.WRITE_ROWS_V1, Event.WRITE_ROWS)

Bounds = list[tuple[int, int]]


@dataclass(frozen=True)
class Row:
    """One change of a rows event, with the byte bounds of every value."""

    old: Bounds | None
    new: Bounds | None


@dataclass(frozen=True)
class Frame:
    """One frame of a chunk: what `scan_frames` writes into its arrays."""

    kind: int
    table: int
    rows: int
    address: int
    commit: int
    ordinal: int
    time: int
    number: int


def rows_plain(event: bytes, layout: Sequence[int]) -> list[Row]:
    """`count_rows` and `row_bounds` of one event."""
    try:
        return list(_rows(event, layout))
    except IndexError:
        raise ValueError("a rows event that is too short") from None


def _rows(event: bytes, layout: Sequence[int]) -> Iterator[Row]:
    kind, at = event[4], HEADER_BYTES + 8
    if kind >= Event.WRITE_ROWS:
        at += int.from_bytes(event[at : at + 2], "little")
    columns, at = length_encoded(event, at)
    width = (len(layout) + 7) // 8
    images = 2 if kind in UPDATES else 1
    bitmaps = [event[at + width * n : at + width * (n + 1)] for n in range(images)]
    if columns != len(layout) or len(bitmaps[-1]) != width or not any(bitmaps[0]):
        raise ValueError("not the columns of this table")
    at += width * images
    while at < len(event):
        first, at = _image(event, at, bitmaps[0], layout)
        if kind in UPDATES:
            second, at = _image(event, at, bitmaps[1], layout)
            yield Row(first, second)
        else:
            yield Row(None, first) if kind in WRITES else Row(first, None)


def _image(event: bytes, at: int, bitmap: bytes, layout: Sequence[int]) -> tuple[Bounds, int]:
    present = [c for c in range(len(layout)) if bitmap[c >> 3] >> (c & 7) & 1]
    size = (len(present) + 7) // 8
    nulls = event[at : at + size]
    if len(nulls) != size:
        raise ValueError("no room for the nulls")
    at += size
    found: Bounds = [(0, ABSENT)] * len(layout)
    for n, c in enumerate(present):
        if nulls[n >> 3] >> (n & 7) & 1:
            found[c] = (0, NULL)
            continue
        width = layout[c]
        if width < 0:
            prefix = event[at : at - width]
            if len(prefix) != -width:
                raise ValueError("no room for a length")
            at, width = at - width, int.from_bytes(prefix, "little")
        if at + width > len(event):
            raise ValueError("no room for a value")
        found[c] = (at, width)
        at += width
    return found, at


def scan_frames_plain(frames: bytes, lengths: Sequence[int], opened: Sequence[int]) -> list[Frame]:
    """`scan_frames`, for every table; a frame that begins a transaction is of table -2."""
    commit, ordinal, time, number, address = opened
    found, at = [], 0
    for length in lengths:
        frame = frames[at : at + length]
        at += length
        if len(frame) != length or length < 4 + HEADER_BYTES + 6:
            raise ValueError("a frame that is too short")
        rows, event = int.from_bytes(frame[:4], "little"), frame[4:]
        header = binlog.parse_header(event)
        if header.type == Event.BEGIN:
            if len(event) < HEADER_BYTES + BEGIN.size:
                raise ValueError("a begin that is too short")
            commit, time, number, address = BEGIN.unpack_from(event, HEADER_BYTES)
            ordinal, table, rows = 0, -2, 0
        elif header.type in binlog.ROWS or header.type == Event.QUERY:
            table = int.from_bytes(event[HEADER_BYTES : HEADER_BYTES + 6], "little")
            if header.end:
                begin = (header.end - header.size) % (1 << 32)
                address += (begin - address) % (1 << 32)
        else:
            raise ValueError("a frame that a chunk may not have")
        found.append(Frame(header.type, table, rows, address, commit, ordinal, time, number))
        ordinal += rows
    if at != len(frames):
        raise ValueError("frames that no length names")
    return found


def result_plain(payload: bytes, layout: Sequence[int]) -> Bounds:
    """`result_bounds` of one row."""
    columns = len(layout)
    size = (columns + 9) // 8
    nulls, at = payload[1 : 1 + size], 1 + size
    if len(nulls) != size:
        raise ValueError("no room for the nulls")
    found: Bounds = []
    for c, width in enumerate(layout):
        if nulls[(c + 2) >> 3] >> ((c + 2) & 7) & 1:
            found.append((0, NULL))
            continue
        try:
            if width == -9:
                width, at = length_encoded(payload, at)
            elif width < 0:
                width, at = payload[at], at + 1
        except IndexError:
            raise ValueError("no room for a length") from None
        if at + width > len(payload):
            raise ValueError("no room for a value")
        found.append((at, width))
        at += width
    if at != len(payload):
        raise ValueError("bytes behind the last value")
    return found
