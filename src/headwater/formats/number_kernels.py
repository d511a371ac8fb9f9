"""Kernels for numbers: integers, floats, log addresses. Conventions as in `kernels.py`."""
# Functions compiled by Numba carry no Python types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs

import numpy as np
from numba import njit, types

from headwater.formats.kernels import BYTES, ENDS, LONGS, OUT
from headwater.formats.text_kernels import HEX_UPPER

DIGIT_PAIRS = np.frombuffer("".join(f"{n:02d}" for n in range(100)).encode(), dtype=np.uint8)


@njit(types.int64(OUT, types.int64, types.uint64), nogil=True, cache=True)
def put_unsigned(out, at, value):
    """Decimal digits of `value` at `at`; returns where they end. Two digits a step."""
    digits = 1
    bound = np.uint64(10)
    while digits < 20 and value >= bound:
        digits += 1
        if digits < 20:
            bound *= np.uint64(10)
    end = at + digits
    place = end
    hundred = np.uint64(100)
    while value >= hundred:
        rest = np.int64(value % hundred) * 2
        value //= hundred
        place -= 2
        out[place] = DIGIT_PAIRS[rest]
        out[place + 1] = DIGIT_PAIRS[rest + 1]
    rest = np.int64(value) * 2
    if place - at == 2:
        out[at] = DIGIT_PAIRS[rest]
    out[place - 1] = DIGIT_PAIRS[rest + 1]
    return end


@njit(types.int64(OUT, types.int64, types.int64), nogil=True, cache=True)
def put_signed(out, at, value):
    """Decimal digits of a signed number, the lowest one included."""
    if value < 0:
        out[at] = 45
        return put_unsigned(out, at + 1, np.uint64(-(value + 1)) + np.uint64(1))
    return put_unsigned(out, at, np.uint64(value))


@njit(types.int64(OUT, types.int64, types.int64, types.int64), nogil=True, cache=True)
def put_padded(out, at, value, width):
    """A non-negative number with leading zeros up to `width`."""
    place = at + width
    while place > at:
        place -= 1
        out[place] = 48 + value % 10
        value //= 10
    return at + width


@njit(types.int64(LONGS, OUT, ENDS), nogil=True, cache=True)
def int_text(values, out, ends):
    """Whole numbers. At most 20 bytes a row."""
    at = 0
    for row in range(values.size):
        at = put_signed(out, at, values[row])
        ends[row + 1] = at
    return at


@njit(types.int64(LONGS, OUT, ENDS), nogil=True, cache=True)
def lsn_text(values, out, ends):
    """64-bit log addresses as PostgreSQL prints them: two quoted hexadecimal halves, `"16/B374D848"`."""
    at = 0
    for row in range(values.size):
        value = np.uint64(values[row])
        out[at] = 34
        at += 1
        for half in range(2):
            part = np.int64(value >> np.uint64(32)) if half == 0 else np.int64(value & np.uint64(0xFFFFFFFF))
            shift = 28
            while shift > 0 and part >> shift == 0:
                shift -= 4
            while shift >= 0:
                out[at] = HEX_UPPER[(part >> shift) & 15]
                at += 1
                shift -= 4
            out[at] = 47 if half == 0 else 34
            at += 1
        ends[row + 1] = at
    return at


@njit(types.int64(OUT, types.int64, types.int64), nogil=True, cache=True)
def _put_special(out, at, first):
    """`NaN"` or `Infinity"`, told apart by the first letter that Arrow prints."""
    for letter in b"NaN" if first == 110 else b"Infinity":
        out[at] = letter
        at += 1
    out[at] = 34
    return at + 1


@njit(types.UniTuple(types.int64, 2)(BYTES, types.int64, types.int64, OUT), nogil=True, cache=True)
def _float_digits(data, i, end, digits):
    """(how many digits, power of ten of the first) of a number in any notation; zeros at both ends are gone."""
    count = 0
    # How many of the digits stand before the decimal point, leading zeros not counted.
    point = 0
    behind = False
    exponent = 0
    while i < end:
        byte = data[i]
        if byte == 46:
            behind = True
        elif byte == 101:
            minus = data[i + 1] == 45
            i += 2 if minus or data[i + 1] == 43 else 1
            while i < end:
                exponent = exponent * 10 + (np.int64(data[i]) - 48)
                i += 1
            exponent = -exponent if minus else exponent
        elif byte == 48 and count == 0:
            point -= behind
        else:
            digits[count] = byte
            count += 1
            point += not behind
        i += 1
    while count > 1 and digits[count - 1] == 48:
        count -= 1
    return count, point + exponent - 1


@njit(types.int64(OUT, types.int64, types.int64, OUT, types.int64), nogil=True, cache=True)
def _put_java(digits, count, power, out, at):
    """Decimal notation from 10^-3 up to 10^7, always with a digit behind the point; `1.0E21` beyond."""
    if count == 0:
        power = 0
    scientific = power < -3 or power >= 7
    # Digits before the point: all up to 10^0, or the first alone.
    whole = 1 if scientific else max(power + 1, 1)
    skip = -power if not scientific and power < 0 else 0
    for k in range(whole):
        out[at] = digits[k] if skip == 0 and k < count else 48
        at += 1
    out[at] = 46
    at += 1
    for _ in range(skip - 1):
        out[at] = 48
        at += 1
    first = whole if skip == 0 else 0
    for k in range(first, count):
        out[at] = digits[k]
        at += 1
    if first >= count:
        out[at] = 48
        at += 1
    if scientific:
        out[at] = 69
        at = put_signed(out, at + 1, power)
    return at


@njit(types.int64(BYTES, LONGS, OUT, ENDS), nogil=True, cache=True)
def float_text(data, offsets, out, ends):
    """Floats in Java's form, from the shortest digits as Arrow prints them (`1e+21`, `0.1`, `nan`).

    NaN and infinities are quoted words. At most the input's length + 10 bytes a row."""
    digits = np.empty(400, np.uint8)
    at = 0
    for row in range(offsets.size - 1):
        i = offsets[row]
        negative = data[i] == 45
        i += negative
        special = data[i] == 110 or data[i] == 105
        if special:
            out[at] = 34
            at += 1
        if negative:
            out[at] = 45
            at += 1
        if special:
            at = _put_special(out, at, data[i])
        else:
            count, power = _float_digits(data, i, offsets[row + 1], digits)
            at = _put_java(digits, count, power, out, at)
        ends[row + 1] = at
    return at
