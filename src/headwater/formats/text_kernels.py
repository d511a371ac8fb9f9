"""Kernels for strings and bytes: JSON escapes, base64, hexadecimal digits. Conventions as in `kernels.py`."""
# Functions compiled by Numba carry no Python types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs

import numpy as np
from numba import njit, types

from headwater.formats.kernels import BYTES, ENDS, LONGS, OUT

BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8)
BASE64_URL = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", dtype=np.uint8)
HEX_UPPER = np.frombuffer(b"0123456789ABCDEF", dtype=np.uint8)
HEX_LOWER = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)

# What JSON makes of a byte: 0 = itself, "u" = a \u00XX escape, anything else = a backslash and that letter.
ESCAPES = np.zeros(256, dtype=np.uint8)
ESCAPES[:32] = ord("u")
for _byte, _letter in {8: "b", 9: "t", 10: "n", 12: "f", 13: "r", 34: '"', 92: "\\"}.items():
    ESCAPES[_byte] = ord(_letter)


@njit(types.int64(BYTES), nogil=True, cache=True)
def count_escapes(data):
    """How many bytes need an escape in JSON, to size the buffer."""
    count = 0
    for i in range(data.size):
        count += ESCAPES[data[i]] != 0
    return count


@njit(types.int64(BYTES, LONGS, OUT, ENDS), nogil=True, cache=True)
def string_text(data, offsets, out, ends):
    """JSON strings with quotes, escaped as Jackson does: \\b \\t \\n \\f \\r \\" \\\\ and upper-case \\u00XX."""
    at = 0
    for row in range(offsets.size - 1):
        out[at] = 34
        at += 1
        for i in range(offsets[row], offsets[row + 1]):
            byte = data[i]
            escape = ESCAPES[byte]
            if escape == 0:
                out[at] = byte
                at += 1
            elif escape == 117:
                out[at] = 92
                out[at + 1] = 117
                out[at + 2] = 48
                out[at + 3] = 48
                out[at + 4] = HEX_UPPER[byte >> 4]
                out[at + 5] = HEX_UPPER[byte & 15]
                at += 6
            else:
                out[at] = 92
                out[at + 1] = escape
                at += 2
        out[at] = 34
        at += 1
        ends[row + 1] = at
    return at


@njit(types.int64(BYTES, types.int64, types.int64, BYTES, OUT, types.int64), nogil=True, cache=True)
def put_base64(data, begin, end, alphabet, out, at):
    """Base64 of data[begin:end] at `at`; returns where it ends."""
    i = begin
    while i + 2 < end:
        bits = (np.int64(data[i]) << 16) | (np.int64(data[i + 1]) << 8) | np.int64(data[i + 2])
        out[at] = alphabet[bits >> 18]
        out[at + 1] = alphabet[(bits >> 12) & 63]
        out[at + 2] = alphabet[(bits >> 6) & 63]
        out[at + 3] = alphabet[bits & 63]
        at += 4
        i += 3
    left = end - i
    if left > 0:
        bits = np.int64(data[i]) << 16
        if left == 2:
            bits |= np.int64(data[i + 1]) << 8
        out[at] = alphabet[bits >> 18]
        out[at + 1] = alphabet[(bits >> 12) & 63]
        out[at + 2] = alphabet[(bits >> 6) & 63] if left == 2 else 61
        out[at + 3] = 61
        at += 4
    return at


@njit(types.int64(BYTES, LONGS, BYTES, OUT, ENDS), nogil=True, cache=True)
def base64_text(data, offsets, alphabet, out, ends):
    """Byte strings as quoted base64 with padding."""
    at = 0
    for row in range(offsets.size - 1):
        out[at] = 34
        at = put_base64(data, offsets[row], offsets[row + 1], alphabet, out, at + 1)
        out[at] = 34
        at += 1
        ends[row + 1] = at
    return at


@njit(types.int64(BYTES, LONGS, OUT, ENDS), nogil=True, cache=True)
def hex_text(data, offsets, out, ends):
    """Byte strings as quoted lower-case hexadecimal digits."""
    at = 0
    for row in range(offsets.size - 1):
        out[at] = 34
        at += 1
        for i in range(offsets[row], offsets[row + 1]):
            out[at] = HEX_LOWER[data[i] >> 4]
            out[at + 1] = HEX_LOWER[data[i] & 15]
            at += 2
        out[at] = 34
        at += 1
        ends[row + 1] = at
    return at
