"""Avro's binary encoding, one value at a time: the twin that the tests hold the kernels to.

Also the way of arrays, maps and structs inside a column, which have no kernel. Takes values as Connect's JSON has
them (bytes as base64, a float that is no number as text).
"""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

from headwater.formats.connect import Schema


def encode_plain(schema: Schema, value: Any) -> bytes:
    """One value under its Connect schema; optional ones with the branch of their union in front."""
    if not schema.optional:
        return _encode(schema, value)
    first_is_null = schema.default is None
    if value is None:
        return b"\x00" if first_is_null else b"\x02"
    return (b"\x02" if first_is_null else b"\x00") + _encode(schema, value)


def encode_text(schema: Schema, text: str) -> bytes:
    """A value given as JSON text."""
    return encode_plain(schema, json.loads(text))


def _encode(schema: Schema, value: Any) -> bytes:
    match schema.type:
        case "int8" | "int16" | "int32" | "int64":
            return zigzag(value)
        case "boolean":
            return b"\x01" if value else b"\x00"
        case "float":
            return struct.pack("<f", float(value))
        case "double":
            return struct.pack("<d", float(value))
        case "string":
            return _sized(value.encode())
        case "bytes":
            return _sized(base64.b64decode(value))
        case "array":
            return _blocks([encode_plain(_some(schema.items), item) for item in value])
        case "map":
            return _map(schema, value)
        case _:
            return b"".join(encode_plain(part.schema, value[part.name]) for part in schema.fields)


def _map(schema: Schema, value: Any) -> bytes:
    keys, values = _some(schema.keys), _some(schema.values)
    pairs = value.items() if isinstance(value, dict) else value
    if keys.type == "string" and not keys.optional:
        return _blocks([_sized(key.encode()) + encode_plain(values, item) for key, item in pairs])
    return _blocks([encode_plain(keys, key) + encode_plain(values, item) for key, item in pairs])


def _some(schema: Schema | None) -> Schema:
    assert schema is not None  # noqa: S101 - arrays have items, maps have keys and values
    return schema


def zigzag(number: int) -> bytes:
    """Small numbers in few bytes, the sign in the lowest bit."""
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _sized(data: bytes) -> bytes:
    return zigzag(len(data)) + data


def _blocks(items: list[bytes]) -> bytes:
    return (zigzag(len(items)) + b"".join(items) if items else b"") + b"\x00"
