"""PostgreSQL texts of rare types → JSON texts of Debezium's form, one value at a time.

Used through `formats.writers.each`, which calls these once per distinct value. ValueError = no such form.
"""

from __future__ import annotations

import base64
import re
import struct
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction

from headwater.formats import plain
from headwater.formats.connect import quote

# A month in Debezium's arithmetic.
_DAYS_PER_MONTH = Fraction(36525, 1200)
_UNITS = {"year": "year", "years": "year", "mon": "mon", "mons": "mon", "day": "day", "days": "day"}
_CLOCK = re.compile(r"([+-]?)(\d+):(\d\d):(\d\d(?:\.\d+)?)")
_ZONE = re.compile(r"(\d\d:\d\d:\d\d(?:\.\d+)?)([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?")
_DAY = 86_400_000_000


def parse_interval(text: str) -> tuple[int, int, int, int, int, Decimal]:
    """(years, months, days, hours, minutes, seconds) of an interval in IntervalStyle postgres."""
    parts = {"year": 0, "mon": 0, "day": 0}
    words = text.split()
    while len(words) >= 2 and words[1] in _UNITS:
        parts[_UNITS[words[1]]] = int(words[0])
        words = words[2:]
    hours, minutes, seconds = 0, 0, Decimal(0)
    if words:
        match = _CLOCK.fullmatch(words[0])
        if match is None or len(words) > 1:
            raise ValueError("not an interval")
        sign = -1 if match[1] == "-" else 1
        hours, minutes, seconds = sign * int(match[2]), sign * int(match[3]), sign * Decimal(match[4])
    return parts["year"], parts["mon"], parts["day"], hours, minutes, seconds


def interval_micros(text: str) -> str:
    """io.debezium.time.MicroDuration; computed exactly, cut towards zero."""
    years, months, days, hours, minutes, seconds = parse_interval(text)
    whole = (years * 12 + months) * _DAYS_PER_MONTH + days
    total = ((whole * 24 + hours) * 60 + minutes) * 60 + Fraction(seconds)
    micros = int(total * 1_000_000)
    if not -(1 << 63) <= micros < 1 << 63:
        raise ValueError("more than 292,471 years: 64 bits of microseconds hold no more")
    return str(micros)


def interval_iso(text: str) -> str:
    """io.debezium.time.Interval: every part is always there."""
    years, months, days, hours, minutes, seconds = parse_interval(text)
    shown = f"{seconds:f}"
    if "." in shown:
        shown = shown.rstrip("0").rstrip(".")
    return f'"P{years}Y{months}M{days}DT{hours}H{minutes}M{"0" if shown in ("-0", "") else shown}S"'


def bits(text: str) -> str:
    """io.debezium.data.Bits: little-endian, the last digit is bit 0, no longer than the highest set bit needs."""
    value = int(text or "0", 2)
    return plain.base64_text(value.to_bytes((value.bit_length() + 7) // 8, "little"))


def bit(text: str) -> str:
    """bit(1) as a boolean."""
    return "true" if text == "1" else "false"


def money_number(text: str) -> Decimal:
    """money text of a locale that writes `.` before the fraction."""
    negative = "-" in text or text.startswith("(")
    number = re.sub(r"[^0-9.]", "", text)
    if not number.replace(".", "", 1).isdigit():
        raise ValueError("not money as this locale writes it")
    return -Decimal(number) if negative else Decimal(number)


def money_base64(text: str, digits: int) -> str:
    """Connect's Decimal of `digits` fractional digits, half rounded away from zero."""
    with localcontext(prec=60):
        rounded = money_number(text).scaleb(digits).quantize(Decimal(1), ROUND_HALF_UP)
    return plain.decimal_base64(int(rounded))


def money_text(text: str) -> str:
    """All digits, whatever money.fraction.digits says."""
    return f'"{money_number(text):f}"'


def money_float(text: str) -> str:
    """The nearest double."""
    return _java(float(money_number(text)))


def zoned_time(text: str) -> str:
    """io.debezium.time.ZonedTime: moved to UTC, no more fraction digits than needed. 24:00 becomes 00:00: the
    libraries that read this form know no other."""
    match = _ZONE.fullmatch(text)
    if match is None:
        raise ValueError("not a time with zone")
    micros = plain.clock_micros(match[1])
    offset = (int(match[3]) * 3600 + int(match[4] or 0) * 60 + int(match[5] or 0)) * 1_000_000
    offset = offset if match[2] == "+" else -offset
    return f'"{plain.clock_of((micros - offset) % _DAY, -1)}Z"'


def iso_time(text: str) -> str:
    """io.debezium.time.IsoTime; 24:00 becomes 00:00, as in `zoned_time`."""
    micros = plain.clock_micros(text)
    if micros < 0:
        raise ValueError("not a time")
    return f'"{plain.clock_of(micros % _DAY, -1)}Z"'


def numeric_string(text: str) -> str:
    """numeric under decimal.handling.mode=string; the special values have Debezium's names."""
    names = {"NaN": "NAN", "Infinity": "POSITIVE_INFINITY", "-Infinity": "NEGATIVE_INFINITY"}
    return quote(names.get(text, text))


def point(text: str) -> str:
    """io.debezium.data.geometry.Point with its WKB."""
    x, y = _floats(text.strip("()"), ",", 2)
    wkb = base64.b64encode(struct.pack("<BIdd", 1, 1, x, y)).decode()
    return f'{{"x":{_java(x)},"y":{_java(y)},"wkb":"{wkb}","srid":null}}'


def geometry(text: str) -> str:
    """PostGIS geometry and geography: hexadecimal EWKB as it is, the SRID beside it."""
    raw = bytes.fromhex(text)
    if len(raw) < 5:
        raise ValueError("not EWKB")
    order = "<" if raw[0] == 1 else ">"
    (kind,) = struct.unpack(f"{order}I", raw[1:5])
    srid = str(struct.unpack(f"{order}i", raw[5:9])[0]) if kind & 0x20000000 and len(raw) >= 9 else "null"
    return f'{{"wkb":{plain.base64_text(raw)},"srid":{srid}}}'


def vector(text: str) -> str:
    """pgvector's vector and halfvec."""
    inner = text.strip("[]")
    return "[" + ",".join(_java(number) for number in _floats(inner, ",")) + "]"


def sparse_vector(text: str) -> str:
    """pgvector's sparsevec: `{1:0.5,3:2}/5`. Connect writes a map with numbers as keys as pairs."""
    pairs, _, dimensions = text.partition("/")
    shown = []
    for pair in filter(None, pairs.strip("{}").split(",")):
        index, value = pair.split(":")
        shown.append(f"[{int(index)},{_java(float(value))}]")
    return f'{{"dimensions":{int(dimensions)},"vector":[{",".join(shown)}]}}'


def text_base64(text: str) -> str:
    """A type without a mapping: its text as bytes."""
    return plain.base64_text(text.encode())


def text_base64_url(text: str) -> str:
    """The same in the alphabet that is safe in addresses."""
    return plain.base64_text(text.encode(), url_safe=True)


def text_hex(text: str) -> str:
    """The same in hexadecimal digits."""
    return plain.hex_text(text.encode())


def _floats(text: str, separator: str, count: int = 0) -> list[float]:
    numbers = [float(part) for part in text.split(separator) if part]
    if count and len(numbers) != count:
        raise ValueError(f"{count} numbers wanted")
    return numbers


def _java(number: float) -> str:
    return plain.float_text(repr(number))
