"""Kernels over records of JSON: where every value of an event stands, and what its text means.

Plain Python compiled by Numba; `plain.py` has the obvious twin of each. They read bytes and write numbers: no Python
object per value. What does not parse is reported by its place, never guessed.
"""
# Functions compiled by Numba carry no Python types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs

from __future__ import annotations

import numpy as np
from numba import njit

from headwater.compiled import kernel

BYTES = "Array(u1, 1, 'C', readonly=True)"
LONGS = "Array(i8, 1, 'C', readonly=True)"

# What a value is. ABSENT: the row does not name the column.
ABSENT, NULL, BOOLEAN, INTEGER, FLOAT, STRING, ESCAPED, NESTED = 0, 1, 2, 3, 4, 5, 6, 7
# What became of a record. UNKNOWN: a row has a value, not null, of a column that nobody knows.
FINE, DAMAGED, UNKNOWN = 0, 1, 2
# The parts of an event that are looked into, in the order of `parts`.
BEFORE, AFTER, SOURCE = 0, 1, 2


@njit
def _blank(data, at, end):
    while at < end and (data[at] == 32 or data[at] == 10 or data[at] == 13 or data[at] == 9):
        at += 1
    return at


@njit
def _string(data, at, end):
    """Behind the string that begins at `at`, negative when it has escapes; 0 when it does not end."""
    escaped = False
    at += 1
    while at < end:
        byte = data[at]
        if byte == 34:
            return -(at + 1) if escaped else at + 1
        if byte == 92:
            escaped = True
            at += 1
        at += 1
    return 0


@njit
def _nested(data, at, end):
    """Behind the object or array that begins at `at`; 0 when it does not end."""
    depth = 0
    while at < end:
        byte = data[at]
        if byte == 34:
            at = abs(_string(data, at, end))
            if at == 0:
                return 0
            continue
        if byte == 123 or byte == 91:
            depth += 1
        elif byte == 125 or byte == 93:
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return 0


@njit
def _value(data, at, end):
    """(behind the value that begins at `at`, what it is); (0, _) when it is none."""
    if at >= end:
        return 0, ABSENT
    byte = data[at]
    if byte == 34:
        behind = _string(data, at, end)
        return abs(behind), ESCAPED if behind < 0 else STRING
    if byte == 123 or byte == 91:
        return _nested(data, at, end), NESTED
    if byte == 110 and at + 4 <= end and data[at + 1] == 117 and data[at + 2] == 108 and data[at + 3] == 108:
        return at + 4, NULL
    if byte == 116 and at + 4 <= end and data[at + 1] == 114 and data[at + 2] == 117 and data[at + 3] == 101:
        return at + 4, BOOLEAN
    if byte == 102 and at + 5 <= end and data[at + 1] == 97 and data[at + 2] == 108 and data[at + 3] == 115:
        return (at + 5 if data[at + 4] == 101 else 0), BOOLEAN
    if byte == 45 or 48 <= byte <= 57:
        kind = INTEGER
        at += 1
        while at < end:
            byte = data[at]
            if byte == 46 or byte == 101 or byte == 69:
                kind = FLOAT
            elif not (48 <= byte <= 57 or byte == 43 or byte == 45):
                break
            at += 1
        return at, kind
    return 0, ABSENT


@njit
def _equal(data, begin, size, names, first, last):
    if size != last - first:
        return False
    for i in range(size):
        if data[begin + i] != names[first + i]:
            return False
    return True


@njit
def _object(data, at, end, names, ends, first, last, row, start, size, kind):
    """The members of the object at `at`, by the names [first, last): (behind it, what became of it)."""
    expected = first
    status = FINE
    at = _blank(data, at + 1, end)
    if at < end and data[at] == 125:
        return at + 1, FINE
    while at < end:
        if data[at] != 34:
            return 0, DAMAGED
        behind = abs(_string(data, at, end))
        if behind == 0:
            return 0, DAMAGED
        begin, length = at + 1, behind - at - 2
        # Rows name their columns in the order of the table.
        found = -1
        for step in range(last - first):
            place = expected + step
            if place >= last:
                place -= last - first
            if _equal(data, begin, length, names, ends[place], ends[place + 1]):
                found = place
                break
        at = _blank(data, behind, end)
        if at >= end or data[at] != 58:
            return 0, DAMAGED
        at = _blank(data, at + 1, end)
        behind, what = _value(data, at, end)
        if behind == 0:
            return 0, DAMAGED
        if found >= 0:
            start[found, row], size[found, row], kind[found, row] = at, behind - at, what
            expected = found + 1
        elif what != NULL:
            status = UNKNOWN
        at = _blank(data, behind, end)
        if at >= end:
            return 0, DAMAGED
        if data[at] == 125:
            return at + 1, status
        if data[at] != 44:
            return 0, DAMAGED
        at = _blank(data, at + 1, end)
    return 0, DAMAGED


# The members of an event that are looked at, by their first two letters.
_BE, _AF, _SO, _OP = 0x6265, 0x6166, 0x736F, 0x6F70


@kernel(
    f"void({BYTES}, {LONGS}, {LONGS}, {BYTES}, {LONGS}, {LONGS},"
    " u1[:,::1], u1[::1], i8[:,::1], i4[:,::1], u1[:,::1], u1[::1])"
)
def scan_events(data, begins, finishes, names, ends, parts, present, op, start, size, kind, status):
    """Every value of every event `data[begins[i]:finishes[i]]`.

    Names i is names[ends[i]:ends[i + 1]]; those of `before`, `after` and `source` are parts[p] up to parts[p + 1].
    Fills, for every event, which of the three are there, its operation, and for every name where its value is."""
    for row in range(begins.size):
        end = finishes[row]
        at = _blank(data, begins[row], end)
        status[row] = DAMAGED
        op[row] = 0
        present[0, row] = present[1, row] = present[2, row] = 0
        if at >= end or data[at] != 123:
            continue
        at = _blank(data, at + 1, end)
        found = FINE
        while at < end and data[at] == 34:
            behind = abs(_string(data, at, end))
            if behind == 0:
                break
            length = behind - at - 2
            word = (np.int64(data[at + 1]) << 8 | np.int64(data[at + 2])) if length >= 2 else 0
            at = _blank(data, behind, end)
            if at >= end or data[at] != 58:
                break
            at = _blank(data, at + 1, end)
            part = -1
            if length == 6 and word == _BE:
                part = BEFORE
            elif length == 5 and word == _AF:
                part = AFTER
            elif length == 6 and word == _SO:
                part = SOURCE
            if part >= 0 and at < end and data[at] == 123:
                behind, became = _object(
                    data, at, end, names, ends, parts[part], parts[part + 1], row, start, size, kind
                )
                if behind == 0:
                    break
                present[part, row] = 1
                # Of `source` only some members are asked for.
                if became == UNKNOWN and part != SOURCE:
                    found = UNKNOWN
            else:
                behind, what = _value(data, at, end)
                if behind == 0 or (part >= 0 and what != NULL):
                    break
                if length == 2 and word == _OP and what == STRING and behind - at == 3:
                    op[row] = data[at + 1]
            at = _blank(data, behind, end)
            if at < end and data[at] == 125:
                if _blank(data, at + 1, end) == end and op[row] != 0:
                    status[row] = found
                break
            if at >= end or data[at] != 44:
                break
            at = _blank(data, at + 1, end)


@njit
def _hex(byte):
    if 48 <= byte <= 57:
        return byte - 48
    if 97 <= byte <= 102:
        return byte - 87
    if 65 <= byte <= 70:
        return byte - 55
    return -1


@njit
def _unit(data, at, end):
    """The number of a \\uXXXX whose digits begin at `at`; -1 when they are none."""
    if at + 4 > end:
        return -1
    number = 0
    for i in range(4):
        digit = _hex(np.int64(data[at + i]))
        if digit < 0:
            return -1
        number = number * 16 + digit
    return number


@kernel(f"i8({BYTES}, {LONGS}, {LONGS}, i8[::1], u1[::1])")
def unescape(data, begins, finishes, ends, out):
    """Texts between the quotes of JSON strings as what they mean, end to end; the first one that is damaged, or -1."""
    to = 0
    for row in range(begins.size):
        at, end = begins[row], finishes[row]
        while at < end:
            byte = data[at]
            if byte != 92:
                out[to] = byte
                to += 1
                at += 1
                continue
            if at + 1 >= end:
                return row
            letter = data[at + 1]
            at += 2
            if letter == 117:
                code = _unit(data, at, end)
                at += 4
                if 0xD800 <= code < 0xDC00 and at + 1 < end and data[at] == 92 and data[at + 1] == 117:
                    low = _unit(data, at + 2, end)
                    if 0xDC00 <= low < 0xE000:
                        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                        at += 6
                if code < 0 or 0xD800 <= code < 0xE000:
                    return row
                if code < 0x80:
                    out[to] = code
                    to += 1
                elif code < 0x800:
                    out[to], out[to + 1] = 0xC0 | code >> 6, 0x80 | code & 63
                    to += 2
                elif code < 0x10000:
                    out[to], out[to + 1], out[to + 2] = 0xE0 | code >> 12, 0x80 | code >> 6 & 63, 0x80 | code & 63
                    to += 3
                else:
                    out[to], out[to + 1] = 0xF0 | code >> 18, 0x80 | code >> 12 & 63
                    out[to + 2], out[to + 3] = 0x80 | code >> 6 & 63, 0x80 | code & 63
                    to += 4
                continue
            if letter == 110:
                byte = 10
            elif letter == 116:
                byte = 9
            elif letter == 114:
                byte = 13
            elif letter == 98:
                byte = 8
            elif letter == 102:
                byte = 12
            elif letter == 34 or letter == 92 or letter == 47:
                byte = letter
            else:
                return row
            out[to] = byte
            to += 1
        ends[row + 1] = to
    return np.int64(-1)


@njit
def _digit(byte):
    if 65 <= byte <= 90:
        return byte - 65
    if 97 <= byte <= 122:
        return byte - 71
    if 48 <= byte <= 57:
        return byte + 4
    if byte == 43:
        return 62
    if byte == 47:
        return 63
    return -1


@kernel(f"i8({BYTES}, {LONGS}, {LONGS}, i8[::1], u1[::1])")
def base64_bytes(data, begins, finishes, ends, out):
    """Base64 with padding as bytes, end to end; the first that is damaged, or -1."""
    to = 0
    for row in range(begins.size):
        at, end = begins[row], finishes[row]
        if (end - at) % 4:
            return row
        while at < end:
            bits = 0
            filled = 4
            for i in range(4):
                byte = np.int64(data[at + i])
                if byte == 61 and at + 4 == end and i >= 2:
                    filled = min(filled, i)
                    bits <<= 6
                    continue
                digit = _digit(byte)
                if digit < 0 or filled < 4:
                    return row
                bits = bits << 6 | digit
            for i in range(filled - 1):
                out[to] = bits >> (16 - 8 * i) & 255
                to += 1
            at += 4
        ends[row + 1] = to
    return np.int64(-1)


@kernel(f"i8({BYTES}, {LONGS}, {LONGS}, u8[::1])")
def decimal_words(data, begins, finishes, out):
    """Whole numbers of up to 16 bytes, two's complement, highest byte first, as pairs of words, lower one first; the
    first that is longer or empty, or -1. One whose begin is negative is left out."""
    for row in range(begins.size):
        at, end = begins[row], finishes[row]
        if at < 0:
            continue
        if end == at:
            return row
        fill = np.uint64(0xFFFFFFFFFFFFFFFF) if data[at] >= 128 else np.uint64(0)
        # Bytes in front that only repeat the sign are spared: a number of 17 bytes may fit.
        while end - at > 16 and data[at] == np.uint8(fill & np.uint64(255)):
            at += 1
        if end - at > 16 or (end - at == 16 and (data[at] >= 128) != (fill != 0)):
            return row
        low, high = fill, fill
        for i in range(at, end):
            high = high << np.uint64(8) | low >> np.uint64(56)
            low = low << np.uint64(8) | np.uint64(data[i])
        out[2 * row], out[2 * row + 1] = low, high
    return np.int64(-1)
