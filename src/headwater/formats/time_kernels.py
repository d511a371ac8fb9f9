"""Kernels for dates and times: proleptic Gregorian calendar, years as Java writes them.

Conventions as in `kernels.py`.
"""
# Functions compiled by Numba carry no Python types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs

import numpy as np
from numba import njit, types

from headwater.formats.kernels import BYTES, ENDS, LONGS, OUT
from headwater.formats.number_kernels import put_padded, put_unsigned

DAY = 86_400_000_000
PLUS_INFINITY = np.iinfo(np.int64).max
MINUS_INFINITY = np.iinfo(np.int64).min


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
    at = put_padded(out, at, year, 4) if year <= 9999 else put_unsigned(out, at, np.uint64(year))
    out[at] = 45
    at = put_padded(out, at + 1, month, 2)
    out[at] = 45
    return put_padded(out, at + 1, day_of_month, 2)


@njit(types.int64(OUT, types.int64, types.int64, types.int64), nogil=True, cache=True)
def _put_clock(out, at, micros, fraction):
    """`HH:MM:SS` and `fraction` digits of the second; -1 = as many as are needed."""
    seconds = micros // 1_000_000
    at = put_padded(out, at, seconds // 3600, 2)
    out[at] = 58
    at = put_padded(out, at + 1, seconds // 60 % 60, 2)
    out[at] = 58
    at = put_padded(out, at + 1, seconds % 60, 2)
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
        at = put_padded(out, at + 1, rest, fraction)
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
