"""Kernels that turn the values of one column into typed ones, beside the plain twin of each.

Every kernel takes the bytes, and where each value starts and how long it is (negative: no value, leave what `out`
has), and fills `out`. Those that can be given nonsense return the index of the first value they cannot read, or
-1. A twin takes the bytes of one value; the tests hold both to the same answers. Dates and times are in
`time_kernels.py`; `values.py` wraps all of it in Arrow.
"""
# Functions compiled by Numba carry no Python types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs

from __future__ import annotations

from uuid import UUID

import numpy as np
from numba import njit

from headwater.compiled import kernel

# data, starts, lengths. Read-only arrays (bytes from a file) are welcome; so are writable ones.
VALUES = "Array(u1, 1, 'C', readonly=True), Array(i8, 1, 'C', readonly=True), Array(i4, 1, 'C', readonly=True)"

# --- whole numbers


@kernel(f"i8({VALUES}, i8[::1], b1, b1)")
def read_int(data, starts, lengths, out, signed, big_endian):
    """Numbers of one to eight bytes."""
    for i in range(lengths.size):
        length = lengths[i]
        if length < 0:
            continue
        if length == 0 or length > 8:
            return np.int64(i)
        number = np.uint64(0)
        for k in range(length):
            place = k if big_endian else length - 1 - k
            number = number << np.uint64(8) | np.uint64(data[starts[i] + place])
        if signed and length < 8 and number >> np.uint64(8 * length - 1):
            out[i] = np.int64(number) - (np.int64(1) << np.int64(8 * length))
        else:
            out[i] = np.int64(number)
    return np.int64(-1)


def int_plain(raw, signed, big_endian):
    """`read_int`; what 64 signed bits cannot hold wraps."""
    number = int.from_bytes(raw, "big" if big_endian else "little", signed=signed)
    return number - (1 << 64) if number >= 1 << 63 else number


@kernel(f"i8({VALUES}, i8, u1[::1])")
def read_fixed(data, starts, lengths, width, out):
    """Values of `width` bytes, end to end: floats as they are."""
    for i in range(lengths.size):
        if lengths[i] < 0:
            continue
        if lengths[i] != width:
            return np.int64(i)
        for k in range(width):
            out[i * width + k] = data[starts[i] + k]
    return np.int64(-1)


# --- texts and bytes


@kernel(f"void({VALUES}, i4[::1], u1[::1])")
def gather(data, starts, lengths, offsets, out):
    """The bytes of all values end to end, and where each begins."""
    at = 0
    for i in range(lengths.size):
        offsets[i] = at
        if lengths[i] > 0:
            begin = starts[i]
            for k in range(lengths[i]):
                out[at + k] = data[begin + k]
            at += lengths[i]
    offsets[lengths.size] = at


@kernel(f"i8({VALUES}, i8, i4[::1], u1[::1])")
def gather_padded(data, starts, lengths, width, offsets, out):
    """BINARY(n): the log leaves out zero bytes at the end."""
    at = 0
    for i in range(lengths.size):
        offsets[i] = at
        if lengths[i] < 0:
            continue
        if lengths[i] > width:
            return np.int64(i)
        for k in range(width):
            out[at + k] = data[starts[i] + k] if k < lengths[i] else 0
        at += width
    offsets[lengths.size] = at
    return np.int64(-1)


# --- decimals: groups of nine digits in four bytes, the sign in the first bit, all bits turned when negative


@njit(nogil=True, cache=True)
def _digit_bytes(digits):
    return (digits + 1) // 2 if digits < 7 else 4


@njit(nogil=True, cache=True)
def _group(data, at, size, first, mask):
    """One group's number; `first` is where the sign bit is."""
    number = np.int64(0)
    for k in range(size):
        byte = data[at + k] ^ mask
        if at + k == first:
            byte ^= np.uint8(0x80)
        number = number << 8 | np.int64(byte)
    return number


@kernel(f"i8({VALUES}, u8[::1], i8, i8)")
def read_decimal(data, starts, lengths, out, digits, scale):
    """DECIMAL(digits, scale) of the log as 128-bit integers, low word first. Up to 38 digits."""
    whole = digits - scale
    low32 = np.uint64(0xFFFFFFFF)
    for i in range(lengths.size):
        if lengths[i] < 0:
            continue
        at = starts[i]
        first = at
        end = at + lengths[i]
        negative = not data[at] & 0x80
        mask = np.uint8(0xFF) if negative else np.uint8(0)
        low, high = np.uint64(0), np.uint64(0)
        for side in range(2):
            left = whole % 9 if side == 0 else scale
            groups = whole // 9 + (1 if whole % 9 else 0) if side == 0 else (scale + 8) // 9
            for g in range(groups):
                if side == 0:
                    count = left if g == 0 and left else 9
                else:
                    count = min(9, scale - 9 * g)
                size = _digit_bytes(count)
                if at + size > end:
                    return np.int64(i)
                number = np.uint64(_group(data, at, size, first, mask))
                at += size
                power = np.uint64(1)
                for _ in range(count):
                    power *= np.uint64(10)
                if number >= power:
                    return np.int64(i)
                # (high, low) * power + number, by halves of 32 bits
                part = (low & low32) * power + number
                word = part & low32
                part = (low >> np.uint64(32)) * power + (part >> np.uint64(32))
                low = word | (part & low32) << np.uint64(32)
                high = high * power + (part >> np.uint64(32))
        if at != end:
            return np.int64(i)
        if negative:
            low = ~low + np.uint64(1)
            high = ~high + (np.uint64(1) if low == 0 else np.uint64(0))
        out[2 * i] = low
        out[2 * i + 1] = high
    return np.int64(-1)


def decimal_plain(raw: bytes, digits: int, scale: int) -> str:
    """`read_decimal`, for any number of digits: the number as the server prints it."""
    negative = not raw[0] & 0x80
    data = bytes([raw[0] ^ 0x80, *raw[1:]])
    if negative:
        data = bytes(byte ^ 0xFF for byte in data)
    sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
    whole = digits - scale
    groups = ([whole % 9] if whole % 9 else []) + [9] * (whole // 9)
    groups += [9] * (scale // 9) + ([scale % 9] if scale % 9 else [])
    at, shown = 0, ""
    for count in groups:
        number = int.from_bytes(data[at : at + sizes[count]])
        if number >= 10**count:
            raise ValueError("not a decimal")
        shown += f"{number:0{count}}"
        at += sizes[count]
    if at != len(data):
        raise ValueError("not a decimal")
    left, right = shown[:whole].lstrip("0") or "0", shown[whole:]
    return ("-" if negative else "") + left + ("." + right if right else "")


@kernel(f"i8({VALUES}, u8[::1], i8)")
def parse_decimal(data, starts, lengths, out, scale):
    """Decimal text as a result has it, with exactly `scale` digits behind the point, as 128-bit integers."""
    low32 = np.uint64(0xFFFFFFFF)
    ten = np.uint64(10)
    for i in range(lengths.size):
        if lengths[i] < 0:
            continue
        at = starts[i]
        end = at + lengths[i]
        negative = at < end and data[at] == 45
        if negative:
            at += 1
        low, high = np.uint64(0), np.uint64(0)
        seen, point, behind = 0, False, 0
        while at < end:
            if data[at] == 46 and not point:
                point = True
            else:
                digit = data[at] - np.uint8(48)
                if digit > 9:
                    return np.int64(i)
                part = (low & low32) * ten + np.uint64(digit)
                word = part & low32
                part = (low >> np.uint64(32)) * ten + (part >> np.uint64(32))
                low = word | (part & low32) << np.uint64(32)
                high = high * ten + (part >> np.uint64(32))
                if seen or digit:
                    seen += 1
                if point:
                    behind += 1
            at += 1
        if seen > 38 or behind != scale or lengths[i] == (1 if negative else 0):
            return np.int64(i)
        if negative:
            low = ~low + np.uint64(1)
            high = ~high + (np.uint64(1) if low == 0 else np.uint64(0))
        out[2 * i] = low
        out[2 * i + 1] = high
    return np.int64(-1)


def decimal_text_plain(text, scale):
    """`parse_decimal`: the digits as one integer."""
    digits = text.removeprefix("-").replace(".", "", 1)
    if not digits.isdigit() or len(text.partition(".")[2]) != scale:
        raise ValueError("not a decimal")
    return int(text.replace(".", "", 1))


# --- UUIDs of MariaDB


@kernel(f"i8({VALUES}, u1[::1])")
def uuid_text(data, starts, lengths, out):
    """16 bytes as 36 letters. The log leaves out zero bytes at the end."""
    for i in range(lengths.size):
        if lengths[i] < 0:
            continue
        if lengths[i] > 16:
            return np.int64(i)
        at = 36 * i
        for k in range(16):
            byte = data[starts[i] + k] if k < lengths[i] else np.uint8(0)
            if k == 4 or k == 6 or k == 8 or k == 10:
                out[at] = 45
                at += 1
            high, low = byte >> 4, byte & 15
            out[at] = high + (48 if high < 10 else 87)
            out[at + 1] = low + (48 if low < 10 else 87)
            at += 2
    return np.int64(-1)


def uuid_plain(raw):
    """`uuid_text`."""
    return str(UUID(bytes=raw.ljust(16, b"\0")))
