"""MySQL and MariaDB types → Connect schema and JSON writer, under every type mode of Debezium.

One table of facts: the contract's section "MySQL / MariaDB". `debezium.py` applies it to columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.formats import writers
from headwater.formats.connect import BOOLEAN, BYTES, FLOAT64, INT32, INT64, STRING, Schema, struct
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.text import Text, null_state
from headwater.formats.writers import Writer
from headwater.sources.mysql import debezium_values as values
from headwater.sources.mysql.types import BINARIES, GEOMETRIES, INTEGERS, TEXTS

INT16 = Schema("int16")
FLOAT32 = Schema("float")

_SIGNED = {"tinyint": INT16, "smallint": INT16, "mediumint": INT32, "int": INT32, "bigint": INT64}
_UNSIGNED = {"tinyint": INT16, "smallint": INT32, "mediumint": INT32, "int": INT64, "bigint": INT64}
# No date of the server is infinite; the numbers stand for nothing.
_NEVER = (0, 0)


@dataclass(frozen=True)
class Shape:
    """A type's form: schema (not optional), writer, and the JSON text of its zero."""

    schema: Schema
    write: Writer
    zero: str


def _named(base: Schema, name: str, **parameters: str) -> Schema:
    return replace(base, name=name, version=1, parameters=tuple(parameters.items()))


def shape(facts: Mapping[str, Any], arrow: pa.DataType, options: DebeziumOptions) -> Shape:
    """The form of a column with these facts."""
    kind = facts["type"]
    if "cast" in facts:
        return Shape(STRING, writers.string_text, '""')
    if kind in INTEGERS:
        return _integer(facts, options)
    if kind in TEXTS or kind in ("inet4", "inet6"):
        return Shape(STRING, writers.string_text, '""')
    if kind in BINARIES:
        return _binary(options)
    if kind in GEOMETRIES:
        return _geometry(kind)
    return _MAPPED[kind](facts, arrow, options)


def _integer(facts: Mapping[str, Any], options: DebeziumOptions) -> Shape:
    kind, unsigned = facts["type"], facts.get("unsigned")
    if kind == "bigint" and unsigned:
        if options.bigint_unsigned_handling_mode == "precise":
            return Shape(_decimal_schema(0, 20), writers.decimal_base64, '"AA=="')
        return Shape(INT64, _wrapped, "0")
    return Shape((_UNSIGNED if unsigned else _SIGNED)[kind], writers.int_text, "0")


def _wrapped(array: pa.Array) -> Text:
    """Unsigned 64 bits read as signed ones."""
    return writers.long_text(np.ascontiguousarray(writers.words_of(array)[::2]), null_state(array))


def _binary(options: DebeziumOptions) -> Shape:
    match options.binary_handling_mode:
        case "base64":
            return Shape(STRING, writers.base64_text, '""')
        case "base64-url-safe":
            return Shape(STRING, writers.base64_url_text, '""')
        case "hex":
            return Shape(STRING, writers.hex_text, '""')
    return Shape(BYTES, writers.base64_text, '""')


def _decimal_schema(scale: int, precision: int) -> Schema:
    parameters = (("scale", str(scale)), ("connect.decimal.precision", str(precision)))
    return Schema("bytes", name="org.apache.kafka.connect.data.Decimal", version=1, parameters=parameters)


def _decimal(facts: Mapping[str, Any], arrow: pa.DataType, options: DebeziumOptions) -> Shape:
    exact, scale = pa.types.is_decimal128(arrow), facts["scale"]
    match options.decimal_handling_mode:
        case "double":
            return Shape(FLOAT64, writers.decimal_float if exact else writers.number_float, "0.0")
        case "string":
            zero = f'"0{"." + "0" * scale if scale else ""}"'
            return Shape(STRING, writers.decimal_text if exact else writers.string_text, zero)
    write = writers.decimal_base64 if exact else writers.number_base64(scale)
    return Shape(_decimal_schema(scale, facts["length"]), write, '"AA=="')


def _float(facts: Mapping[str, Any], _: pa.DataType, __: DebeziumOptions) -> Shape:
    if facts["type"] == "float" and "length" in facts:
        # FLOAT(M,D), and FLOAT(p) of more than 24 bits.
        return Shape(FLOAT64, lambda array: writers.float_text(pc.cast(array, pa.float64())), "0.0")
    return Shape(FLOAT32 if facts["type"] == "float" else FLOAT64, writers.float_text, "0.0")


def _bit(facts: Mapping[str, Any], _: pa.DataType, __: DebeziumOptions) -> Shape:
    length = facts["length"]
    if length == 1:
        return Shape(BOOLEAN, writers.each(values.bit), "false")
    return Shape(_named(BYTES, "io.debezium.data.Bits", length=str(length)), writers.each(values.bits), '""')


def _labels(facts: Mapping[str, Any], _: pa.DataType, __: DebeziumOptions) -> Shape:
    name = "io.debezium.data.Enum" if facts["type"] == "enum" else "io.debezium.data.EnumSet"
    return Shape(_named(STRING, name, allowed=",".join(facts["labels"])), writers.string_text, '""')


def _text(name: str) -> Callable[..., Shape]:
    return lambda *_: Shape(_named(STRING, name), writers.string_text, '""')


def _json(*_: Any) -> Shape:
    return Shape(_named(STRING, "io.debezium.data.Json"), writers.each(values.compact_json), '"{}"')


def _year(*_: Any) -> Shape:
    return Shape(_named(INT32, "io.debezium.time.Year"), writers.int_text, "0")


def _date(_: Mapping[str, Any], __: pa.DataType, options: DebeziumOptions) -> Shape:
    match options.time_precision_mode:
        case "isostring":
            return Shape(_named(STRING, "io.debezium.time.IsoDate"), writers.date_text(*_NEVER), '"1970-01-01Z"')
        case "connect":
            return Shape(_named(INT32, "org.apache.kafka.connect.data.Date"), writers.days_text(*_NEVER), "0")
    return Shape(_named(INT32, "io.debezium.time.Date"), writers.days_text(*_NEVER), "0")


def _time(_: Mapping[str, Any], __: pa.DataType, options: DebeziumOptions) -> Shape:
    match options.time_precision_mode:
        case "isostring":
            return Shape(_named(STRING, "io.debezium.time.IsoTime"), writers.each(values.iso_time), '"00:00:00Z"')
        case "connect":
            schema = _named(INT32, "org.apache.kafka.connect.data.Time")
            return Shape(schema, writers.each(values.milli_time), "0")
        case "nanoseconds":
            return Shape(_named(INT64, "io.debezium.time.NanoTime"), writers.each(values.nano_time), "0")
    return Shape(_named(INT64, "io.debezium.time.MicroTime"), writers.each(values.micro_time), "0")


def _datetime(facts: Mapping[str, Any], _: pa.DataType, options: DebeziumOptions) -> Shape:
    millis = writers.epoch_text("ms", *_NEVER)
    match options.time_precision_mode:
        case "isostring":
            schema = _named(STRING, "io.debezium.time.IsoTimestamp")
            return Shape(schema, writers.timestamp_text(-1), '"1970-01-01T00:00:00Z"')
        case "connect":
            return Shape(_named(INT64, "org.apache.kafka.connect.data.Timestamp"), millis, "0")
        case "nanoseconds":
            return Shape(_named(INT64, "io.debezium.time.NanoTimestamp"), writers.epoch_text("ns", *_NEVER), "0")
        case "adaptive" | "adaptive_time_microseconds" if facts.get("fraction", 0) <= 3:
            return Shape(_named(INT64, "io.debezium.time.Timestamp"), millis, "0")
    return Shape(_named(INT64, "io.debezium.time.MicroTimestamp"), writers.epoch_text("us", *_NEVER), "0")


def _timestamp(facts: Mapping[str, Any], _: pa.DataType, __: DebeziumOptions) -> Shape:
    schema = _named(STRING, "io.debezium.time.ZonedTimestamp")
    return Shape(schema, writers.timestamp_text(facts.get("fraction", 0)), '"1970-01-01T00:00:00Z"')


POINT = replace(
    struct(
        "io.debezium.data.geometry.Point",
        [("x", FLOAT64), ("y", FLOAT64), ("wkb", BYTES.as_optional()), ("srid", INT32.as_optional())],
        version=1,
    ),
    doc="Geometry (POINT)",
)
GEOMETRY = replace(
    struct("io.debezium.data.geometry.Geometry", [("wkb", BYTES), ("srid", INT32.as_optional())], version=1),
    doc="Geometry",
)
_ORIGIN_POINT = '{"x":0.0,"y":0.0,"wkb":"AQEAAAAAAAAAAAAAAAAAAAAAAAAA","srid":null}'
# An empty GeometryCollection.
_NO_GEOMETRY = '{"wkb":"AQcAAAAAAAAA","srid":null}'


def _geometry(kind: str) -> Shape:
    if kind == "point":
        return Shape(POINT, writers.each(values.point), _ORIGIN_POINT)
    return Shape(GEOMETRY, writers.each(values.geometry), _NO_GEOMETRY)


def _vector(*_: Any) -> Shape:
    schema = Schema("array", name="io.debezium.data.FloatVector", version=1, items=FLOAT32)
    return Shape(schema, writers.list_text(writers.float_text), "[]")


_MAPPED: dict[str, Callable[[Mapping[str, Any], pa.DataType, DebeziumOptions], Shape]] = {
    "decimal": _decimal,
    "float": _float,
    "double": _float,
    "bit": _bit,
    "enum": _labels,
    "set": _labels,
    "json": _json,
    "uuid": _text("io.debezium.data.Uuid"),
    "year": _year,
    "date": _date,
    "time": _time,
    "datetime": _datetime,
    "timestamp": _timestamp,
    "vector": _vector,
}
