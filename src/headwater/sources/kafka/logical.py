"""Values as Connect carries them → values of the lake type: dates, times, decimals and the like, a column at a time.

Debezium and Kafka Connect say by the name of a schema what a number, a text or some bytes mean. What our own
sources give for the same column is what comes out here, where the event still has it; TYPES.md lists them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.formats.connect import Schema
from headwater.formats.text import bytes_of
from headwater.sources.kafka import kernels

TIMESTAMP, INSTANT = pa.timestamp("us"), pa.timestamp("us", tz="UTC")
_CONNECT = "org.apache.kafka.connect.data."
_DEBEZIUM = "io.debezium."
DECIMAL = f"{_CONNECT}Decimal"
VARIABLE_SCALE = f"{_DEBEZIUM}data.VariableScaleDecimal"
MAX_PRECISION = 38

# What stands in an array for each type that Connect knows.
PHYSICAL: dict[str, pa.DataType] = {
    "int8": pa.int16(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
}


class Misfit(ValueError):
    """A value that the lake type cannot hold; why. Never shows the value."""


Convert = Callable[[pa.Array, Schema], pa.Array]


class Logical(NamedTuple):
    """The lake type of a named schema, and the way there."""

    arrow: pa.DataType
    convert: Convert


def lake_type(schema: Schema) -> pa.DataType:
    """The type that a column with this schema has in the lake."""
    match schema.type:
        case "array" if schema.items is not None:
            return pa.list_(lake_type(schema.items))
        case "map" if is_text_map(schema):
            return pa.map_(pa.string(), pa.string())
        case "struct" | "map" | "array":
            return pa.string()
    if schema.name == DECIMAL:
        return decimal_type(schema)
    named = NAMED.get(schema.name or "")
    return named.arrow if named is not None else PHYSICAL[schema.type]


def is_text_map(schema: Schema) -> bool:
    """A map from texts to texts; any other is kept as JSON."""
    sides = (schema.keys, schema.values)
    return all(side is not None and side.type == "string" and side.name is None for side in sides)


def decimal_type(schema: Schema) -> pa.DataType:
    """decimal(p,s) as far as the lake has it; a text beyond."""
    parameters = dict(schema.parameters)
    scale = int(parameters.get("scale", 0))
    precision = int(parameters.get("connect.decimal.precision", MAX_PRECISION))
    fits = 0 <= scale <= precision <= MAX_PRECISION
    return pa.decimal128(precision, scale) if fits and precision else pa.string()


def converted(schema: Schema, values: pa.Array) -> pa.Array:
    """Physical values of a scalar column as its lake type. Raises Misfit."""
    if schema.name == DECIMAL:
        return _decimal(values, schema)
    named = NAMED.get(schema.name or "")
    return values if named is None else named.convert(values, schema)


# -- dates and times -------------------------------------------------------------------------------


def _date(values: pa.Array, _schema: Schema) -> pa.Array:
    return values.cast(pa.int32()).cast(pa.date32())


def _timestamp(per_second: int) -> Convert:
    def convert(values: pa.Array, _schema: Schema) -> pa.Array:
        try:
            if per_second < 1_000_000:
                values = pc.multiply_checked(values, 1_000_000 // per_second)
        except pa.ArrowInvalid:
            raise Misfit("a time beyond 64 bits of microseconds") from None
        if per_second > 1_000_000:
            values = _whole(values, per_second // 1_000_000)
        return values.cast(TIMESTAMP)

    return convert


def _whole(values: pa.Array, divisor: int) -> pa.Array:
    """Divided without rest: a part of a microsecond has no place in the lake. The ends of time stay where they are."""
    quotient = pc.divide(values, divisor)
    ends = pc.is_in(values, value_set=pa.array(list(_ENDS.values()), pa.int64()))
    if pc.any(pc.and_not(pc.not_equal(pc.multiply(quotient, divisor), values), ends)).as_py():
        raise Misfit("a part of a microsecond")
    return pc.if_else(ends, values, quotient)


def _clock(per_second: int) -> Convert:
    """hours:minutes:seconds with as many digits of the fraction as it has; some databases' may be negative or long."""

    def convert(values: pa.Array, _schema: Schema) -> pa.Array:
        distinct = values.dictionary_encode()
        texts = [_clock_text(value, per_second) for value in distinct.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(distinct.indices)

    return convert


def _clock_text(value: int, per_second: int) -> str:
    seconds, rest = divmod(abs(value), per_second)
    fraction = f".{rest:0{len(str(per_second)) - 1}}".rstrip("0") if rest else ""
    sign = "-" if value < 0 else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


_INSTANT = re.compile(
    r"([+-]?\d{4,})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:(Z)|([+-])(\d\d):(\d\d))", re.ASCII
)
_ENDS = {"infinity": np.iinfo(np.int64).max, "-infinity": np.iinfo(np.int64).min}
# Days from 0000-03-01 to 1970-01-01, and of 400 years, after which the calendar repeats.
_EPOCH_DAYS, _ERA_DAYS = 719_468, 146_097


def _instant(kind: pa.DataType) -> Convert:
    def convert(values: pa.Array, _schema: Schema) -> pa.Array:
        try:
            return values.cast(INSTANT).cast(kind)
        except pa.ArrowInvalid:
            # Years of five digits, years before Christ, the ends of time.
            distinct = values.dictionary_encode()
            micros = [instant_plain(text) for text in distinct.dictionary.to_pylist()]
            return pa.array(micros, pa.int64()).take(distinct.indices).cast(kind)

    return convert


def instant_plain(text: str) -> int:
    """ISO 8601, as Java writes it, as microseconds since the epoch."""
    if text in _ENDS:
        return int(_ENDS[text])
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise Misfit("not a time with a zone")
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    fraction = (found[7] or "").ljust(9, "0")
    if fraction[6:].strip("0"):
        raise Misfit("a part of a microsecond")
    offset = 0 if found[8] else (int(found[10]) * 60 + int(found[11])) * (-1 if found[9] == "-" else 1)
    seconds = (_days(year, month, day) * 24 + hour) * 3600 + (minute - offset) * 60 + second
    micros = seconds * 1_000_000 + int(fraction[:6] or 0)
    if not _ENDS["-infinity"] <= micros <= _ENDS["infinity"]:
        raise Misfit("a time beyond 64 bits of microseconds")
    return micros


def _days(year: int, month: int, day: int) -> int:
    """Days since the epoch in the calendar that ISO 8601 extends to all years."""
    years = year - (month <= 2)
    era, of_era = divmod(years, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * _ERA_DAYS + of_era * 365 + of_era // 4 - of_era // 100 + of_year - _EPOCH_DAYS


def _iso_date(values: pa.Array, _schema: Schema) -> pa.Array:
    plain = pc.replace_substring_regex(values, "Z$", "")
    try:
        return plain.cast(pa.date32())
    except pa.ArrowInvalid:
        days = [None if text is None else _date_plain(text) for text in plain.to_pylist()]
        return pa.array(days, pa.int32()).cast(pa.date32())


def _date_plain(text: str) -> int:
    found = re.fullmatch(r"([+-]?\d{4,})-(\d\d)-(\d\d)", text, re.ASCII)
    if found is None:
        raise Misfit("not a date")
    return _days(*map(int, found.groups()))


def _without_zone(values: pa.Array, _schema: Schema) -> pa.Array:
    return pc.replace_substring_regex(values, "Z$", "")


# -- numbers and bits ------------------------------------------------------------------------------


def _decimal(values: pa.Array, schema: Schema) -> pa.Array:
    kind = decimal_type(schema)
    if pa.types.is_string(kind):
        scale = int(dict(schema.parameters).get("scale", 0))
        return pa.array([None if v is None else decimal_text(v, scale) for v in values.to_pylist()], pa.string())
    data, offsets = bytes_of(values)
    begins, words = offsets[:-1].copy(), np.zeros(2 * len(values), dtype=np.uint64)
    if values.null_count:
        begins[values.is_null().to_numpy(zero_copy_only=False)] = -1
    if kernels.decimal_words(data, begins, offsets[1:].copy(), words) >= 0:
        raise Misfit(f"more digits than {kind}")
    valid = values.is_valid().buffers()[1] if values.null_count else None
    if values.null_count:
        # From 0 on: the mask of a slice begins inside a byte.
        valid = pa.array(values.is_valid().to_numpy(zero_copy_only=False)).buffers()[1]
    made = pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(words)])
    try:
        made.validate(full=True)
    except pa.ArrowInvalid:
        raise Misfit(f"more digits than {kind}") from None
    return made


def decimal_text(unscaled: bytes, scale: int) -> str:
    """A decimal's digits, with all that its scale asks for."""
    number = int.from_bytes(unscaled, "big", signed=True)
    if scale <= 0:
        return str(number * 10**-scale)
    digits = f"{abs(number):0{scale + 1}}"
    return f"{'-' if number < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def _bits(values: pa.Array, schema: Schema) -> pa.Array:
    """As the database writes them, `0101`; Debezium sends the lowest byte first."""
    length = int(dict(schema.parameters).get("length", 0))

    def text(data: bytes) -> str:
        size = length if 0 < length <= 8 * len(data) else 8 * len(data)
        return f"{int.from_bytes(data, 'little'):0{size}b}"

    return pa.array([None if data is None else text(data) for data in values.to_pylist()], pa.string())


_TIME, _DATA = f"{_DEBEZIUM}time.", f"{_DEBEZIUM}data."
NAMED: dict[str, Logical] = {
    f"{_TIME}Date": Logical(pa.date32(), _date),
    f"{_CONNECT}Date": Logical(pa.date32(), _date),
    f"{_TIME}IsoDate": Logical(pa.date32(), _iso_date),
    f"{_TIME}Time": Logical(pa.string(), _clock(1_000)),
    f"{_CONNECT}Time": Logical(pa.string(), _clock(1_000)),
    f"{_TIME}MicroTime": Logical(pa.string(), _clock(1_000_000)),
    f"{_TIME}NanoTime": Logical(pa.string(), _clock(1_000_000_000)),
    f"{_TIME}IsoTime": Logical(pa.string(), _without_zone),
    f"{_TIME}Timestamp": Logical(TIMESTAMP, _timestamp(1_000)),
    f"{_CONNECT}Timestamp": Logical(TIMESTAMP, _timestamp(1_000)),
    f"{_TIME}MicroTimestamp": Logical(TIMESTAMP, _timestamp(1_000_000)),
    f"{_TIME}NanoTimestamp": Logical(TIMESTAMP, _timestamp(1_000_000_000)),
    f"{_TIME}IsoTimestamp": Logical(TIMESTAMP, _instant(TIMESTAMP)),
    f"{_TIME}ZonedTimestamp": Logical(INSTANT, _instant(INSTANT)),
    f"{_DATA}Bits": Logical(pa.string(), _bits),
}
