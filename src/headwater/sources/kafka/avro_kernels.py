"""A kernel over records of Avro: a schema compiled to steps, walked once for every record.

Beside it stands fastavro, which the tests hold it to.
"""
# Functions compiled by Numba carry no Python types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs

from __future__ import annotations

import numpy as np
from numba import njit

from headwater.compiled import kernel

BYTES = "Array(u1, 1, 'C', readonly=True)"
LONGS = "Array(i8, 1, 'C', readonly=True)"

# What a value is.
ABSENT, NULL, PRESENT = 0, 1, 2
# Steps: what they read, and what stands in their columns.
NUMBER = 1  # slot
BOOLEAN = 2  # slot
SIZED = 3  # slot: a length, then so many bytes
FIXED = 4  # slot, size
UNION = 5  # first slot, branch that is null, step to go on with then, slot behind the last one
OPEN = 6  # slot: a value of many parts begins
CLOSE = 7  # slot: and ends
LOOP = 8  # step behind the loop: blocks of items
NEXT = 9  # first step of an item
# Arrays inside of arrays.
DEPTH = 32


@njit
def _long(data, at, end):
    """(number, behind it); (0, -1) when it does not end."""
    number = np.uint64(0)
    shift = np.uint64(0)
    while at < end and shift < 64:
        byte = np.uint64(data[at])
        at += 1
        number |= (byte & np.uint64(127)) << shift
        if byte < 128:
            return np.int64(number >> np.uint64(1)) ^ -np.int64(number & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@njit
def _block(data, at, end):
    """(items of a block, where they begin)."""
    count, at = _long(data, at, end)
    if at >= 0 and count < 0:
        _size, at = _long(data, at, end)
        count = -count
    return count, at


@kernel(f"i8({BYTES}, {LONGS}, {LONGS}, i4[:,::1], i8[:,::1], i4[:,::1], i8[:,::1], u1[:,::1])")
def walk_records(data, begins, finishes, steps, start, size, number, kind):
    """Every value of every record `data[begins[i]:finishes[i]]`, by slot; the first that does not fit, or -1."""
    left = np.zeros(DEPTH, dtype=np.int64)
    for row in range(begins.size):
        at, end = begins[row], finishes[row]
        step = depth = 0
        while step < steps.shape[0]:
            what, slot = steps[step, 0], steps[step, 1]
            step += 1
            if what == NUMBER:
                value, at = _long(data, at, end)
                if at < 0:
                    return row
                if slot >= 0:
                    number[slot, row] = value
                    kind[slot, row] = PRESENT
            elif what == BOOLEAN:
                if at >= end or data[at] > 1:
                    return row
                if slot >= 0:
                    number[slot, row] = data[at]
                    kind[slot, row] = PRESENT
                at += 1
            elif what == SIZED or what == FIXED:
                length = np.int64(steps[step - 1, 2])
                if what == SIZED:
                    length, at = _long(data, at, end)
                if at < 0 or length < 0 or length > end - at:
                    return row
                if slot >= 0:
                    start[slot, row] = at
                    size[slot, row] = length
                    kind[slot, row] = PRESENT
                at += length
            elif what == UNION:
                branch, at = _long(data, at, end)
                if at < 0 or branch < 0 or branch > 1:
                    return row
                if branch == steps[step - 1, 2]:
                    for each in range(slot, steps[step - 1, 4]):
                        kind[each, row] = NULL
                    step = steps[step - 1, 3]
            elif what == OPEN:
                if slot >= 0:
                    start[slot, row] = at
            elif what == CLOSE:
                if slot >= 0:
                    size[slot, row] = at - start[slot, row]
                    kind[slot, row] = PRESENT
            elif what == LOOP:
                count, at = _block(data, at, end)
                if at < 0 or depth == DEPTH:
                    return row
                if count == 0:
                    step = steps[step - 1, 2]
                else:
                    left[depth] = count
                    depth += 1
            else:
                left[depth - 1] -= 1
                if left[depth - 1] == 0:
                    count, at = _block(data, at, end)
                    if at < 0:
                        return row
                    left[depth - 1] = count
                if left[depth - 1] == 0:
                    depth -= 1
                else:
                    step = steps[step - 1, 2]
        if at != end:
            return row
    return np.int64(-1)
