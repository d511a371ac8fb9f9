"""MySQL's binary JSON as the server's own text: keys in stored order, `": "` and `", "` between.

Format: the manual's "JSON Binary Format" in the server's documentation of json_binary.h. MariaDB keeps JSON as text.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from decimal import Decimal

from headwater.sources.mysql import table_map as t
from headwater.sources.mysql.value_kernels import decimal_plain

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = 0, 1, 2, 3, 4
_INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING, _OPAQUE = 5, 6, 7, 8, 9, 10, 11, 12, 15
_LITERALS = {0: "null", 1: "true", 2: "false"}
_NUMBERS = {
    _INT16: struct.Struct("<h"),
    _UINT16: struct.Struct("<H"),
    _INT32: struct.Struct("<i"),
    _UINT32: struct.Struct("<I"),
    _INT64: struct.Struct("<q"),
    _UINT64: struct.Struct("<Q"),
}
# The server allows 100 levels.
_MAX_DEPTH = 200


def json_text(raw: bytes) -> str:
    """One value. ValueError when it is not one. An empty value, of a column added with a default, is `null`."""
    if not raw:
        return "null"
    try:
        return _value(raw[0], raw[1:], 0)
    except (struct.error, IndexError, KeyError) as error:
        raise ValueError("not binary JSON") from error


def _value(kind: int, data: bytes, depth: int) -> str:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deep")
    if kind in (_SMALL_OBJECT, _LARGE_OBJECT):
        members = _members(data, kind == _LARGE_OBJECT, True, depth)
        return "{" + ", ".join(f"{_quoted(key)}: {value}" for key, value in members) + "}"
    if kind in (_SMALL_ARRAY, _LARGE_ARRAY):
        return "[" + ", ".join(value for _, value in _members(data, kind == _LARGE_ARRAY, False, depth)) + "]"
    if kind == _LITERAL:
        return _LITERALS[data[0]]
    if kind in _NUMBERS:
        return str(_NUMBERS[kind].unpack_from(data)[0])
    if kind == _DOUBLE:
        return double_text(struct.unpack_from("<d", data)[0])
    if kind == _STRING:
        size, at = _size(data)
        return _quoted(data[at : at + size])
    if kind == _OPAQUE:
        size, at = _size(data[1:])
        return _opaque(data[0], data[1 + at : 1 + at + size])
    raise ValueError(f"unknown JSON type {kind}")


def _members(data: bytes, large: bool, keyed: bool, depth: int) -> Iterator[tuple[bytes, str]]:
    width, number = (4, struct.Struct("<I")) if large else (2, struct.Struct("<H"))
    (count,) = number.unpack_from(data)
    keys_at = 2 * width
    values_at = keys_at + (count * (width + 2) if keyed else 0)
    # Small values stand in the entry itself, in place of an offset.
    inlined = {_LITERAL, _INT16, _UINT16} | ({_INT32, _UINT32} if large else set())
    for i in range(count):
        key = b""
        if keyed:
            (start,) = number.unpack_from(data, keys_at + i * (width + 2))
            (size,) = struct.unpack_from("<H", data, keys_at + i * (width + 2) + width)
            key = data[start : start + size]
        entry = values_at + i * (1 + width)
        kind = data[entry]
        if kind in inlined:
            yield key, _value(kind, data[entry + 1 :], depth + 1)
        else:
            (start,) = number.unpack_from(data, entry + 1)
            if start < 2 * width:
                raise ValueError("an offset into the header")
            yield key, _value(kind, data[start:], depth + 1)


def _size(data: bytes) -> tuple[int, int]:
    size = shift = 0
    for at in range(5):
        size |= (data[at] & 0x7F) << shift
        if not data[at] & 0x80:
            return size, at + 1
        shift += 7
    raise ValueError("a length of more than five bytes")


def _quoted(raw: bytes) -> str:
    return json.dumps(raw.decode(), ensure_ascii=False)


def double_text(number: float) -> str:
    """As the server writes it: plain while the point is near the digits, else with an exponent; a whole number
    keeps `.0`."""
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    if not isinstance(exponent, int):
        raise ValueError("not a number")
    point = len(digits) + exponent
    if number == 0 or -15 < point <= 15:
        text = f"{Decimal((sign, digits, exponent)):f}"
        return text if "." in text else text + ".0"
    shown = "".join(map(str, digits))
    return f"{'-' * sign}{shown[0]}{'.' * (len(shown) > 1)}{shown[1:]}e{point - 1}"


def _opaque(kind: int, data: bytes) -> str:
    match kind:
        case t.NEWDECIMAL:
            return str(decimal_plain(data[2:], data[0], data[1]))
        case t.TIME | t.DATE | t.DATETIME | t.TIMESTAMP:
            return f'"{_moment(kind, int.from_bytes(data, "little", signed=True))}"'
    return f'"base64:type{kind}:{base64.b64encode(data).decode()}"'


def _moment(kind: int, packed: int) -> str:
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    micros, packed = packed & 0xFFFFFF, packed >> 24
    if kind == t.TIME:
        return f"{sign}{packed >> 12 & 0x3FF:02}:{packed >> 6 & 63:02}:{packed & 63:02}.{micros:06}"
    date, clock = packed >> 17, packed & 0x1FFFF
    text = f"{(date >> 5) // 13:04}-{(date >> 5) % 13:02}-{date & 31:02}"
    if kind == t.DATE:
        return text
    return f"{text} {clock >> 12:02}:{clock >> 6 & 63:02}:{clock & 63:02}.{micros:06}"
