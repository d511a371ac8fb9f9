"""PostgreSQL types → Connect schema and JSON writer, under every type mode of Debezium.

One table of facts: the contract's section "Type mapping". `debezium.py` applies it to columns.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from headwater.formats import writers
from headwater.formats.connect import BOOLEAN, BYTES, FLOAT64, INT32, INT64, STRING, Schema, quote, struct
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.writers import Writer
from headwater.sources.postgres import debezium_values as values

INT16 = Schema("int16")
FLOAT32 = Schema("float")

# What Debezium writes for the infinities: the limits of the JDBC driver's own dates.
MICROS_INFINITY = (9_223_372_036_825_200_000, -9_223_372_036_832_400_000)
MILLIS_INFINITY = (9_223_372_036_825_200, -9_223_372_036_832_400)
NANOS_INFINITY = ((1 << 63) - 1, -(1 << 63))
ISO_INFINITY = ("+294247-01-10T04:00:25.2Z", "-290308-12-21T19:59:27.6Z")
DAYS_INFINITY = (-2_147_472_692, -2_147_472_691)

_STRINGS = {"text", "varchar", "bpchar", "name", "char", "citext", "isbn", "inet", "cidr", "macaddr", "macaddr8"}
_RANGES = {"int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"}
_NAMED = {
    "json": "io.debezium.data.Json",
    "jsonb": "io.debezium.data.Json",
    "xml": "io.debezium.data.Xml",
    "uuid": "io.debezium.data.Uuid",
    "ltree": "io.debezium.data.Ltree",
    "tsvector": "io.debezium.data.Tsvector",
}
# Types whose writers read the server's text: a cast to string changes nothing for them.
_TEXTUAL = _STRINGS | _RANGES | _NAMED.keys() | {"numeric", "money", "time", "timetz", "interval", "bit", "varbit"}
# Arrays that Debezium leaves out although it knows the element.
_NO_ARRAY = {"money", "name", "interval", "varbit", "bit", "xml", "point", "refcursor", "tsvector"}


@dataclass(frozen=True)
class Shape:
    """A type's form: schema (not optional), writer, JSON text of its zero, and of the placeholder."""

    schema: Schema
    write: Writer
    zero: str
    unavailable: str | None = None
    # JSON text that stands for a default which only the server can compute; "" = the zero.
    computed: str = ""


def _named(base: Schema, name: str, version: int = 1, **parameters: str) -> Schema:
    return replace(base, name=name, version=version, parameters=tuple(parameters.items()))


def shape(facts: Mapping[str, Any], arrow: pa.DataType, options: DebeziumOptions) -> Shape | None:
    """The form of a type with these `types.type_facts`; None when Debezium has none."""
    if facts.get("cast") and facts["base"] not in _TEXTUAL:
        return Shape(STRING, writers.string_text, '""', _placeholder(options))
    if "element" in facts:
        return _array(facts, arrow, options)
    base = facts["base"]
    if facts["kind"] == "e":
        allowed = ",".join(facts.get("labels", ()))
        return _string(options, _named(STRING, "io.debezium.data.Enum", allowed=allowed))
    if base in _STRINGS or (base in _RANGES and facts["kind"] == "r"):
        return _string(options, STRING)
    if base in _NAMED:
        found = _string(options, _named(STRING, _NAMED[base]))
        computed = {"json": '"{}"', "jsonb": '"{}"', "uuid": '"00000000-0000-0000-0000-000000000000"'}
        return replace(found, computed=computed.get(base, ""))
    known = _MAPPED.get(base)
    if known is not None and facts["kind"] == "b":
        return known(facts, arrow, options)
    return _unknown(options) if options.include_unknown_datatypes else None


def _placeholder(options: DebeziumOptions) -> str:
    return quote(_placeholder_bytes(options).decode("utf-8", "replace"))


def _placeholder_bytes(options: DebeziumOptions) -> bytes:
    text = options.unavailable_value_placeholder
    return bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()


def _string(options: DebeziumOptions, schema: Schema) -> Shape:
    return Shape(schema, writers.string_text, '""', _placeholder(options))


def _whole(schema: Schema) -> Callable[..., Shape]:
    return lambda *_: Shape(schema, writers.int_text, "0")


def _bool(*_: Any) -> Shape:
    return Shape(BOOLEAN, writers.bool_text, "false")


def _float(schema: Schema) -> Callable[..., Shape]:
    return lambda *_: Shape(schema, writers.float_text, "0.0")


def _bits(facts: Mapping[str, Any], _: pa.DataType, __: DebeziumOptions) -> Shape:
    length = facts.get("length", 1 if facts["base"] == "bit" else 2_147_483_647)
    if length == 1:
        return Shape(BOOLEAN, writers.each(values.bit), "false")
    return Shape(_named(BYTES, "io.debezium.data.Bits", length=str(length)), writers.each(values.bits), '""')


def _bytea(_: Mapping[str, Any], __: pa.DataType, options: DebeziumOptions) -> Shape:
    raw = _placeholder_bytes(options)
    match options.binary_handling_mode:
        case "base64":
            return Shape(STRING, writers.base64_text, '""', quote(base64.b64encode(raw).decode()))
        case "base64-url-safe":
            return Shape(STRING, writers.base64_url_text, '""', quote(base64.urlsafe_b64encode(raw).decode()))
        case "hex":
            return Shape(STRING, writers.hex_text, '""', _placeholder(options))
    return Shape(BYTES, writers.base64_text, '""', quote(base64.b64encode(raw).decode()))


def _unknown(options: DebeziumOptions) -> Shape:
    mode = options.binary_handling_mode
    write = {"base64-url-safe": values.text_base64_url, "hex": values.text_hex}.get(mode, values.text_base64)
    found = _bytea({}, pa.binary(), options)
    return replace(found, write=writers.each(write))


def decimal_schema(scale: int, precision: int | None) -> Schema:
    """Connect's Decimal."""
    parameters = [("scale", str(scale))]
    if precision is not None:
        parameters.append(("connect.decimal.precision", str(precision)))
    return Schema("bytes", name="org.apache.kafka.connect.data.Decimal", version=1, parameters=tuple(parameters))


VARIABLE_SCALE = replace(
    struct("io.debezium.data.VariableScaleDecimal", [("scale", INT32), ("value", BYTES)], version=1),
    doc="Variable scaled decimal",
)


def _numeric(facts: Mapping[str, Any], arrow: pa.DataType, options: DebeziumOptions) -> Shape:
    exact = pa.types.is_decimal128(arrow)
    match options.decimal_handling_mode:
        case "double":
            return Shape(FLOAT64, writers.decimal_float if exact else writers.number_float, "0.0")
        case "string":
            scale = facts.get("scale", 0)
            write = writers.decimal_text if exact else writers.each(values.numeric_string)
            return Shape(STRING, write, f'"0{"." + "0" * scale if scale > 0 else ""}"')
    if "scale" not in facts:
        return Shape(VARIABLE_SCALE, writers.variable_scale, '{"scale":0,"value":"AA=="}')
    scale = facts["scale"]
    write = writers.decimal_base64 if exact else writers.number_base64(scale)
    return Shape(decimal_schema(scale, facts["length"]), write, '"AA=="')


def _money(_: Mapping[str, Any], __: pa.DataType, options: DebeziumOptions) -> Shape:
    digits = options.money_fraction_digits
    match options.decimal_handling_mode:
        case "double":
            return Shape(FLOAT64, writers.each(values.money_float), "0.0")
        case "string":
            zero = '"0.' + "0" * digits + '"' if digits else '"0"'
            return Shape(STRING, writers.each(values.money_text), zero)
    return Shape(decimal_schema(digits, None), writers.each(partial(values.money_base64, digits=digits)), '"AA=="')


def _date(_: Mapping[str, Any], __: pa.DataType, options: DebeziumOptions) -> Shape:
    match options.time_precision_mode:
        case "isostring":
            return Shape(_named(STRING, "io.debezium.time.IsoDate"), writers.date_text(*DAYS_INFINITY), '"1970-01-01Z"')
        case "connect":
            name = "org.apache.kafka.connect.data.Date"
        case _:
            name = "io.debezium.time.Date"
    return Shape(_named(INT32, name), writers.days_text(*DAYS_INFINITY), "0")


def _time(facts: Mapping[str, Any], _: pa.DataType, options: DebeziumOptions) -> Shape:
    match options.time_precision_mode:
        case "isostring":
            return Shape(_named(STRING, "io.debezium.time.IsoTime"), writers.each(values.iso_time), '"00:00:00Z"')
        case "connect":
            return Shape(_named(INT32, "org.apache.kafka.connect.data.Time"), writers.clock_text(divide=1000), "0")
        case "nanoseconds":
            return Shape(_named(INT64, "io.debezium.time.NanoTime"), writers.clock_text(multiply=1000), "0")
        case "adaptive" if facts.get("precision", 6) <= 3:
            return Shape(_named(INT32, "io.debezium.time.Time"), writers.clock_text(divide=1000), "0")
    return Shape(_named(INT64, "io.debezium.time.MicroTime"), writers.clock_text(), "0")


def _timestamp(facts: Mapping[str, Any], _: pa.DataType, options: DebeziumOptions) -> Shape:
    coarse = facts.get("precision", 6) <= 3
    millis = writers.epoch_text("ms", *MILLIS_INFINITY)
    match options.time_precision_mode:
        case "isostring":
            iso = writers.timestamp_text(-1, *ISO_INFINITY)
            return Shape(_named(STRING, "io.debezium.time.IsoTimestamp"), iso, '"1970-01-01T00:00:00Z"')
        case "connect":
            return Shape(_named(INT64, "org.apache.kafka.connect.data.Timestamp"), millis, "0")
        case "nanoseconds":
            nanos = writers.epoch_text("ns", *NANOS_INFINITY)
            return Shape(_named(INT64, "io.debezium.time.NanoTimestamp"), nanos, "0")
        case "adaptive" | "adaptive_time_microseconds" if coarse:
            return Shape(_named(INT64, "io.debezium.time.Timestamp"), millis, "0")
    micros = writers.epoch_text("us", *MICROS_INFINITY)
    return Shape(_named(INT64, "io.debezium.time.MicroTimestamp"), micros, "0")


def _timestamptz(facts: Mapping[str, Any], _: pa.DataType, __: DebeziumOptions) -> Shape:
    digits = facts.get("precision", 6)
    schema = _named(STRING, "io.debezium.time.ZonedTimestamp")
    computed = f'"1970-01-01T00:00:00{"." + "0" * digits if digits else ""}Z"'
    return Shape(schema, writers.timestamp_text(digits), '"1970-01-01T00:00:00Z"', computed=computed)


def _timetz(*_: Any) -> Shape:
    return Shape(_named(STRING, "io.debezium.time.ZonedTime"), writers.each(values.zoned_time), '"00:00:00Z"')


def _interval(_: Mapping[str, Any], __: pa.DataType, options: DebeziumOptions) -> Shape:
    if options.interval_handling_mode == "string":
        schema = _named(STRING, "io.debezium.time.Interval")
        return Shape(schema, writers.each(values.interval_iso), '"P0Y0M0DT0H0M0S"')
    return Shape(_named(INT64, "io.debezium.time.MicroDuration"), writers.each(values.interval_micros), "0")


def _hstore(_: Mapping[str, Any], __: pa.DataType, options: DebeziumOptions) -> Shape:
    held = _placeholder(options)
    pair = f"{{{held}:{held}}}"
    if options.hstore_handling_mode == "map":
        schema = Schema("map", keys=STRING, values=STRING.as_optional())
        return Shape(schema, writers.map_text, "{}", pair)
    schema = _named(STRING, "io.debezium.data.Json")
    return Shape(schema, writers.as_string(writers.map_text), '"{}"', quote(pair))


POINT = replace(
    struct(
        "io.debezium.data.geometry.Point",
        [("x", FLOAT64), ("y", FLOAT64), ("wkb", BYTES.as_optional()), ("srid", INT32.as_optional())],
        version=1,
    ),
    doc="Geometry (POINT)",
)
_ORIGIN_POINT = '{"x":0.0,"y":0.0,"wkb":"AQEAAAAAAAAAAAAAAAAAAAAAAAAA","srid":null}'
# An empty GeometryCollection.
_NO_GEOMETRY = '{"wkb":"AQcAAAAAAAAA","srid":null}'


def _point(*_: Any) -> Shape:
    return Shape(POINT, writers.each(values.point), _ORIGIN_POINT)


def _geometry(word: str) -> Callable[..., Shape]:
    schema = struct(f"io.debezium.data.geometry.{word}", [("wkb", BYTES), ("srid", INT32.as_optional())], version=1)
    return lambda *_: Shape(replace(schema, doc=word), writers.each(values.geometry), _NO_GEOMETRY)


def _vector(name: str, element: Schema) -> Callable[..., Shape]:
    schema = Schema("array", name=f"io.debezium.data.{name}", version=1, items=element)
    return lambda *_: Shape(schema, writers.each(values.vector), "[]")


def _sparse_vector(*_: Any) -> Shape:
    numbers = Schema("map", keys=INT16, values=FLOAT64)
    schema = struct("io.debezium.data.SparseDoubleVector", [("dimensions", INT16), ("vector", numbers)], version=1)
    empty = '{"dimensions":0,"vector":[]}'
    return Shape(replace(schema, doc="Sparse double vector"), writers.each(values.sparse_vector), empty)


_MAPPED: dict[str, Callable[[Mapping[str, Any], pa.DataType, DebeziumOptions], Shape]] = {
    "bool": _bool,
    "int2": _whole(INT16),
    "int4": _whole(INT32),
    "int8": _whole(INT64),
    "oid": _whole(INT64),
    "float4": _float(FLOAT32),
    "float8": _float(FLOAT64),
    "bit": _bits,
    "varbit": _bits,
    "bytea": _bytea,
    "numeric": _numeric,
    "money": _money,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
    "timetz": _timetz,
    "interval": _interval,
    "hstore": _hstore,
    "point": _point,
    "geometry": _geometry("Geometry"),
    "geography": _geometry("Geography"),
    "vector": _vector("DoubleVector", FLOAT64),
    "halfvec": _vector("FloatVector", FLOAT32),
    "sparsevec": _sparse_vector,
}


def _array(facts: Mapping[str, Any], arrow: pa.DataType, options: DebeziumOptions) -> Shape | None:
    element = facts["element"]
    if not pa.types.is_list(arrow):
        # More than one dimension, which Debezium does not support: the server's text, rather than nothing.
        return _string(options, STRING)
    if element["base"] in _NO_ARRAY:
        return None
    inner = shape(element, arrow.value_type, replace(options, include_unknown_datatypes=False))
    if inner is None:
        return _unknown_array(options)
    # An enum's elements are declared as required by Debezium, though they may be null like any other's.
    schema = Schema("array", items=inner.schema.as_optional(element["kind"] != "e"))
    return Shape(schema, writers.list_text(inner.write), "[]", _array_placeholder(element["base"], inner, options))


def _unknown_array(options: DebeziumOptions) -> Shape | None:
    if not options.include_unknown_datatypes:
        return None
    found = _unknown(options)
    return replace(
        found, write=writers.list_text(found.write), schema=Schema("array", items=found.schema.as_optional())
    )


def _array_placeholder(element: str, inner: Shape, options: DebeziumOptions) -> str | None:
    """What stands for a whole array that the log left out: the contract's list, nothing for other elements."""
    raw = _placeholder_bytes(options)
    if element in ("int4", "int8", "date"):
        return "[" + ",".join(map(str, raw)) + "]"
    if element == "uuid":
        # Version 3 by the bytes alone, as Java's nameUUIDFromBytes.
        digest = hashlib.md5(raw, usedforsecurity=False).digest()
        return f'["{uuid.UUID(bytes=digest, version=3)}"]'
    if inner.unavailable is not None and element != "hstore":
        return f"[{inner.unavailable}]"
    return None
