"""JSON values of a column as Avro's binary form, compiled: numbers, texts, bytes, booleans.

As in `kernels.py`: `out` is sized by the caller for the worst case, `ends` has 0 in front. Rows that have no value
(`state`) are left empty. `branch` (-1: none) is the byte that stands before a value of a union. The twin is
`avro_plain.py`.
"""
# Functions compiled by Numba carry no Python types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs

import numpy as np
from numba import njit, types

from headwater.formats.kernels import BYTES, ENDS, LONGS, OUT, VALUE

_TEXTS = types.void(BYTES, LONGS, LONGS, BYTES, types.int64, OUT, ENDS)


@njit(types.int64(OUT, types.int64, types.int64), nogil=True, cache=True)
def put_long(out, at, number):
    """A zigzag varint; returns where it ends."""
    left = np.uint64(number << 1) ^ np.uint64(number >> 63)
    while left > np.uint64(0x7F):
        out[at] = np.uint8(left & np.uint64(0x7F)) | np.uint8(0x80)
        left >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(left)
    return at + 1


@njit(_TEXTS, nogil=True, cache=True)
def long_avro(data, begins, ends, state, branch, out, out_ends):
    """Whole numbers."""
    at = 0
    for row in range(begins.size):
        if state.size == 0 or state[row] == VALUE:
            if branch >= 0:
                out[at] = branch
                at += 1
            place, end = begins[row], ends[row]
            negative = place < end and data[place] == ord("-")
            if negative:
                place += 1
            # Downwards, because there is one more number below zero than above.
            number = np.int64(0)
            while place < end:
                number = number * 10 - (np.int64(data[place]) - 48)
                place += 1
            at = put_long(out, at, number if negative else -number)
        out_ends[row + 1] = at


@njit(_TEXTS, nogil=True, cache=True)
def boolean_avro(data, begins, ends, state, branch, out, out_ends):  # noqa: ARG001 - the kernels have one signature
    """true and false."""
    at = 0
    for row in range(begins.size):
        if state.size == 0 or state[row] == VALUE:
            if branch >= 0:
                out[at] = branch
                at += 1
            out[at] = 1 if data[begins[row]] == ord("t") else 0
            at += 1
        out_ends[row + 1] = at


@njit(types.int64(BYTES, types.int64), nogil=True, cache=True)
def _hex4(data, at):
    found = 0
    for i in range(4):
        digit = np.int64(data[at + i])
        if digit >= 97:
            digit -= 87
        elif digit >= 65:
            digit -= 55
        else:
            digit -= 48
        found = found * 16 + digit
    return found


@njit(types.int64(BYTES, types.int64, types.int64, OUT, types.int64), nogil=True, cache=True)
def _unescape(data, place, end, out, at):
    """A JSON string without its quotes, as UTF-8; returns where it ends."""
    while place < end:
        byte = data[place]
        if byte != ord("\\"):
            out[at] = byte
            at += 1
            place += 1
            continue
        kind = data[place + 1]
        place += 2
        if kind != ord("u"):
            if kind == ord("n"):
                kind = np.uint8(10)
            elif kind == ord("t"):
                kind = np.uint8(9)
            elif kind == ord("r"):
                kind = np.uint8(13)
            elif kind == ord("b"):
                kind = np.uint8(8)
            elif kind == ord("f"):
                kind = np.uint8(12)
            out[at] = kind
            at += 1
            continue
        code = _hex4(data, place)
        place += 4
        if 0xD800 <= code < 0xDC00 and place + 5 < end and data[place + 1] == ord("u"):
            code = 0x10000 + ((code - 0xD800) << 10) + (_hex4(data, place + 2) - 0xDC00)
            place += 6
        if code < 0x80:
            out[at] = code
            at += 1
        elif code < 0x800:
            out[at] = 0xC0 | code >> 6
            out[at + 1] = 0x80 | code & 0x3F
            at += 2
        elif code < 0x10000:
            out[at] = 0xE0 | code >> 12
            out[at + 1] = 0x80 | code >> 6 & 0x3F
            out[at + 2] = 0x80 | code & 0x3F
            at += 3
        else:
            out[at] = 0xF0 | code >> 18
            out[at + 1] = 0x80 | code >> 12 & 0x3F
            out[at + 2] = 0x80 | code >> 6 & 0x3F
            out[at + 3] = 0x80 | code & 0x3F
            at += 4
    return at


@njit(types.int64(types.int64), nogil=True, cache=True)
def _length_bytes(number):
    """How many bytes a length takes as a varint."""
    size = 1
    number >>= 6
    while number > 0:
        size += 1
        number >>= 7
    return size


@njit(types.void(OUT, types.int64, types.int64, types.int64), nogil=True, cache=True)
def _shift(out, begin, end, by):
    """Move out[begin:end] to the left."""
    for place in range(begin, end):
        out[place - by] = out[place]


@njit(_TEXTS, nogil=True, cache=True)
def string_avro(data, begins, ends, state, branch, out, out_ends):
    """Quoted texts."""
    at = 0
    for row in range(begins.size):
        if state.size == 0 or state[row] == VALUE:
            if branch >= 0:
                out[at] = branch
                at += 1
            begin, end = begins[row] + 1, ends[row] - 1
            # An escape only makes a text shorter: room for the longer length, and closed up when it was less.
            room = _length_bytes(end - begin)
            stop = _unescape(data, begin, end, out, at + room)
            size = stop - at - room
            spare = room - _length_bytes(size)
            if spare:
                _shift(out, at + room, stop, spare)
            put_long(out, at, size)
            at = stop - spare
        out_ends[row + 1] = at


@njit(types.int64(types.uint8), nogil=True, cache=True)
def _sextet(char):
    if char >= 97:
        return np.int64(char) - 71
    if char >= 65:
        return np.int64(char) - 65
    if char >= 48:
        return np.int64(char) + 4
    return np.int64(62) if char == ord("+") else np.int64(63)


@njit(_TEXTS, nogil=True, cache=True)
def bytes_avro(data, begins, ends, state, branch, out, out_ends):
    """Quoted base64, padded."""
    at = 0
    for row in range(begins.size):
        if state.size == 0 or state[row] == VALUE:
            if branch >= 0:
                out[at] = branch
                at += 1
            place, end = begins[row] + 1, ends[row] - 1
            size = (end - place) // 4 * 3
            if size and data[end - 1] == ord("="):
                size -= 2 if data[end - 2] == ord("=") else 1
            at = put_long(out, at, size)
            stop = at + size
            while place < end:
                bits = (
                    _sextet(data[place]) << 18
                    | _sextet(data[place + 1]) << 12
                    | _sextet(data[place + 2]) << 6
                    | _sextet(data[place + 3])
                )
                place += 4
                for shift in (16, 8, 0):
                    if at < stop:
                        out[at] = bits >> shift & 0xFF
                        at += 1
        out_ends[row + 1] = at
