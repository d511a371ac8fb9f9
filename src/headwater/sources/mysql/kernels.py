"""Kernels that find every event in what came from the server, and every row and value in a run of rows events.

Plain Python compiled by Numba; `plain.py` has the obvious twin of each. They read bytes and write numbers: no
Python object per row. What does not parse is reported by its place, never guessed.

A column's *layout* is one number: a size for values of one size, or minus the bytes of the length in front of the
value. It is all that is needed to walk over rows; `layout.py` makes it from a table map.
"""
# Functions compiled by Numba carry no Python types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs

from __future__ import annotations

import numpy as np
from numba import njit

from headwater.compiled import kernel
from headwater.sources.mysql.integer_kernels import i64, u16, u24, u32, u48

# As in binlog.py, but plain integers: a kernel sees constants, not imports.
_HEADER = 19
# In a chunk every event stands behind the number of its rows, 4 bytes.
_ROWS = 4
# Lengths with a meaning in bounds.
NULL = -1
ABSENT = -2

# What `take_events` stopped for.
MORE, OTHER, FULL, DAMAGED, CHECKSUM, LARGE, NOT_EVENT = 0, 1, 2, 3, 4, 5, 6


def _crc_tables():
    """CRC-32 eight bytes at a time: table k is the checksum of a byte with k zero bytes behind it."""
    tables = np.zeros((8, 256), dtype=np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
        tables[0, byte] = crc
    for k in range(1, 8):
        tables[k] = (tables[k - 1] >> 8) ^ tables[0][tables[k - 1] & 0xFF]
    return tables


_CRC = _crc_tables()


@kernel("u4(u1[::1], i8, i8)")
def crc32(data, at, end):
    """The checksum of an event, as zlib computes it."""
    crc = np.uint32(0xFFFFFFFF)
    while at + 8 <= end:
        low = crc ^ np.uint32(u32(data, at))
        crc = (
            _CRC[7, low & 0xFF]
            ^ _CRC[6, low >> 8 & 0xFF]
            ^ _CRC[5, low >> 16 & 0xFF]
            ^ _CRC[4, low >> 24]
            ^ _CRC[3, data[at + 4]]
            ^ _CRC[2, data[at + 5]]
            ^ _CRC[1, data[at + 6]]
            ^ _CRC[0, data[at + 7]]
        )
        at += 8
    while at < end:
        crc = np.uint32(crc >> 8) ^ _CRC[0, (crc ^ data[at]) & 0xFF]
        at += 1
    return np.uint32(crc ^ np.uint32(0xFFFFFFFF))


@njit(nogil=True, cache=True, inline="always")
def _is_rows(kind):
    return (kind >= 23 and kind <= 25) or (kind >= 30 and kind <= 32)


@kernel("Tuple((i8, i8))(u1[::1], i8, i8, i8)")
def rows_begin(event, at, end, columns):
    """(where the column bitmaps of a rows event begin, where its rows begin); -1 when it is not of `columns`.

    `at` is the event's first byte."""
    kind = event[at + 4]
    here = at + _HEADER + 8
    if kind >= 30:
        if here + 2 > end:
            return np.int64(-1), np.int64(-1)
        here += u16(event, here)
    if here + 1 > end:
        return np.int64(-1), np.int64(-1)
    count = np.int64(event[here])
    here += 1
    if count == 252 and here + 2 <= end:
        count = u16(event, here)
        here += 2
    if count != columns:
        return np.int64(-1), np.int64(-1)
    width = (columns + 7) // 8
    images = 2 if kind == 24 or kind == 31 else 1
    if here + images * width > end:
        return np.int64(-1), np.int64(-1)
    return here, here + images * width


@njit(nogil=True, cache=True)
def _present(event, bitmap, columns):
    count = 0
    for c in range(columns):
        count += event[bitmap + (c >> 3)] >> (c & 7) & 1
    return count


@njit(nogil=True, cache=True)
def _skip_image(event, at, end, bitmap, present, layout):
    """Behind one row image; -1 when it does not fit."""
    nulls = at
    at += (present + 7) // 8
    if at > end:
        return np.int64(-1)
    n = 0
    for c in range(layout.size):
        if not event[bitmap + (c >> 3)] >> (c & 7) & 1:
            continue
        if not event[nulls + (n >> 3)] >> (n & 7) & 1:
            size = np.int64(layout[c])
            if size < 0:
                width = -size
                if at + width > end:
                    return np.int64(-1)
                size = np.int64(event[at])
                for k in range(1, width):
                    size |= np.int64(event[at + k]) << (8 * k)
                at += width
            at += size
            if at > end:
                return np.int64(-1)
        n += 1
    return at


@kernel("i8(u1[::1], i8, i8, i4[::1])")
def count_rows(event, at, end, layout):
    """How many changes a rows event holds; -1 when it is damaged. An update's two images are one change."""
    columns = layout.size
    bitmap, here = rows_begin(event, at, end, columns)
    if bitmap < 0:
        return np.int64(-1)
    kind = event[at + 4]
    updates = kind == 24 or kind == 31
    second = bitmap + (columns + 7) // 8
    present = _present(event, bitmap, columns)
    present_after = _present(event, second, columns) if updates else 0
    if present == 0:
        return np.int64(-1)
    rows = 0
    while here < end:
        here = _skip_image(event, here, end, bitmap, present, layout)
        if here >= 0 and updates:
            here = _skip_image(event, here, end, second, present_after, layout)
        if here < 0:
            return np.int64(-1)
        rows += 1
    return np.int64(rows)


@kernel(
    "Tuple((i8, i8))(u1[::1], i8, i8, i8, i8, i8[::1], u1[::1], i8[::1], i4[::1], i8[::1], i8[::1],"
    " u1[::1], u4[::1], i8[::1])"
)
def take_events(
    data, at, end, prefix, checksum, ids, maps, map_ends, layouts, layout_ends, counts, out, lengths, state
):
    """Take events from `data[at:end]` until one needs more than looking at rows; (why it stopped, where).

    `prefix` is 5 for a stream of packets, 0 for one bare event. Events may carry a checksum of `checksum` bytes.
    Known tables: `ids`, the bodies of their maps end to end in `maps` and their layouts in `layouts` (`*_ends`
    with 0 in front); a table without a layout is not captured. A known table map is passed over; rows of captured
    tables go into `out` behind their number, with `lengths`; `counts` per table grow. `state` is: bytes in `out`,
    frames in it, changes of the open transaction, 1 inside a transaction."""
    last = -1
    while at < end:
        start = at
        stop = end
        if prefix:
            if at + 4 > end:
                return np.int64(MORE), start
            size = u24(data, at)
            if size == 0xFFFFFF:
                return np.int64(LARGE), start
            stop = at + 4 + size
            if stop > end:
                return np.int64(MORE), start
            if size < 1 + _HEADER or data[at + 4] != 0:
                return np.int64(NOT_EVENT), start
            at += prefix
        kind = data[at + 4]
        rows_event = _is_rows(kind)
        if not (rows_event or kind == 19) or state[3] == 0:
            return np.int64(OTHER), start
        if stop - at < _HEADER + 8 + checksum:
            return np.int64(DAMAGED), start
        table = u48(data, at + _HEADER)
        if last < 0 or ids[last] != table:
            last = -1
            for t in range(ids.size):
                if ids[t] == table:
                    last = t
                    break
            if last < 0:
                return np.int64(OTHER), start
        body_end = stop - checksum
        if checksum and crc32(data, at, body_end) != u32(data, body_end):
            return np.int64(CHECKSUM), start
        if kind == 19:
            known, known_end = map_ends[last], map_ends[last + 1]
            body = at + _HEADER
            same = known_end - known == body_end - body
            k = 0
            while same and k < known_end - known:
                same = maps[known + k] == data[body + k]
                k += 1
            if not same:
                return np.int64(OTHER), start
        else:
            layout = layouts[layout_ends[last] : layout_ends[last + 1]]
            if layout.size:
                size = body_end - at
                if state[0] + _ROWS + size > out.size or state[1] >= lengths.size:
                    return np.int64(FULL), start
                rows = count_rows(data, at, body_end, layout)
                if rows < 0:
                    return np.int64(DAMAGED), start
                place = state[0]
                out[place] = rows & 0xFF
                out[place + 1] = rows >> 8 & 0xFF
                out[place + 2] = rows >> 16 & 0xFF
                out[place + 3] = rows >> 24 & 0xFF
                out[place + _ROWS : place + _ROWS + size] = data[at:body_end]
                lengths[state[1]] = _ROWS + size
                state[0] += _ROWS + size
                state[1] += 1
                state[2] += rows
                counts[last] += rows
        at = stop
    return np.int64(MORE), at


@kernel(
    "i8(u1[::1], u4[::1], i8[::1], i8[::1], i4[::1], u1[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8[::1],"
    " i8[::1], i8[::1])"
)
def scan_frames(frames, lengths, relations, opened, run, kind, start, rows, address, commit, ordinal, time, number):
    """Every frame of a chunk; the first bad one's index, or -1.

    `relations` are the wanted table ids; `run` becomes the index among them, -1 for a table that is not wanted, -2
    for a frame that begins a transaction. `opened` is the transaction open at the first frame: commit coordinate,
    changes so far, commit time, number, address. `ordinal` counts the changes before the frame's first."""
    now_commit, now_ordinal, now_time, now_number, now_address = opened[0], opened[1], opened[2], opened[3], opened[4]
    at = np.int64(0)
    last_table = np.int64(-1)
    last_run = np.int32(-1)
    for i in range(lengths.size):
        length = np.int64(lengths[i])
        event = at + _ROWS
        if length < _ROWS + _HEADER + 6 or at + length > frames.size:
            return np.int64(i)
        tag = frames[event + 4]
        start[i] = event
        kind[i] = tag
        if tag == 0:
            if length < _ROWS + _HEADER + 32:
                return np.int64(i)
            body = event + _HEADER
            now_commit = i64(frames, body)
            now_time = i64(frames, body + 8)
            now_number = i64(frames, body + 16)
            now_address = i64(frames, body + 24)
            now_ordinal = 0
            run[i] = -2
            rows[i] = 0
        elif tag == 2 or _is_rows(tag):
            table = u48(frames, event + _HEADER)
            if table != last_table:
                last_table = table
                last_run = np.int32(-1)
                for r in range(relations.size):
                    if relations[r] == table:
                        last_run = np.int32(r)
                        break
            run[i] = last_run
            rows[i] = u32(frames, at)
            end = u32(frames, event + 13)
            if end:
                # The header has 32 bits of the event's address; the transaction's begin has the rest.
                begin = (end - u32(frames, event + 9)) & 0xFFFFFFFF
                now_address += (begin - (now_address & 0xFFFFFFFF)) & 0xFFFFFFFF
        else:
            return np.int64(i)
        address[i] = now_address
        commit[i] = now_commit
        ordinal[i] = now_ordinal
        time[i] = now_time
        number[i] = now_number
        now_ordinal += rows[i]
        at += length
    if at != frames.size:
        return np.int64(lengths.size)
    return np.int64(-1)


@njit(nogil=True, cache=True)
def _image_bounds(event, at, end, bitmap, present, layout, row, starts, sizes):
    """Bounds of one row image into column `row` of the two arrays; behind it, or -1."""
    nulls = at
    at += (present + 7) // 8
    if at > end:
        return np.int64(-1)
    n = 0
    for c in range(layout.size):
        starts[c, row] = 0
        if not event[bitmap + (c >> 3)] >> (c & 7) & 1:
            sizes[c, row] = ABSENT
            continue
        if event[nulls + (n >> 3)] >> (n & 7) & 1:
            sizes[c, row] = NULL
        else:
            size = np.int64(layout[c])
            if size < 0:
                width = -size
                if at + width > end:
                    return np.int64(-1)
                size = np.int64(event[at])
                for k in range(1, width):
                    size |= np.int64(event[at + k]) << (8 * k)
                at += width
            if size > end - at:
                return np.int64(-1)
            starts[c, row] = at
            sizes[c, row] = size
            at += size
        n += 1
    return at


@kernel("i8(u1[::1], i8[::1], i8[::1], i8[::1], i4[::1], i8[:, ::1], i4[:, ::1], i8[:, ::1], i4[:, ::1])")
def row_bounds(frames, starts, ends, rows, layout, new_start, new_size, old_start, old_size):
    """Where every value of a table's rows events is; the index of the first bad event, or -1.

    Events lie at frames[starts[i]:ends[i]] and hold `rows[i]` changes. Bounds are by column, then by change, in
    events' order. A write fills `new`, a delete `old`, an update both; a truncation neither."""
    columns = layout.size
    row = 0
    for i in range(starts.size):
        end = ends[i]
        kind = frames[starts[i] + 4]
        if kind == 2:
            row += 1
            continue
        bitmap, at = rows_begin(frames, starts[i], end, columns)
        if bitmap < 0:
            return np.int64(i)
        second = bitmap + (columns + 7) // 8
        present = _present(frames, bitmap, columns)
        updates = kind == 24 or kind == 31
        present_after = _present(frames, second, columns) if updates else 0
        for _ in range(rows[i]):
            if at >= end:
                return np.int64(i)
            if kind == 23 or kind == 30:
                at = _image_bounds(frames, at, end, bitmap, present, layout, row, new_start, new_size)
            else:
                at = _image_bounds(frames, at, end, bitmap, present, layout, row, old_start, old_size)
                if at >= 0 and updates:
                    at = _image_bounds(frames, at, end, second, present_after, layout, row, new_start, new_size)
            if at < 0:
                return np.int64(i)
            row += 1
        if at != end:
            return np.int64(i)
    return np.int64(-1)
