"""The slow, obvious twin of every kernel: one Python value in, one JSON text out.

The tests hold kernels to these; `writers.py` falls back to them where a value outgrows the kernels' integers.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
from decimal import Decimal

from headwater.formats.connect import quote

NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d*))?")


def int_text(value: int) -> str:
    """A whole number."""
    return str(value)


def string_text(value: str) -> str:
    """A quoted text."""
    return quote(value)


def float_text(shortest: str) -> str:
    """Java's form of a float whose shortest digits are given in any notation (`1e+21`, `0.1`, `nan`)."""
    value = float(shortest)
    if math.isnan(value):
        return '"NaN"'
    sign = "-" if math.copysign(1, value) < 0 else ""
    if math.isinf(value):
        return f'"{sign}Infinity"'
    _, digits, exponent = Decimal(shortest).as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    assert isinstance(exponent, int)  # noqa: S101 - NaN and infinity are gone
    if not text:
        return f"{sign}0.0"
    power = len(text) + exponent - 1
    text = text.rstrip("0") or "0"
    if power < -3 or power >= 7:
        return f"{sign}{text[0]}.{text[1:] or '0'}E{power}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{text}"
    return f"{sign}{text[: power + 1].ljust(power + 1, '0')}.{text[power + 1 :] or '0'}"


def base64_text(value: bytes, url_safe: bool = False) -> str:
    """Quoted base64 with padding."""
    encode = base64.urlsafe_b64encode if url_safe else base64.b64encode
    return f'"{encode(value).decode()}"'


def hex_text(value: bytes) -> str:
    """Quoted hexadecimal digits."""
    return f'"{value.hex()}"'


def decimal_base64(unscaled: int) -> str:
    """The shortest big-endian two's complement, which always leaves room for the sign bit."""
    size = ((unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8) + 1
    return base64_text(unscaled.to_bytes(size, "big", signed=True))


def decimal_text(unscaled: int, scale: int, quoted: bool = True) -> str:
    """Plain notation with `scale` digits after the point."""
    digits = str(abs(unscaled))
    if scale > 0:
        digits = digits.rjust(scale + 1, "0")
        digits = f"{digits[:-scale]}.{digits[-scale:]}"
    elif unscaled:
        digits += "0" * -scale
    text = f"-{digits}" if unscaled < 0 else digits
    return f'"{text}"' if quoted else text


def unscaled(text: str, scale: int) -> int:
    """A decimal text as an integer of that scale. ValueError when it is no number or does not fit."""
    match = NUMBER.fullmatch(text)
    if match is None:
        raise ValueError("no finite number")
    sign, whole, fraction = match[1], match[2], (match[3] or "").rstrip("0")
    if len(fraction) > scale:
        raise ValueError(f"more than {scale} digits after the point")
    # Not int(): CPython refuses texts of more than 4300 digits, numeric goes up to 131072.
    return _to_int(whole + fraction.ljust(scale, "0")) * (-1 if sign else 1)


def _to_int(digits: str) -> int:
    value = 0
    for begin in range(0, len(digits), 4000):
        part = digits[begin : begin + 4000]
        value = value * 10 ** len(part) + int(part)
    return value


def variable_scale(text: str) -> str:
    """Debezium's VariableScaleDecimal of a decimal text."""
    match = NUMBER.fullmatch(text)
    if match is None:
        raise ValueError("no finite number")
    scale = len((match[3] or "").rstrip("0"))
    return f'{{"scale":{scale},"value":{decimal_base64(unscaled(text, scale))}}}'


def number_words(text: str, scale: int, fixed: bool) -> tuple[int, int] | None:
    """(unscaled, scale) of a decimal text; None when the kernel leaves it to Python."""
    try:
        if not fixed:
            match = NUMBER.fullmatch(text)
            scale = len(((match[3] if match else "") or "").rstrip("0"))
        return unscaled(text, scale), scale
    except ValueError:
        return None


def timestamp_text(micros: int, fraction: int, zone: bool = True) -> str:
    """Quoted ISO 8601 in UTC."""
    days, clock = divmod(micros, 86_400_000_000)
    return f'"{date_of(days)}T{clock_of(clock, fraction)}{"Z" if zone else ""}"'


def date_text(days: int, zone: bool) -> str:
    """A quoted ISO date."""
    return f'"{date_of(days)}{"Z" if zone else ""}"'


def date_of(days: int) -> str:
    """The calendar repeats every 400 years (146,097 days): move into Python's range, then correct the year."""
    eras, rest = divmod(days, 146_097)
    date = dt.date(2000, 1, 1) + dt.timedelta(days=rest - 10_957)
    shift = 0
    if date.year < 1970:
        date, shift = dt.date(2000, 1, 1) + dt.timedelta(days=rest - 10_957 + 146_097), -400
    year = date.year + shift + eras * 400
    shown = f"{abs(year):04d}"
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{shown}-{date.month:02d}-{date.day:02d}"


def clock_of(micros: int, fraction: int) -> str:
    """`HH:MM:SS` and `fraction` digits of the second; -1 = as many as are needed."""
    seconds, rest = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    digits = f"{rest:06d}".rstrip("0") if fraction < 0 else f"{rest:06d}"[:fraction]
    return f"{text}.{digits}" if digits else text


def clock_micros(text: str) -> int:
    """Microseconds since midnight; -1 when the text is no time of day."""
    match = re.fullmatch(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?", text)
    if match is None:
        return -1
    hours, minutes, seconds = int(match[1]), int(match[2]), int(match[3])
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int((match[4] or "").ljust(6, "0"))


def list_text(elements: list[str | None]) -> str:
    """A JSON array of texts."""
    return "[" + ",".join("null" if element is None else element for element in elements) + "]"


def lsn_text(lsn: int) -> str:
    """PostgreSQL's notation of a log address, quoted."""
    return f'"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"'
