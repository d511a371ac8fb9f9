"""JSON text from columns, compiled: each kernel writes one value after the other into one byte buffer.

A text column is `out` (the bytes, end to end) and `ends` (ends[0] = 0, ends[i + 1] = where row i ends). The
caller sizes `out` for the worst case; the kernel fills it from the front, so nothing is measured twice.
`plain.py` holds the slow twin of every kernel here; the tests hold the two together.
"""

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

# Inputs are Arrow's own buffers, which NumPy sees as read-only.
BYTES = types.Array(types.uint8, 1, "C", readonly=True)
LONGS = types.Array(types.int64, 1, "C", readonly=True)
OUT = types.Array(types.uint8, 1, "C")
ENDS = types.Array(types.int64, 1, "C")

# What `state` says of a row: write its text, the text for null, the placeholder of a value the log left out.
# FAILED rows are settled (an error, or null) before any text is put together.
VALUE, NULL, UNAVAILABLE, FAILED = 0, 1, 2, 3

DIGIT_PAIRS = np.frombuffer("".join(f"{n:02d}" for n in range(100)).encode(), dtype=np.uint8)
BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8)
BASE64_URL = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", dtype=np.uint8)
HEX_UPPER = np.frombuffer(b"0123456789ABCDEF", dtype=np.uint8)
HEX_LOWER = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)

# What JSON makes of a byte: 0 = itself, "u" = a \u00XX escape, anything else = a backslash and that letter.
ESCAPES = np.zeros(256, dtype=np.uint8)
ESCAPES[:32] = ord("u")
for _byte, _letter in {8: "b", 9: "t", 10: "n", 12: "f", 13: "r", 34: '"', 92: "\\"}.items():
    ESCAPES[_byte] = ord(_letter)

DAY = 86_400_000_000
PLUS_INFINITY = np.iinfo(np.int64).max
MINUS_INFINITY = np.iinfo(np.int64).min


@intrinsic
def _copy(typing, target, at, source, begin, size):  # noqa: ARG001 - Numba's signature
    """memcpy of `size` bytes. A loop over bytes takes 84 ns for 150 bytes, this 12 ns."""

    def generate(context, builder, signature, arguments):
        target, at, source, begin, size = arguments
        to_array = context.make_array(signature.args[0])(context, builder, target)
        from_array = context.make_array(signature.args[2])(context, builder, source)
        to = builder.gep(to_array.data, [at])
        origin = builder.gep(from_array.data, [begin])
        cgutils.raw_memcpy(builder, to, origin, size, 1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@njit(types.int64(OUT, types.int64, types.uint64), nogil=True, cache=True)
def _put_unsigned(out, at, value):
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
def _put_signed(out, at, value):
    if value < 0:
        out[at] = 45
        return _put_unsigned(out, at + 1, np.uint64(-(value + 1)) + np.uint64(1))
    return _put_unsigned(out, at, np.uint64(value))


@njit(types.int64(OUT, types.int64, types.int64, types.int64), nogil=True, cache=True)
def _put_padded(out, at, value, width):
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
        at = _put_signed(out, at, values[row])
        ends[row + 1] = at
    return at


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
def _put_base64(data, begin, end, alphabet, out, at):
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
        at = _put_base64(data, offsets[row], offsets[row + 1], alphabet, out, at + 1)
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
        at = _put_base64(big, begin, 16, BASE64, out, at + 1)
        out[at] = 34
        at += 1
        ends[row + 1] = at
    return at


@njit(types.int64(LONGS, types.int64, types.int64, OUT, ENDS), nogil=True, cache=True)
def decimal_text(words, scale, quote, out, ends):
    """128-bit integers with `scale` digits after the point, never in scientific notation.

    At most 42 + abs(scale) bytes a row; in quotes when `quote` is not 0."""
    digits = np.empty(40, np.uint8)
    limbs = np.empty(4, np.uint64)
    mask = np.uint64(0xFFFFFFFF)
    at = 0
    for row in range(words.size // 2):
        low = np.uint64(words[2 * row])
        high = np.uint64(words[2 * row + 1])
        negative = words[2 * row + 1] < 0
        if negative:
            low = ~low + np.uint64(1)
            high = ~high
            if low == np.uint64(0):
                high += np.uint64(1)
        count = 0
        if high == np.uint64(0):
            while low != np.uint64(0):
                digits[count] = 48 + np.int64(low % np.uint64(10))
                low //= np.uint64(10)
                count += 1
        else:
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
        if quote != 0:
            out[at] = 34
            at += 1
        if negative:
            out[at] = 45
            at += 1
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
        if quote != 0:
            out[at] = 34
            at += 1
        ends[row + 1] = at
    return at


@njit(types.int64(BYTES, LONGS, OUT, ENDS), nogil=True, cache=True)
def float_text(data, offsets, out, ends):
    """Floats in Java's form, from the shortest digits as Arrow prints them (`1e+21`, `0.1`, `nan`).

    Decimal notation from 10^-3 up to 10^7, always with a point; `1.0E21` beyond; NaN and infinities are
    quoted words. At most the input's length + 10 bytes a row."""
    digits = np.empty(400, np.uint8)
    at = 0
    for row in range(offsets.size - 1):
        i = offsets[row]
        end = offsets[row + 1]
        negative = data[i] == 45
        if negative:
            i += 1
        if data[i] == 110 or data[i] == 105:
            word = b"NaN" if data[i] == 110 else b"Infinity"
            out[at] = 34
            at += 1
            if negative:
                out[at] = 45
                at += 1
            for letter in word:
                out[at] = letter
                at += 1
            out[at] = 34
            at += 1
            ends[row + 1] = at
            continue
        count = 0
        # `point` = how many of the digits stand before the decimal point, leading zeros not counted.
        point = 0
        behind = False
        exponent = 0
        while i < end:
            byte = data[i]
            if byte == 46:
                behind = True
            elif byte == 101:
                i += 1
                minus = data[i] == 45
                if minus or data[i] == 43:
                    i += 1
                while i < end:
                    exponent = exponent * 10 + (np.int64(data[i]) - 48)
                    i += 1
                if minus:
                    exponent = -exponent
                break
            elif byte == 48 and count == 0:
                if behind:
                    point -= 1
            else:
                digits[count] = byte
                count += 1
                if not behind:
                    point += 1
            i += 1
        while count > 1 and digits[count - 1] == 48:
            count -= 1
        if negative:
            out[at] = 45
            at += 1
        if count == 0:
            out[at] = 48
            out[at + 1] = 46
            out[at + 2] = 48
            at += 3
            ends[row + 1] = at
            continue
        power = point + exponent - 1
        if -3 <= power < 7:
            if power < 0:
                out[at] = 48
                out[at + 1] = 46
                at += 2
                for _ in range(-power - 1):
                    out[at] = 48
                    at += 1
                for k in range(count):
                    out[at] = digits[k]
                    at += 1
            else:
                for k in range(power + 1):
                    out[at] = digits[k] if k < count else 48
                    at += 1
                out[at] = 46
                at += 1
                if count <= power + 1:
                    out[at] = 48
                    at += 1
                for k in range(power + 1, count):
                    out[at] = digits[k]
                    at += 1
        else:
            out[at] = digits[0]
            out[at + 1] = 46
            at += 2
            if count == 1:
                out[at] = 48
                at += 1
            for k in range(1, count):
                out[at] = digits[k]
                at += 1
            out[at] = 69
            at = _put_signed(out, at + 1, power)
        ends[row + 1] = at
    return at


@njit(types.int64(OUT, types.int64, types.int64), nogil=True, cache=True)
def _put_date(out, at, days):
    """`YYYY-MM-DD` of a day since 1970-01-01 in the proleptic Gregorian calendar, years as Java writes them."""
    # Count from 0000-03-01 in eras of 400 years, so that the leap day is the last day of a year.
    shifted = days + 719_468
    era = shifted // 146_097
    day = shifted - era * 146_097
    year_of_era = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day_of_year = day - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day_of_month = day_of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    if year < 0:
        out[at] = 45
        at += 1
        year = -year
    elif year > 9999:
        out[at] = 43
        at += 1
    at = _put_padded(out, at, year, 4) if year <= 9999 else _put_unsigned(out, at, np.uint64(year))
    out[at] = 45
    at = _put_padded(out, at + 1, month, 2)
    out[at] = 45
    return _put_padded(out, at + 1, day_of_month, 2)


@njit(types.int64(OUT, types.int64, types.int64, types.int64), nogil=True, cache=True)
def _put_clock(out, at, micros, fraction):
    """`HH:MM:SS` and `fraction` digits of the second; -1 = as many as are needed."""
    seconds = micros // 1_000_000
    at = _put_padded(out, at, seconds // 3600, 2)
    out[at] = 58
    at = _put_padded(out, at + 1, seconds // 60 % 60, 2)
    out[at] = 58
    at = _put_padded(out, at + 1, seconds % 60, 2)
    rest = micros % 1_000_000
    if fraction < 0:
        fraction = 6 if rest else 0
        while fraction > 0 and rest % 10 == 0:
            rest //= 10
            fraction -= 1
    else:
        for _ in range(6 - fraction):
            rest //= 10
    if fraction > 0:
        out[at] = 46
        at = _put_padded(out, at + 1, rest, fraction)
    return at


@njit(types.int64(LONGS, types.int64, types.int64, BYTES, BYTES, OUT, ENDS), nogil=True, cache=True)
def timestamp_text(values, fraction, zone, plus_infinity, minus_infinity, out, ends):
    """Microseconds since the epoch as quoted ISO 8601, with a `Z` behind when `zone` is not 0; the two infinities
    as the given words.

    At most 40 bytes a row."""
    at = 0
    for row in range(values.size):
        value = values[row]
        out[at] = 34
        at += 1
        if value == PLUS_INFINITY:
            for byte in plus_infinity:
                out[at] = byte
                at += 1
        elif value == MINUS_INFINITY:
            for byte in minus_infinity:
                out[at] = byte
                at += 1
        else:
            day = value // DAY
            at = _put_date(out, at, day)
            out[at] = 84
            at = _put_clock(out, at + 1, value - day * DAY, fraction)
            if zone != 0:
                out[at] = 90
                at += 1
        out[at] = 34
        at += 1
        ends[row + 1] = at
    return at


@njit(types.int64(LONGS, types.int64, OUT, ENDS), nogil=True, cache=True)
def date_text(days, zone, out, ends):
    """Days since the epoch as quoted ISO dates, with a `Z` behind when `zone` is not 0. At most 24 bytes."""
    at = 0
    for row in range(days.size):
        out[at] = 34
        at = _put_date(out, at + 1, days[row])
        if zone != 0:
            out[at] = 90
            at += 1
        out[at] = 34
        at += 1
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


@njit(types.int64(LONGS, BYTES, LONGS, LONGS, BYTES, OUT, ENDS), nogil=True, cache=True)
def list_text(lists, data, begins, stops, state, out, ends):
    """JSON arrays from element texts: list i holds elements lists[i] up to lists[i + 1]."""
    at = 0
    for row in range(lists.size - 1):
        out[at] = 91
        at += 1
        for element in range(lists[row], lists[row + 1]):
            if element > lists[row]:
                out[at] = 44
                at += 1
            if state.size and state[element] != VALUE:
                for letter in b"null":
                    out[at] = letter
                    at += 1
            else:
                size = stops[element] - begins[element]
                _copy(out, at, data, begins[element], size)
                at += size
        out[at] = 93
        at += 1
        ends[row + 1] = at
    return at


@njit(types.void(ENDS, types.int64, LONGS, LONGS, BYTES, types.int64, types.int64), nogil=True, cache=True)
def add_sizes(sizes, literal, begins, ends, state, null, unavailable):
    """Add to every row's size what `put` will write for it."""
    if state.size == 0:
        for row in range(sizes.size):
            sizes[row] += literal + ends[row] - begins[row]
        return
    for row in range(sizes.size):
        if state[row] == VALUE:
            sizes[row] += literal + ends[row] - begins[row]
        elif state[row] == UNAVAILABLE:
            sizes[row] += literal + unavailable
        else:
            sizes[row] += literal + null


@njit(types.void(OUT, ENDS, BYTES, BYTES, LONGS, LONGS, BYTES, BYTES, BYTES), nogil=True, cache=True)
def put(out, cursor, literal, data, begins, ends, state, null, unavailable):
    """Write, in every row, a literal and then the row's text; `cursor` says where each row's text goes on."""
    for row in range(cursor.size):
        at = cursor[row]
        _copy(out, at, literal, 0, literal.size)
        at += literal.size
        kind = state[row] if state.size else VALUE
        if kind == VALUE:
            size = ends[row] - begins[row]
            _copy(out, at, data, begins[row], size)
        elif kind == UNAVAILABLE:
            size = unavailable.size
            _copy(out, at, unavailable, 0, size)
        else:
            size = null.size
            _copy(out, at, null, 0, size)
        at += size
        cursor[row] = at


@njit(types.void(BYTES, LONGS, ENDS), nogil=True, cache=True)
def clock_micros(data, offsets, values):
    """Microseconds since midnight of `HH:MM:SS[.ffffff]`; -1 where the text is not of that form."""
    for row in range(offsets.size - 1):
        begin = offsets[row]
        size = offsets[row + 1] - begin
        values[row] = -1
        if size < 8 or size == 9 or size > 15 or data[begin + 2] != 58 or data[begin + 5] != 58:
            continue
        total = 0
        good = True
        for part in range(3):
            tens = np.int64(data[begin + 3 * part]) - 48
            ones = np.int64(data[begin + 3 * part + 1]) - 48
            good &= 0 <= tens <= 9 and 0 <= ones <= 9
            total = total * 60 + tens * 10 + ones
        micros = 0
        if size > 8:
            good &= data[begin + 8] == 46
            for i in range(6):
                digit = np.int64(data[begin + 9 + i]) - 48 if 9 + i < size else 0
                good &= 0 <= digit <= 9
                micros = micros * 10 + digit
        if good:
            values[row] = total * 1_000_000 + micros


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


@njit(types.Array(types.boolean, 1, "C")(BYTES, LONGS, LONGS, BYTES, LONGS, LONGS), nogil=True, cache=True)
def same_text(data, begins, ends, other, other_begins, other_ends):
    """Where two text columns agree."""
    same = np.zeros(begins.size, np.bool_)
    for row in range(begins.size):
        size = ends[row] - begins[row]
        equal = size == other_ends[row] - other_begins[row]
        i = 0
        while equal and i < size:
            equal = data[begins[row] + i] == other[other_begins[row] + i]
            i += 1
        same[row] = equal
    return same
