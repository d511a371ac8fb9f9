"""Kernels for decimal numbers of up to 128 bits. Conventions as in `kernels.py`."""
# Functions compiled by Numba carry no Python types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs

import numpy as np
from numba import njit, types

from headwater.formats.kernels import BYTES, ENDS, LONGS, OUT
from headwater.formats.text_kernels import BASE64, put_base64


@njit(types.int64(LONGS, OUT, ENDS), nogil=True, cache=True)
def decimal_base64(words, out, ends):
    """128-bit integers (low word, high word) as quoted base64 of the shortest big-endian two's complement.

    That is Java's BigInteger.toByteArray, which Connect's Decimal carries. At most 26 bytes a row."""
    big = np.empty(16, np.uint8)
    at = 0
    for row in range(words.size // 2):
        low = np.uint64(words[2 * row])
        high = np.uint64(words[2 * row + 1])
        for i in range(8):
            big[15 - i] = np.uint8((low >> np.uint64(8 * i)) & np.uint64(255))
            big[7 - i] = np.uint8((high >> np.uint64(8 * i)) & np.uint64(255))
        begin = 0
        while begin < 15 and (
            (big[begin] == 0 and big[begin + 1] < 128) or (big[begin] == 255 and big[begin + 1] >= 128)
        ):
            begin += 1
        out[at] = 34
        at = put_base64(big, begin, 16, BASE64, out, at + 1)
        out[at] = 34
        at += 1
        ends[row + 1] = at
    return at


@njit(types.int64(types.uint64, types.uint64, OUT), nogil=True, cache=True)
def _digits_of(low, high, digits):
    """Decimal digits of a 128-bit number, last one first; returns how many, none for 0."""
    count = 0
    if high == np.uint64(0):
        while low != np.uint64(0):
            digits[count] = 48 + np.int64(low % np.uint64(10))
            low //= np.uint64(10)
            count += 1
        return count
    mask = np.uint64(0xFFFFFFFF)
    limbs = np.empty(4, np.uint64)
    limbs[0] = high >> np.uint64(32)
    limbs[1] = high & mask
    limbs[2] = low >> np.uint64(32)
    limbs[3] = low & mask
    # 38 digits at most, nine a round: long division by 10^9, limb by limb.
    for _ in range(5):
        rest = np.uint64(0)
        for i in range(4):
            part = (rest << np.uint64(32)) | limbs[i]
            limbs[i] = part // np.uint64(1_000_000_000)
            rest = part % np.uint64(1_000_000_000)
        left = np.int64(rest)
        for _ in range(9):
            if count < 40:
                digits[count] = 48 + left % 10
                count += 1
            left //= 10
    while count > 0 and digits[count - 1] == 48:
        count -= 1
    return count


@njit(types.int64(OUT, types.int64, types.int64, OUT, types.int64), nogil=True, cache=True)
def _put_scaled(digits, count, scale, out, at):
    """`count` digits, last one first, with a point before the last `scale` of them."""
    if count <= scale or count == 0:
        out[at] = 48
        at += 1
    for i in range(count - 1, max(scale, 0) - 1, -1):
        out[at] = digits[i]
        at += 1
    if scale > 0:
        out[at] = 46
        at += 1
        for i in range(scale - 1, -1, -1):
            out[at] = digits[i] if i < count else 48
            at += 1
    elif count > 0:
        for _ in range(-scale):
            out[at] = 48
            at += 1
    return at


@njit(types.int64(LONGS, types.int64, types.int64, OUT, ENDS), nogil=True, cache=True)
def decimal_text(words, scale, quote, out, ends):
    """128-bit integers with `scale` digits after the point, never in scientific notation.

    At most 42 + abs(scale) bytes a row; in quotes when `quote` is not 0."""
    digits = np.empty(40, np.uint8)
    at = 0
    for row in range(words.size // 2):
        low = np.uint64(words[2 * row])
        high = np.uint64(words[2 * row + 1])
        if quote != 0:
            out[at] = 34
            at += 1
        if words[2 * row + 1] < 0:
            low = ~low + np.uint64(1)
            high = ~high + (np.uint64(1) if low == np.uint64(0) else np.uint64(0))
            out[at] = 45
            at += 1
        at = _put_scaled(digits, _digits_of(low, high, digits), scale, out, at)
        if quote != 0:
            out[at] = 34
            at += 1
        ends[row + 1] = at
    return at


@njit(types.void(BYTES, LONGS, types.int64, types.int64, ENDS, ENDS), nogil=True, cache=True)
def number_words(data, offsets, scale, fixed, words, scales):
    """Decimal texts as 128-bit integers and scales, as long as they fit 64 bits.

    With `fixed` the digits are brought to `scale`; otherwise trailing zeros go and the scale is what is
    left, never negative. A row that is too long for 64 bits or no plain number gets the scale -1."""
    for row in range(offsets.size - 1):
        i = offsets[row]
        end = offsets[row + 1]
        negative = i < end and data[i] == 45
        if negative:
            i += 1
        value = 0
        digits = 0
        behind = 0
        point = False
        good = i < end
        while i < end and good:
            byte = np.int64(data[i])
            if byte == 46 and not point:
                point = True
            elif 48 <= byte <= 57:
                value = value * 10 + byte - 48
                digits += value != 0
                behind += point
                good = digits <= 18
            else:
                good = False
            i += 1
        if fixed != 0:
            while good and behind < scale:
                value *= 10
                behind += 1
                digits += 1
                good = digits <= 18
            good = good and behind == scale
        else:
            while behind > 0 and value % 10 == 0:
                value //= 10
                behind -= 1
        if not good:
            scales[row] = -1
            words[2 * row] = 0
            words[2 * row + 1] = 0
            continue
        if negative:
            value = -value
        scales[row] = behind
        words[2 * row] = value
        words[2 * row + 1] = -1 if value < 0 else 0
