"""Kernels that find every change and every value in a run of pgoutput frames.

Plain Python compiled by Numba; `plain.py` has the obvious twin of each. They read bytes and write
numbers: no Python object per row. A frame that does not parse is reported by its index, never guessed.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# As in pgoutput.py, but plain integers: a kernel sees constants, not imports.
_HEADER = 25
_EPOCH = 946_684_800_000_000


@njit(nogil=True, cache=True, inline="always")
def _u16(frames, at):
    return (np.int64(frames[at]) << 8) | np.int64(frames[at + 1])


@njit(nogil=True, cache=True, inline="always")
def _u32(frames, at):
    return (
        (np.int64(frames[at]) << 24)
        | (np.int64(frames[at + 1]) << 16)
        | (np.int64(frames[at + 2]) << 8)
        | np.int64(frames[at + 3])
    )


@njit(nogil=True, cache=True, inline="always")
def _i64(frames, at):
    return (_u32(frames, at) << 32) | _u32(frames, at + 4)


@njit("Tuple((i8, i8))(u1[::1], u4[::1])", nogil=True, cache=True)
def count_changes(frames, lengths):
    """How many changes the frames hold (a TRUNCATE counts once per table), and the first bad frame or -1.

    A chunk holds BEGIN, changes, messages and COMMIT, nothing else."""
    at = np.int64(0)
    changes = np.int64(0)
    for i in range(lengths.size):
        length = np.int64(lengths[i])
        if length <= _HEADER or at + length > frames.size:
            return changes, np.int64(i)
        kind = frames[at + _HEADER]
        if kind == 73 or kind == 85 or kind == 68:  # I U D
            if length < _HEADER + 6:
                return changes, np.int64(i)
            changes += 1
        elif kind == 84:  # T
            if length < _HEADER + 6:
                return changes, np.int64(i)
            count = _u32(frames, at + _HEADER + 1)
            if length != _HEADER + 6 + 4 * count:
                return changes, np.int64(i)
            changes += count
        elif kind == 66:  # B
            if length != _HEADER + 21:
                return changes, np.int64(i)
        elif kind == 67:  # C
            if length != _HEADER + 26:
                return changes, np.int64(i)
        elif kind == 77:  # M
            if length < _HEADER + 15:
                return changes, np.int64(i)
            changes += 1
        else:
            return changes, np.int64(i)
        at += length
    if at != frames.size:
        return changes, np.int64(lengths.size)
    return changes, np.int64(-1)


@njit(
    "void(u1[::1], u4[::1], i8[::1], i8[::1],"
    " u1[::1], i4[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8[::1])",
    nogil=True,
    cache=True,
)
def scan_changes(frames, lengths, relations, opened, kind, run, start, end, lsn, commit, ordinal, time, xid, previous):
    """Every change of the frames: its kind, table, bytes, log address and transaction.

    `relations` are the wanted relation oids, 0 for messages; `run` becomes the index among them or -1. `opened`
    is the transaction open at the first frame: commit LSN, changes so far, commit time, xid, and the end of the
    one before it. Sizes come from `count_changes`, which has checked the frames.
    A message outside of transactions is one of its own, without xid (-1): see `frames.message_position`."""
    now_commit, now_ordinal, now_time, now_xid = opened[0], opened[1], opened[2], opened[3]
    now_previous = opened[4]
    at = np.int64(0)
    n = 0
    last_oid = np.int64(-1)
    last_run = np.int32(-1)
    for i in range(lengths.size):
        length = np.int64(lengths[i])
        message = at + _HEADER
        tag = frames[message]
        if tag == 66:  # B
            now_commit = _i64(frames, message + 1)
            now_time = _i64(frames, message + 9) + _EPOCH
            now_xid = _u32(frames, message + 17)
            now_ordinal = 0
        elif tag == 67:  # C
            now_previous = _i64(frames, message + 10)
        elif tag == 77:  # M
            run[n] = -1
            for r in range(relations.size):
                if relations[r] == 0:
                    run[n] = r
                    break
            kind[n] = tag
            start[n] = message + 1
            end[n] = at + length
            lsn[n] = _i64(frames, at + 1)
            if frames[message + 1] & 1:
                now_ordinal += 1
                commit[n] = now_commit
                ordinal[n] = now_ordinal
                time[n] = now_time
                xid[n] = now_xid
            else:
                now_previous = lsn[n]
                commit[n] = lsn[n] - 1
                ordinal[n] = 1
                time[n] = _i64(frames, at + 17) + _EPOCH
                xid[n] = -1
            previous[n] = now_previous
            n += 1
        elif tag == 73 or tag == 85 or tag == 68 or tag == 84:
            count = np.int64(1)
            if tag == 84:
                count = _u32(frames, message + 1)
            for k in range(count):
                oid = _u32(frames, message + 6 + 4 * k) if tag == 84 else _u32(frames, message + 1)
                if oid != last_oid:
                    last_oid = oid
                    last_run = np.int32(-1)
                    for r in range(relations.size):
                        if relations[r] == oid:
                            last_run = np.int32(r)
                            break
                now_ordinal += 1
                kind[n] = tag
                run[n] = last_run
                start[n] = message + 5
                end[n] = at + length
                lsn[n] = _i64(frames, at + 1)
                commit[n] = now_commit
                ordinal[n] = now_ordinal
                time[n] = now_time
                xid[n] = now_xid
                previous[n] = now_previous
                n += 1
        at += length


@njit(nogil=True, cache=True, inline="always")
def _tuple(frames, at, end, columns, row, starts, sizes):
    """One TupleData; returns where it ends, or -1 when it does not fit."""
    if at + 2 > end or _u16(frames, at) != columns:
        return np.int64(-1)
    at += 2
    for c in range(columns):
        if at >= end:
            return np.int64(-1)
        tag = frames[at]
        if tag == 116 or tag == 98:  # t b
            if at + 5 > end:
                return np.int64(-1)
            size = _u32(frames, at + 1)
            if at + 5 + size > end:
                return np.int64(-1)
            starts[c, row] = at + 5
            sizes[c, row] = size
            at += 5 + size
        elif tag == 110:  # n
            starts[c, row] = 0
            sizes[c, row] = -1
            at += 1
        elif tag == 117:  # u
            starts[c, row] = 0
            sizes[c, row] = -2
            at += 1
        else:
            return np.int64(-1)
    return at


@njit(
    "i8(u1[::1], u1[::1], i8[::1], i8[::1], i8, u1[::1], i8[:, ::1], i4[:, ::1], u1[::1], i8[:, ::1], i4[:, ::1])",
    nogil=True,
    cache=True,
)
def tuple_bounds(frames, kind, start, end, columns, has_new, new_start, new_size, has_old, old_start, old_size):
    """Bounds of every value of the rows: [column, row], size -1 NULL, -2 unchanged TOAST.

    `has_old` becomes 0, or the letter K (key only) or O (whole row). What the new row left out is taken from
    the old one where that has it: all of it under O, a key column too long to be logged twice under K.
    Returns the first bad row, or -1.
    Protocol: "TupleData" in the PostgreSQL manual, Logical Replication Message Formats."""
    for row in range(kind.size):
        has_new[row] = 0
        has_old[row] = 0
        if kind[row] == 84:  # T
            continue
        at = start[row]
        if at >= end[row]:
            return np.int64(row)
        tag = frames[at]
        if tag == 75 or tag == 79:  # K O
            has_old[row] = tag
            at = _tuple(frames, at + 1, end[row], columns, row, old_start, old_size)
            if at < 0:
                return np.int64(row)
        if kind[row] != 68:  # not D
            if at >= end[row] or frames[at] != 78:  # N
                return np.int64(row)
            at = _tuple(frames, at + 1, end[row], columns, row, new_start, new_size)
            if at < 0:
                return np.int64(row)
            has_new[row] = 1
            if has_old[row] != 0:
                for c in range(columns):
                    if new_size[c, row] == -2 and (has_old[row] == 79 or old_size[c, row] >= 0):
                        new_start[c, row] = old_start[c, row]
                        new_size[c, row] = old_size[c, row]
        elif has_old[row] == 0:
            return np.int64(row)
        if at != end[row]:
            return np.int64(row)
    return np.int64(-1)


@njit("UniTuple(i8, 2)(u1[::1], i8, i8, i8)", nogil=True, cache=True)
def copy_data(messages, at, upto, out):
    """Move the content of whole CopyData messages in [at, upto) down to `out`; where reading and writing ended."""
    while at + 5 <= upto and messages[at] == 100:  # d
        end = at + 1 + _u32(messages, at + 1)
        if end > upto:
            break
        for byte in range(at + 5, end):
            messages[out] = messages[byte]
            out += 1
        at = end
    return at, out


@njit("i8(u1[::1], i8, i8[:, ::1], i4[:, ::1])", nogil=True, cache=True)
def copy_bounds(text, columns, starts, sizes):
    r"""Bounds of every value in COPY text; escapes are undone in place. Returns the first bad line, or -1.

    Protocol: "Text Format" under COPY in the PostgreSQL manual. The server writes \b \f \n \r \t \v \\ and
    \N, so any other escaped character stands for itself."""
    row = 0
    column = 0
    at = np.int64(0)
    out = np.int64(0)
    begin = np.int64(0)
    null = False
    while at < text.size:
        byte = text[at]
        if byte == 9 or byte == 10:  # tab, newline
            if column >= columns or row >= starts.shape[1] or (null and out != begin):
                return np.int64(row)
            starts[column, row] = begin
            sizes[column, row] = -1 if null else out - begin
            null = False
            column += 1
            at += 1
            begin = at
            out = at
            if byte == 10:
                if column != columns:
                    return np.int64(row)
                column = 0
                row += 1
            continue
        if byte != 92:  # backslash
            text[out] = byte
            out += 1
            at += 1
            continue
        if at + 1 >= text.size:
            return np.int64(row)
        code = text[at + 1]
        at += 2
        if code == 9 or code == 10 or null:
            return np.int64(row)
        if code == 78 and out == begin:  # \N
            null = True
        elif code == 98:
            text[out] = 8
            out += 1
        elif code == 102:
            text[out] = 12
            out += 1
        elif code == 110:
            text[out] = 10
            out += 1
        elif code == 114:
            text[out] = 13
            out += 1
        elif code == 116:
            text[out] = 9
            out += 1
        elif code == 118:
            text[out] = 11
            out += 1
        else:
            text[out] = code
            out += 1
    return np.int64(-1) if column == 0 and begin == text.size else np.int64(row)
