"""Kernels that read dates and times, of the log and of a result, beside the plain twin of each.

Both forms are taken apart into fields first (year … microsecond); what becomes of a date that no calendar has
(0000-00-00, 2024-02-31) is decided in one place then, for snapshot and stream alike.
"""
# Functions compiled by Numba carry no Python types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
from numba import njit

from headwater.compiled import kernel
from headwater.sources.mysql.value_kernels import VALUES

# Forms of a value: in the log a date, a DATETIME2, a TIMESTAMP2; in a result any of them.
LOG_DATE, LOG_DATETIME, LOG_TIMESTAMP, RESULT = 0, 1, 2, 3
_DAY = 86_400_000_000


@njit(nogil=True, cache=True)
def _days(year, month, day):
    """Days since 1970-01-01 in the proleptic Gregorian calendar; the year may be 0."""
    y = year - (1 if month <= 2 else 0)
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@njit(nogil=True, cache=True)
def _exists(year, month, day):
    if month < 1 or month > 12 or day < 1:
        return False
    if month == 2:
        leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
        return day <= (29 if leap else 28)
    return day <= (30 if month == 4 or month == 6 or month == 9 or month == 11 else 31)


@njit(nogil=True, cache=True)
def _big(data, at, size):
    number = np.int64(0)
    for k in range(size):
        number = number << 8 | np.int64(data[at + k])
    return number


@njit(nogil=True, cache=True)
def _fraction(data, at, size):
    """Microseconds from the bytes behind the seconds: two digits of the second a byte."""
    number = _big(data, at, size)
    if size == 1:
        return number * 10_000
    return number * 100 if size == 2 else number


@kernel(f"i8({VALUES}, i8, i8, i8[::1], u1[::1])")
def read_moment(data, starts, lengths, form, unit, out, valid):
    """Dates (`unit` a day) and timestamps (`unit` 1) as days or microseconds since the epoch.

    `valid` becomes 0 for a date that does not exist: MySQL's zero dates among them."""
    for i in range(lengths.size):
        length = lengths[i]
        if length < 0:
            continue
        at = starts[i]
        year, month, day, clock = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        if form == LOG_DATE:
            if length != 3:
                return np.int64(i)
            packed = np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16
            year, month, day = packed >> 9, packed >> 5 & 15, packed & 31
        elif form == LOG_DATETIME:
            if length < 5 or length > 8:
                return np.int64(i)
            packed = _big(data, at, 5) - 0x8000000000
            if packed < 0:
                return np.int64(i)
            date, time = packed >> 17, packed & 0x1FFFF
            year, month, day = (date >> 5) // 13, (date >> 5) % 13, date & 31
            seconds = (time >> 12) * 3600 + (time >> 6 & 63) * 60 + (time & 63)
            clock = seconds * 1_000_000 + _fraction(data, at + 5, length - 5)
        elif form == LOG_TIMESTAMP:
            if length < 4 or length > 7:
                return np.int64(i)
            moment = _big(data, at, 4) * 1_000_000 + _fraction(data, at + 4, length - 4)
            out[i] = moment
            # The server keeps 0000-00-00 00:00:00 as the epoch, which is itself not a value of the type.
            valid[i] = moment != 0
            continue
        else:
            if length != 0 and length != 4 and length != 7 and length != 11:
                return np.int64(i)
            if length:
                year = np.int64(data[at]) | np.int64(data[at + 1]) << 8
                month, day = np.int64(data[at + 2]), np.int64(data[at + 3])
            if length >= 7:
                seconds = np.int64(data[at + 4]) * 3600 + np.int64(data[at + 5]) * 60 + np.int64(data[at + 6])
                clock = seconds * 1_000_000
            if length == 11:
                for k in range(4):
                    clock += np.int64(data[at + 7 + k]) << (8 * k)
        valid[i] = _exists(year, month, day)
        if valid[i]:
            days = _days(year, month, day)
            out[i] = days if unit == _DAY else days * _DAY + clock
    return np.int64(-1)


def moment_plain(raw, form):
    """`read_moment`: (year, month, day, microseconds of the day), before it is asked whether there is such a day."""
    fraction = {0: 1, 1: 10_000, 2: 100, 3: 1}
    match form:
        case 0:
            packed = int.from_bytes(raw, "little")
            return packed >> 9, packed >> 5 & 15, packed & 31, 0
        case 1:
            packed = int.from_bytes(raw[:5]) - 0x8000000000
            calendar, clock = packed >> 17, packed & 0x1FFFF
            seconds = (clock >> 12) * 3600 + (clock >> 6 & 63) * 60 + (clock & 63)
            micros = seconds * 1_000_000 + int.from_bytes(raw[5:]) * fraction[len(raw) - 5]
            return (calendar >> 5) // 13, (calendar >> 5) % 13, calendar & 31, micros
        case 2:
            moment = int.from_bytes(raw[:4]) * 1_000_000 + int.from_bytes(raw[4:]) * fraction[len(raw) - 4]
            if not moment:
                return 0, 0, 0, 0
            day = date(1970, 1, 1) + timedelta(days=moment // _DAY)
            return day.year, day.month, day.day, moment % _DAY
    full = raw.ljust(11, b"\0")
    seconds = full[4] * 3600 + full[5] * 60 + full[6]
    year = int.from_bytes(full[:2], "little")
    return year, full[2], full[3], seconds * 1_000_000 + int.from_bytes(full[7:], "little")


def moment_text(raw: bytes, form: int, fraction: int, clock: bool) -> str:
    """The server's own text of a date (`clock` False) or of a date and time with `fraction` digits."""
    year, month, day, micros = moment_plain(raw, form)
    text = f"{year:04}-{month:02}-{day:02}"
    if not clock:
        return text
    seconds, micros = divmod(micros, 1_000_000)
    text += f" {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text + (f".{micros:06}"[: 1 + fraction] if fraction else "")


@kernel(f"i8({VALUES}, b1, i8, i4[::1], u1[::1])")
def time_text(data, starts, lengths, result, fraction, offsets, out):
    """TIME as the server prints it: `-838:59:59.000001`, with `fraction` digits. `out` has 18 bytes a value."""
    at = np.int64(0)
    for i in range(lengths.size):
        offsets[i] = at
        length = lengths[i]
        if length < 0:
            continue
        place = starts[i]
        if result:
            if length != 0 and length != 8 and length != 12:
                return np.int64(i)
            negative = length > 0 and data[place] != 0
            hours, minutes, seconds, micros = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
            if length:
                for k in range(4):
                    hours += np.int64(data[place + 1 + k]) << (8 * k)
                hours = hours * 24 + np.int64(data[place + 5])
                minutes, seconds = np.int64(data[place + 6]), np.int64(data[place + 7])
            if length == 12:
                for k in range(4):
                    micros += np.int64(data[place + 8 + k]) << (8 * k)
        else:
            size = length - 3
            if size < 0 or size > 3:
                return np.int64(i)
            packed = _big(data, place, length) - (np.int64(0x800000) << (8 * size))
            negative = packed < 0
            if negative:
                packed = -packed
            micros = packed & ((np.int64(1) << (8 * size)) - 1)
            micros *= 10_000 if size == 1 else 100 if size == 2 else 1
            clock = packed >> (8 * size)
            hours, minutes, seconds = clock >> 12 & 0x3FF, clock >> 6 & 63, clock & 63
        if hours > 999 or minutes > 59 or seconds > 59 or micros > 999_999:
            return np.int64(i)
        if negative:
            out[at] = 45
            at += 1
        if hours > 99:
            out[at] = 48 + hours // 100
            at += 1
        out[at], out[at + 1], out[at + 2] = 48 + hours // 10 % 10, 48 + hours % 10, 58
        out[at + 3], out[at + 4], out[at + 5] = 48 + minutes // 10, 48 + minutes % 10, 58
        out[at + 6], out[at + 7] = 48 + seconds // 10, 48 + seconds % 10
        at += 8
        if fraction:
            out[at] = 46
            power = np.int64(100_000)
            for k in range(fraction):
                out[at + 1 + k] = 48 + micros // power % 10
                power //= 10
            at += 1 + fraction
    offsets[lengths.size] = at
    return np.int64(-1)


def time_plain(raw, result, fraction):
    """`time_text`."""
    if result:
        full = raw.ljust(12, b"\0")
        negative = bool(full[0])
        hours = int.from_bytes(full[1:5], "little") * 24 + full[5]
        minutes, seconds, micros = full[6], full[7], int.from_bytes(full[8:], "little")
    else:
        size = len(raw) - 3
        packed = int.from_bytes(raw) - (0x800000 << 8 * size)
        negative, packed = packed < 0, abs(packed)
        micros = (packed & (1 << 8 * size) - 1) * {0: 1, 1: 10_000, 2: 100, 3: 1}[size]
        clock = packed >> 8 * size
        hours, minutes, seconds = clock >> 12 & 0x3FF, clock >> 6 & 63, clock & 63
    if hours > 999 or minutes > 59 or seconds > 59 or micros > 999_999:
        raise ValueError("not a time")
    text = f"{'-' * negative}{hours:02}:{minutes:02}:{seconds:02}"
    return text + (f".{micros:06}"[: 1 + fraction] if fraction else "")
