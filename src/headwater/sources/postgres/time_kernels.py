"""Kernels for dates and timestamps, beside the plain twin of each.

The calendar is the proleptic Gregorian one, as on the server; years before 1 carry ` BC`. Conventions as in
`value_kernels.py`.
"""
# Functions compiled by Numba carry no Python types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs

from __future__ import annotations

from datetime import date as civil_date

import numpy as np
from numba import njit

from headwater.compiled import kernel
from headwater.sources.postgres.value_kernels import VALUES, refuse

INFINITY = np.iinfo(np.int64).max
MINUS_INFINITY = np.iinfo(np.int64).min
DATE_INFINITY = np.iinfo(np.int32).max
DATE_MINUS_INFINITY = np.iinfo(np.int32).min

# Microseconds of 1970-01-01 + 106,751,991 days and a part of a day are the last that int64 holds.
_LAST_DAY = 106_751_991
_LAST_DAY_MICROS = 14_454_775_807
_DAY_MICROS = 86_400_000_000


@njit(nogil=True, inline="always")
def _two_digits(data, at):
    """The number at `at`, or 255 when these are not two digits."""
    tens = data[at] - np.uint8(48)
    ones = data[at + 1] - np.uint8(48)
    return np.int64(tens) * 10 + np.int64(ones) if tens <= 9 and ones <= 9 else np.int64(255)


@njit(nogil=True)
def _word(data, at, length):
    """1 for `infinity`, -1 for `-infinity`, 0 for anything else."""
    sign = np.int64(1)
    if length == 9 and data[at] == 45:
        sign = np.int64(-1)
        at += 1
        length -= 1
    if length != 8:
        return np.int64(0)
    word = (105, 110, 102, 105, 110, 105, 116, 121)
    for k in range(8):
        if data[at + k] != word[k]:
            return np.int64(0)
    return sign


@njit(nogil=True)
def _civil_days(data, at, end, era):
    """Days since 1970-01-01 of the `year-month-day` at `at`, and where it ends (-1: it is none).

    `era` is true for BC. The years of the server's text have at least four digits. The arithmetic counts
    in years that begin in March, in cycles of 400 years of 146,097 days."""
    year = np.int64(0)
    first = at
    while at < end and data[at] >= 48 and data[at] <= 57 and at - first < 8:
        year = year * 10 + np.int64(data[at] - np.uint8(48))
        at += 1
    if at - first < 4 or end - at < 6 or data[at] != 45 or data[at + 3] != 45 or year == 0:
        return np.int64(0), np.int64(-1)
    month = _two_digits(data, at + 1)
    day = _two_digits(data, at + 4)
    if era:
        year = 1 - year
    if month < 1 or month > 12 or day < 1 or day > 31:
        return np.int64(0), np.int64(-1)
    if day > 28:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        longest = 31
        if month == 2:
            longest = 29 if leap else 28
        elif month == 4 or month == 6 or month == 9 or month == 11:
            longest = 30
        if day > longest:
            return np.int64(0), np.int64(-1)
    if month <= 2:
        year -= 1
        month += 12
    cycle = year // 400
    of_cycle = year - cycle * 400
    of_year = (153 * (month - 3) + 2) // 5 + day - 1
    days = cycle * 146097 + of_cycle * 365 + of_cycle // 4 - of_cycle // 100 + of_year - 719468
    return days, at + 6


@njit(nogil=True, inline="always")
def _is_bc(data, at, end):
    return end - at > 3 and data[end - 1] == 67 and data[end - 2] == 66 and data[end - 3] == 32


@kernel(f"i8({VALUES}, i4[::1])")
def parse_date(data, starts, lengths, out):
    """ISO dates as days since 1970-01-01: `2024-02-29`, `0044-03-15 BC`, `5874897-12-31`, `infinity`."""
    for i in range(lengths.size):
        length = np.int64(lengths[i])
        if length < 0:
            continue
        at = starts[i]
        end = at + length
        era = _is_bc(data, at, end)
        if era:
            end -= 3
        days, stop = _civil_days(data, at, end, era)
        if stop == end and days > DATE_MINUS_INFINITY and days < DATE_INFINITY:
            out[i] = days
            continue
        word = _word(data, at, length)
        if word == 0:
            return np.int64(i)
        out[i] = DATE_INFINITY if word > 0 else DATE_MINUS_INFINITY
    return np.int64(-1)


def date_plain(text):
    """`parse_date`: the calendar repeats every 400 years, so datetime.date serves for any year."""
    if text in ("infinity", "-infinity"):
        return DATE_INFINITY if text == "infinity" else DATE_MINUS_INFINITY
    before_christ = text.endswith(" BC")
    year, month, day = text.removesuffix(" BC").split("-")
    if not (all(part.isascii() and part.isdigit() for part in (year, month, day)) and int(year) > 0):
        refuse()
    if len(year) < 4 or len(year) > 8 or len(month) != 2 or len(day) != 2:
        refuse()
    astronomical = 1 - int(year) if before_christ else int(year)
    cycles, of_cycle = divmod(astronomical - 2000, 400)
    days = civil_date(2000 + of_cycle, int(month), int(day)).toordinal() - 719163 + cycles * 146097
    return days if DATE_MINUS_INFINITY < days < DATE_INFINITY else refuse()


@njit(nogil=True)
def _clock(data, at, end):
    """Microseconds of `hh:mm:ss[.ffffff]` at `at`, and where it ends (-1: it is none)."""
    if end - at < 8 or data[at + 2] != 58 or data[at + 5] != 58:
        return np.int64(0), np.int64(-1)
    hours = _two_digits(data, at)
    minutes = _two_digits(data, at + 3)
    seconds = _two_digits(data, at + 6)
    if hours > 23 or minutes > 59 or seconds > 59:
        return np.int64(0), np.int64(-1)
    micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000
    at += 8
    if at < end and data[at] == 46:
        at += 1
        weight = np.int64(1_000_000)
        while at < end and data[at] >= 48 and data[at] <= 57 and weight > 1:
            weight //= 10
            micros += weight * np.int64(data[at] - np.uint8(48))
            at += 1
        if weight == 1_000_000:
            return np.int64(0), np.int64(-1)
    return micros, at


@njit(nogil=True)
def _offset(data, at, end):
    """Seconds east of Greenwich of the `±hh[:mm[:ss]]` that fills [at, end); 86,400 when it is none."""
    length = end - at
    if (length != 3 and length != 6 and length != 9) or (data[at] != 43 and data[at] != 45):
        return np.int64(86_400)
    seconds = np.int64(0)
    weight = np.int64(3600)
    place = at + 1
    while place < end:
        part = _two_digits(data, place)
        if part > 59 or (weight == 3600 and part > 23):
            return np.int64(86_400)
        seconds += part * weight
        weight //= 60
        if place + 2 < end and data[place + 2] != 58:
            return np.int64(86_400)
        place += 3
    return seconds if data[at] == 43 else -seconds


@kernel(f"i8({VALUES}, i8[::1], b1)")
def parse_timestamp(data, starts, lengths, out, zoned):
    """ISO timestamps as microseconds since 1970-01-01; with an offset from UTC exactly when `zoned`.

    ±infinity are the ends of int64, so a finite value there or beyond (from 294247-01-10 on) is refused."""
    for i in range(lengths.size):
        length = np.int64(lengths[i])
        if length < 0:
            continue
        at = starts[i]
        end = at + length
        era = _is_bc(data, at, end)
        if era:
            end -= 3
        days, stop = _civil_days(data, at, end, era)
        micros = np.int64(0)
        offset = np.int64(0)
        if stop >= 0 and stop < end and data[stop] == 32:
            micros, stop = _clock(data, stop + 1, end)
            if stop >= 0 and zoned:
                offset = _offset(data, stop, end)
                stop = end if offset < 86_400 else np.int64(-1)
            if stop == end:
                micros -= offset * 1_000_000
                if micros < 0:
                    days -= 1
                    micros += _DAY_MICROS
                elif micros >= _DAY_MICROS:
                    days += 1
                    micros -= _DAY_MICROS
                late = days > _LAST_DAY or (days == _LAST_DAY and micros >= _LAST_DAY_MICROS)
                if late or days < -_LAST_DAY:
                    return np.int64(i)
                out[i] = days * _DAY_MICROS + micros
                continue
        word = _word(data, at, length)
        if word == 0:
            return np.int64(i)
        out[i] = INFINITY if word > 0 else MINUS_INFINITY
    return np.int64(-1)


def timestamp_plain(text, zoned):
    """`parse_timestamp`: date, clock, offset, one after the other."""
    if text in ("infinity", "-infinity"):
        return INFINITY if text == "infinity" else MINUS_INFINITY
    era = " BC" if text.endswith(" BC") else ""
    day, _, rest = text.removesuffix(" BC").partition(" ")
    cut = max(rest.find("+"), rest.find("-")) if zoned else len(rest)
    clock, offset = rest[:cut], rest[cut:]
    whole, dot, fraction = clock.partition(".")
    if cut < 0 or (dot and not (fraction.isascii() and fraction.isdigit() and len(fraction) <= 6)):
        refuse()
    micros = _sexagesimal_plain(whole, 3) * 1_000_000 + int(fraction.ljust(6, "0"))
    if zoned:
        east = _sexagesimal_plain(offset[1:], len(offset) // 3)
        micros -= (east if offset[0] == "+" else -east) * 1_000_000
    days = date_plain(day + era) + micros // _DAY_MICROS
    total = days * _DAY_MICROS + micros % _DAY_MICROS
    return total if days >= -_LAST_DAY and total < INFINITY else refuse()


def _sexagesimal_plain(text, count):
    """`hh[:mm[:ss]]` of `count` parts, in seconds."""
    parts = text.split(":")
    if len(parts) != count or count > 3:
        refuse()
    seconds = 0
    for part, limit, weight in zip(parts, (24, 60, 60), (3600, 60, 1), strict=False):
        if not (part.isascii() and part.isdigit() and len(part) == 2 and int(part) < limit):
            refuse()
        seconds += int(part) * weight
    return seconds
