"""Kernels that turn the texts of one column into typed values, beside the plain twin of each.

Every kernel takes the bytes, and where each value starts and how long it is (negative: no value, leave
what `out` has), fills `out`, and returns the index of the first value it cannot parse, or -1. A twin takes
one text and returns one Python value, or raises ValueError; the tests hold both to the same answers.
Dates are in `time_kernels.py`, arrays and hstore in `nested_kernels.py`; `values.py` wraps all of it in Arrow.
How fast each is: docs/decisions/0002-decoding-values.md.
"""
# Functions compiled by Numba carry no Python types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs

from __future__ import annotations

from decimal import Decimal

import numpy as np

from headwater.compiled import kernel

# data, starts, lengths. Read-only arrays (bytes from a file) are welcome; so are writable ones.
VALUES = "Array(u1, 1, 'C', readonly=True), Array(i8, 1, 'C', readonly=True), Array(i4, 1, 'C', readonly=True)"


# --- whole numbers and booleans


@kernel(
    f"i8({VALUES}, i2[::1], i8, i8)",
    f"i8({VALUES}, i4[::1], i8, i8)",
    f"i8({VALUES}, i8[::1], i8, i8)",
)
def parse_int(data, starts, lengths, out, low, high):
    """Decimal digits with an optional minus, between `low` and `high`."""
    for i in range(lengths.size):
        length = lengths[i]
        if length < 0:
            continue
        at = starts[i]
        end = at + length
        negative = length > 0 and data[at] == 45
        if negative:
            at += 1
        # 19 digits fit in 64 unsigned bits, whatever they are.
        if at == end or end - at > 19:
            return np.int64(i)
        number = np.uint64(0)
        while at < end:
            digit = data[at] - np.uint8(48)
            if digit > 9:
                return np.int64(i)
            number = number * np.uint64(10) + np.uint64(digit)
            at += 1
        if negative:
            if number > np.uint64(-(low + 1)) + np.uint64(1):
                return np.int64(i)
            out[i] = -np.int64(number)
        else:
            if number > np.uint64(high):
                return np.int64(i)
            out[i] = np.int64(number)
    return np.int64(-1)


def int_plain(text, low, high):
    """`parse_int`: int() without its leniency."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19 and low <= int(text) <= high):
        raise ValueError("not an integer in range")
    return int(text)


@kernel(f"i8({VALUES}, u1[::1])")
def parse_bool(data, starts, lengths, out):
    """`t` and `f`, as 1 and 0."""
    for i in range(lengths.size):
        if lengths[i] < 0:
            continue
        letter = data[starts[i]] if lengths[i] == 1 else np.uint8(0)
        if letter != 116 and letter != 102:
            return np.int64(i)
        out[i] = letter == 116
    return np.int64(-1)


def bool_plain(text):
    """`parse_bool`: two letters."""
    return {"t": 1, "f": 0}[text] if text in ("t", "f") else refuse()


def refuse():
    """A twin's way to say that a text is no value of its type."""
    raise ValueError("not a value of the type")


# --- exact decimals


@kernel(f"i8({VALUES}, u8[::1], i8, i8)")
def parse_decimal(data, starts, lengths, out, precision, scale):
    """Decimals as 128-bit two's complement units of 10^-scale: `out` has a low and a high word per value."""
    low_half = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    ten = np.uint64(10)
    for i in range(lengths.size):
        length = np.int64(lengths[i])
        if length < 0:
            continue
        at = starts[i]
        end = at + length
        negative = length > 0 and data[at] == 45
        if negative:
            at += 1
        low = np.uint64(0)
        high = np.uint64(0)
        significant = np.int64(0)
        fraction = np.int64(-1)  # digits after the point; -1 before it
        seen = False
        while at < end or (seen and max(fraction, 0) < scale):
            if at < end:
                letter = data[at]
                at += 1
                if letter == 46 and fraction < 0:
                    fraction = np.int64(0)
                    continue
                digit = np.uint64(letter - np.uint8(48))
                if digit > 9:
                    return np.int64(i)
                seen = True
                if fraction >= 0:
                    fraction += 1
                    if fraction > scale:
                        return np.int64(i)
            else:
                # Fewer decimals than the scale: zeros are missing.
                digit = np.uint64(0)
                fraction = max(fraction, 0) + 1
            if significant > 0 or digit > 0:
                significant += 1
            if significant <= 19:
                low = low * ten + digit
            else:
                carry = (low & low_half) * ten + digit
                upper = (low >> half) * ten + (carry >> half)
                low = (upper << half) | (carry & low_half)
                high = high * ten + (upper >> half)
        if not seen or significant > precision:
            return np.int64(i)
        if negative:
            low = ~low + np.uint64(1)
            high = ~high + (np.uint64(1) if low == 0 else np.uint64(0))
        out[2 * i] = low
        out[2 * i + 1] = high
    return np.int64(-1)


def decimal_plain(text, precision, scale):
    """`parse_decimal`: Decimal(), in units of 10^-scale."""
    whole, _, fraction = text.removeprefix("-").partition(".")
    if not ((whole + fraction).isascii() and (whole + fraction).isdigit() and len(fraction) <= scale):
        refuse()
    units = int(whole + fraction.ljust(scale, "0"))
    if len(str(units)) > precision:
        refuse()
    return Decimal((text.startswith("-"), tuple(map(int, str(units))), -scale))


# --- texts and bytes

# What each byte means as a hex digit; 255 for none.
_HEX = np.array([int(chr(byte), 16) if chr(byte) in "0123456789abcdefABCDEF" else 255 for byte in range(256)], np.uint8)


@kernel(f"i8({VALUES}, i4[::1], u1[::1])")
def gather(data, starts, lengths, offsets, out):
    """The texts end to end in `out`, value i at offsets[i]:offsets[i + 1]."""
    written = np.int64(0)
    offsets[0] = 0
    for i in range(lengths.size):
        length = np.int64(lengths[i])
        at = starts[i]
        if length > 64:
            out[written : written + length] = data[at : at + length]
            written += length
        else:
            # A loop beats a call for short texts.
            for k in range(length):
                out[written + k] = data[at + k]
            written += max(length, 0)
        offsets[i + 1] = written
    return np.int64(-1)


@kernel(f"i8({VALUES}, i4[::1], u1[::1])")
def parse_hex(data, starts, lengths, offsets, out):
    r"""bytea in hex form (`\x00ff`), the bytes end to end in `out`, value i at offsets[i]:offsets[i + 1]."""
    written = np.int64(0)
    offsets[0] = 0
    for i in range(lengths.size):
        length = np.int64(lengths[i])
        if length >= 0:
            at = starts[i]
            if length < 2 or length & 1 or data[at] != 92 or data[at + 1] != 120:
                return np.int64(i)
            for k in range(at + 2, at + length, 2):
                upper = _HEX[data[k]]
                lower = _HEX[data[k + 1]]
                if upper > 15 or lower > 15:
                    return np.int64(i)
                out[written] = upper << 4 | lower
                written += 1
        offsets[i + 1] = written
    return np.int64(-1)


def hex_plain(text):
    """`parse_hex`: bytes.fromhex(), which would also allow blanks."""
    if not text.startswith("\\x") or any(letter.isspace() for letter in text):
        refuse()
    return bytes.fromhex(text[2:])
