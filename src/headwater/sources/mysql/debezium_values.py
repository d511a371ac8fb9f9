"""Texts of rare types → JSON texts of Debezium's form, one value at a time.

Used through `formats.writers.each`, which calls these once per distinct value. ValueError = no such form.
"""

from __future__ import annotations

import json
import re
import struct

from headwater.formats import plain

_TIME = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?")
_DAY_MICROS = 86_400_000_000


def time_micros(text: str) -> int:
    """TIME as microseconds; negative ones and those of more than a day stay what they are."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError("not a time")
    sign, hours, minutes, seconds, fraction = found.groups()
    micros = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000_000 + int((fraction or "0").ljust(6, "0"))
    return -micros if sign else micros


def micro_time(text: str) -> str:
    """io.debezium.time.MicroTime."""
    return str(time_micros(text))


def nano_time(text: str) -> str:
    """io.debezium.time.NanoTime."""
    return str(time_micros(text) * 1000)


def milli_time(text: str) -> str:
    """Connect's Time, which knows times of a day only, its end included."""
    micros = time_micros(text)
    if not 0 <= micros <= _DAY_MICROS:
        raise ValueError("not a time of day")
    return str(micros // 1000)


def iso_time(text: str) -> str:
    """io.debezium.time.IsoTime, which knows times of a day only."""
    micros = time_micros(text)
    if not 0 <= micros < _DAY_MICROS:
        raise ValueError("not a time of day")
    return f'"{plain.clock_of(micros, -1)}Z"'


def bit(text: str) -> str:
    """bit(1) as a boolean."""
    return "true" if text == "1" else "false"


def bits(text: str) -> str:
    """io.debezium.data.Bits: little-endian, in as many bytes as the column has."""
    return plain.base64_text(int(text, 2).to_bytes((len(text) + 7) // 8, "little"))


def compact_json(text: str) -> str:
    """JSON as Debezium prints it from the log: without spaces, numbers as they are."""
    parsed = json.loads(text, parse_float=_Number, parse_int=_Number)
    return json.dumps(_compact(parsed), ensure_ascii=False)


class _Number(str):
    """A number's own text."""


def _compact(value: object) -> str:
    match value:
        case _Number():
            return str(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case dict():
            return "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{_compact(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(_compact(item) for item in value) + "]"
    return json.dumps(value)


def geometry(raw: bytes) -> str:
    """io.debezium.data.geometry.Geometry: WKB, and the reference system that the server keeps in front of it."""
    srid, wkb = _parts(raw)
    return f'{{"wkb":{plain.base64_text(wkb)},"srid":{srid}}}'


def point(raw: bytes) -> str:
    """io.debezium.data.geometry.Point."""
    srid, wkb = _parts(raw)
    order = "<" if wkb[:1] == b"\x01" else ">"
    if len(wkb) != 21 or struct.unpack_from(f"{order}I", wkb, 1)[0] != 1:
        raise ValueError("not a point")
    x, y = (plain.float_text(repr(number)) for number in struct.unpack_from(f"{order}dd", wkb, 5))
    return f'{{"x":{x},"y":{y},"wkb":{plain.base64_text(wkb)},"srid":{srid}}}'


def _parts(raw: bytes) -> tuple[str, bytes]:
    if len(raw) < 9:
        raise ValueError("not a geometry")
    (srid,) = struct.unpack_from("<I", raw)
    return str(srid) if srid else "null", raw[4:]
