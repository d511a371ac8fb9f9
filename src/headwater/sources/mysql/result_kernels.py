"""Kernels that find every row and value in the packets of a result (binary protocol): what snapshots read."""
# Functions compiled by Numba carry no Python types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs

from __future__ import annotations

import numpy as np

from headwater.compiled import kernel
from headwater.sources.mysql.integer_kernels import i64, u16, u24

# As in kernels.py, whose own kernels are not needed here.
_NULL = -1


@kernel("Tuple((i8, i8))(u1[::1], i8[::1])")
def count_packets(data, state):
    """(rows, where the last whole one ends) of a result's packets; stops before what is not a row.

    `state[0]` becomes 1 when the result ended, 2 when an error packet came, 3 for a packet of 16 MB or more."""
    at = np.int64(0)
    rows = np.int64(0)
    state[0] = 0
    while at + 4 < data.size:
        size = u24(data, at)
        if size == 0xFFFFFF:
            state[0] = 3
            break
        if at + 4 + size > data.size:
            break
        first = data[at + 4]
        if first != 0:
            state[0] = 2 if first == 255 else 1
            break
        rows += 1
        at += 4 + size
    return rows, at


@kernel("i8(u1[::1], i8[::1], i8[::1], i4[::1], i8[:, ::1], i4[:, ::1])")
def result_bounds(data, starts, ends, layout, start, size):
    """Where every value of a result's rows (binary protocol) is; the index of the first bad row, or -1.

    Layouts as for rows events, and -9 for a length of the protocol's variable size."""
    columns = layout.size
    for row in range(starts.size):
        at = starts[row] + 1
        end = ends[row]
        nulls = at
        at += (columns + 9) // 8
        if at > end:
            return np.int64(row)
        for c in range(columns):
            start[c, row] = 0
            if data[nulls + ((c + 2) >> 3)] >> ((c + 2) & 7) & 1:
                size[c, row] = _NULL
                continue
            length = np.int64(layout[c])
            if length < 0:
                if at >= end:
                    return np.int64(row)
                first = np.int64(data[at])
                at += 1
                length = first
                if layout[c] == -9 and first > 250:
                    if first == 252 and at + 2 <= end:
                        length = u16(data, at)
                        at += 2
                    elif first == 253 and at + 3 <= end:
                        length = u24(data, at)
                        at += 3
                    elif first == 254 and at + 8 <= end:
                        length = i64(data, at)
                        at += 8
                    else:
                        return np.int64(row)
            if length < 0 or length > end - at:
                return np.int64(row)
            start[c, row] = at
            size[c, row] = length
            at += length
        if at != end:
            return np.int64(row)
    return np.int64(-1)


@kernel("i8(u1[::1], i8[::1], i8[::1])")
def packet_places(data, starts, ends):
    """Where the payload of every packet begins and ends; the number of packets. They fill `data`.

    A size of 16 MB - 1 says that the true one follows in 8 bytes."""
    at = np.int64(0)
    n = np.int64(0)
    while at + 4 <= data.size and n < starts.size:
        size = u24(data, at)
        at += 4
        if size == 0xFFFFFF:
            if at + 8 > data.size:
                return np.int64(-1)
            size = i64(data, at)
            at += 8
            if size < 0 or size > data.size - at:
                return np.int64(-1)
        starts[n] = at
        ends[n] = at + size
        at += size
        n += 1
    return n if at == data.size else np.int64(-1)
