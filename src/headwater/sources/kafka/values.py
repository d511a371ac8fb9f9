"""Values of one column → one Arrow array of its lake type: from JSON as it stands in the record, or from Python.

Scalars of JSON go by columns through kernels and Arrow's casts; arrays, maps and structs, and whatever Avro
gives, are Python's values before they are Arrow's.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import Unrepresentable
from headwater.event import Column
from headwater.formats.connect import Schema
from headwater.formats.text import Text
from headwater.sources.kafka import kernels
from headwater.sources.kafka.connect import schema_from_json
from headwater.sources.kafka.logical import (
    DECIMAL,
    PHYSICAL,
    VARIABLE_SCALE,
    Misfit,
    converted,
    decimal_text,
    is_text_map,
    lake_type,
)

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_SCALARS = {
    "boolean": (kernels.BOOLEAN,),
    "float": (kernels.INTEGER, kernels.FLOAT, kernels.STRING),
    "double": (kernels.INTEGER, kernels.FLOAT, kernels.STRING),
    "string": (kernels.STRING, kernels.ESCAPED),
    "bytes": (kernels.STRING, kernels.ESCAPED),
}
# Whole numbers below are exact.
_EXACT = {"float": 1 << 24, "double": 1 << 53}


@dataclass(frozen=True)
class Tokens:
    """The values of a column as JSON: token i is data[start[i]:start[i] + size[i]], and `kind` says what it is."""

    data: Bytes
    start: Longs
    size: npt.NDArray[np.int32]
    kind: Bytes

    def where(self, rows: Longs) -> Tokens:
        return Tokens(self.data, self.start[rows], self.size[rows], self.kind[rows])

    @property
    def missing(self) -> Mask:
        return np.asarray(self.kind <= kernels.NULL)

    def text(self, inside: int = 0) -> Text:
        """The tokens, or what stands `inside` their quotes."""
        begin, end = self.start + inside, self.start + self.size - inside
        missing = self.missing
        if missing.any():
            begin, end = np.where(missing, 0, begin), np.where(missing, 0, end)
            return Text(self.data, begin, end, missing.astype(np.uint8))
        return Text(self.data, begin, end)


@dataclass(frozen=True)
class Values:
    """A column's values, and where an event says that the value did not change instead of giving it."""

    array: pa.Array
    unchanged: Mask | None = None


def from_tokens(column: Column, tokens: Tokens, placeholder: str, table: str) -> Values:
    """A column from JSON."""
    schema = schema_of(column)
    try:
        if column.detail.get("cast") == "string" or column.detail.get("nested"):
            return _verbatim(tokens)
        if schema.type in PHYSICAL:
            return _scalar(schema, tokens, placeholder)
        if lake_type(schema) == pa.string() and schema.name != VARIABLE_SCALE:
            return _verbatim(tokens)
        texts = tokens.text().to_arrow().to_pylist()
        return _objects(schema, [None if t is None else json.loads(t) for t in texts], placeholder, as_json=True)
    except Misfit as error:
        raise refusal(column, table, str(error)) from None


def from_objects(column: Column, values: Sequence[Any], placeholder: str, table: str) -> Values:
    """A column from Python's values, as Avro gives them."""
    schema = schema_of(column)
    try:
        if column.detail.get("cast") == "string":
            texts = [value if value is None or isinstance(value, str) else json_text(value) for value in values]
            return Values(pa.array(texts, pa.string()))
        return _objects(schema, values, placeholder, as_json=False)
    except Misfit as error:
        raise refusal(column, table, str(error)) from None


def from_physical(column: Column, array: pa.Array, placeholder: str, table: str) -> Values:
    """A column of scalars as Avro has them."""
    if column.detail.get("cast") == "string":
        return from_objects(column, array.to_pylist(), placeholder, table)
    try:
        return _available(schema_of(column), array, placeholder)
    except Misfit as error:
        raise refusal(column, table, str(error)) from None


def refusal(column: Column, table: str, cause: str) -> Unrepresentable:
    """The error for a value that the column's lake type cannot hold."""
    error = Unrepresentable(
        f"column {table}.{column.name} ({column.type}) holds a value that {column.arrow} cannot",
        f'To keep the event\'s own text instead: source.cast: {{"{table}.{column.name}": string}}',
        cause=cause,
    )
    error.column = column.name
    return error


def schema_of(column: Column) -> Schema:
    """The Connect schema that the column came with."""
    return _parsed(json.dumps(column.detail["connect"], sort_keys=True))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Schema:
    return schema_from_json(json.loads(text))


# -- JSON by columns -------------------------------------------------------------------------------


def _verbatim(tokens: Tokens) -> Values:
    """The event's own text; of a JSON string, what it means."""
    quoted = (tokens.kind == kernels.STRING) | (tokens.kind == kernels.ESCAPED)
    if not quoted.any():
        return Values(tokens.text().to_arrow())
    rows = np.flatnonzero(quoted)
    if rows.size == quoted.size - int(tokens.missing.sum()):
        return Values(_strings(tokens))
    inside, outside = _strings(tokens.where(rows)).to_pylist(), tokens.text().to_arrow().to_pylist()
    for row, text in zip(rows.tolist(), inside, strict=True):
        outside[row] = text
    return Values(pa.array(outside, pa.string()))


def _scalar(schema: Schema, tokens: Tokens, placeholder: str) -> Values:
    if schema.name == DECIMAL and not np.isin(tokens.kind, _SCALARS["bytes"]).any():
        # JsonConverter's decimal.format=NUMERIC.
        kind = lake_type(schema)
        return Values(_cast(tokens.text().to_arrow(), kind, f"a value that is no {kind}"))
    wanted = _SCALARS.get(schema.type, (kernels.INTEGER,))
    wrong = ~tokens.missing & ~np.isin(tokens.kind, wanted)
    if wrong.any():
        raise Misfit(f"a value that is no {schema.type}")
    match schema.type:
        case "boolean":
            truth = tokens.data[np.where(tokens.missing, 0, tokens.start)] == ord("t")
            array = pa.array(truth, pa.bool_(), mask=tokens.missing if tokens.missing.any() else None)
        case "string":
            array = _strings(tokens)
        case "bytes":
            array = _binary(tokens)
        case "float" | "double":
            array = _floats(schema, tokens)
        case _:
            array = _cast(tokens.text().to_arrow(), PHYSICAL[schema.type], f"a number beyond {schema.type}")
    return _available(schema, array, placeholder)


def _strings(tokens: Tokens) -> pa.Array:
    text = tokens.text(inside=1)
    if not (tokens.kind == kernels.ESCAPED).any():
        return _valid_text(text.to_arrow())
    return _valid_text(_rewritten(kernels.unescape, text, "a text that is damaged").to_arrow())


def _valid_text(array: pa.Array) -> pa.Array:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raise Misfit("a text that is not UTF-8") from None
    return array


def _binary(tokens: Tokens) -> pa.Array:
    text = tokens.text(inside=1)
    if (tokens.kind == kernels.ESCAPED).any():
        text = _rewritten(kernels.unescape, text, "a text that is damaged")
    decoded = _rewritten(kernels.base64_bytes, text, "bytes that are no base64")
    # A string array of Arrow's by its buffers: its bytes need not be text.
    return decoded.to_arrow().view(pa.binary())


def _rewritten(kernel: Any, text: Text, what: str) -> Text:
    """Every text through a kernel that makes it no longer."""
    ends = np.zeros(len(text) + 1, dtype=np.int64)
    out = np.empty(int((text.ends - text.begins).sum()) + 1, dtype=np.uint8)
    if kernel(text.data, text.begins, text.ends, ends, out) >= 0:
        raise Misfit(what)
    return Text.from_ends(out[: ends[-1]], ends, text.state)


def _floats(schema: Schema, tokens: Tokens) -> pa.Array:
    # NaN and the infinities are quoted.
    quoted = tokens.kind == kernels.STRING
    inside = np.where(quoted, 1, 0)
    found = Tokens(tokens.data, tokens.start + inside, (tokens.size - 2 * inside).astype(np.int32), tokens.kind)
    array = _cast(found.text().to_arrow(), PHYSICAL[schema.type], f"a value that is no {schema.type}")
    whole = array.filter(pa.array(tokens.kind == kernels.INTEGER))
    if len(whole) and pc.any(pc.greater_equal(pc.abs(whole), float(_EXACT[schema.type]))).as_py():
        raise Misfit(f"a whole number that {schema.type} cannot hold exactly")
    return array


def _cast(texts: pa.Array, kind: pa.DataType, what: str) -> pa.Array:
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        # Arrow's own words would show the value.
        raise Misfit(what) from None


# -- values that are Python's ----------------------------------------------------------------------


def _objects(schema: Schema, values: Sequence[Any], placeholder: str, *, as_json: bool) -> Values:
    if schema.type in PHYSICAL:
        return _available(schema, _physical(schema, values, as_json), placeholder)
    forms = _placeholders(placeholder)
    left_out = np.array([value is not None and value in forms for value in values], dtype=bool)
    if left_out.any():
        values = [None if left else value for left, value in zip(left_out, values, strict=True)]
    return Values(arrow_of(schema, values, as_json=as_json), left_out if left_out.any() else None)


def arrow_of(schema: Schema, values: Sequence[Any], *, as_json: bool) -> pa.Array:
    """Values of any schema as its lake type; `as_json`: as JsonConverter writes them, bytes as base64."""
    if schema.type in PHYSICAL:
        return converted(schema, _physical(schema, values, as_json))
    if schema.type == "array" and schema.items is not None:
        mask = np.array([value is None for value in values], dtype=bool)
        sizes = [0 if value is None else len(value) for value in values]
        offsets = np.zeros(len(values) + 1, dtype=np.int32)
        np.cumsum(sizes, out=offsets[1:])
        items = arrow_of(schema.items, [item for value in values if value for item in value], as_json=as_json)
        return pa.ListArray.from_arrays(pa.array(offsets), items, mask=pa.array(mask))
    if schema.type == "map" and is_text_map(schema):
        return pa.array([None if v is None else list(v.items()) for v in values], lake_type(schema))
    if schema.name == VARIABLE_SCALE:
        return pa.array([None if v is None else _variable(v, as_json) for v in values], pa.string())
    return pa.array([None if value is None else json_text(value) for value in values], pa.string())


def _physical(schema: Schema, values: Sequence[Any], as_json: bool) -> pa.Array:
    if as_json and schema.type == "bytes":
        values = [None if value is None else base64.b64decode(value) for value in values]
    elif as_json and schema.type in ("float", "double"):
        values = [None if value is None else float(value) for value in values]
    try:
        return pa.array(values, PHYSICAL[schema.type])
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        raise Misfit(f"a value that is no {schema.type}") from None


def _variable(value: dict[str, Any], as_json: bool) -> str:
    unscaled = base64.b64decode(value["value"]) if as_json else value["value"]
    return decimal_text(unscaled, value["scale"])


def json_text(value: Any) -> str:
    """A value as JSON, bytes in base64."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_encoded)


def _encoded(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is no value of an event")


# -- values that the event leaves out --------------------------------------------------------------


def _available(schema: Schema, array: pa.Array, placeholder: str) -> Values:
    """The lake's values, and where Debezium's placeholder stands for one that did not change."""
    if schema.type not in ("string", "bytes"):
        return Values(converted(schema, array))
    if schema.type == "string":
        stands = [placeholder, json.dumps({placeholder: placeholder}, separators=(",", ":"))]
        marked = pc.is_in(array, value_set=pa.array(stands))
    else:
        marked = pc.equal(array, placeholder.encode())
    if not pc.any(marked).as_py():
        return Values(converted(schema, array))
    mask = pc.fill_null(marked, False)
    left = pc.if_else(mask, pa.scalar(None, array.type), array)
    return Values(converted(schema, left), mask.to_numpy(zero_copy_only=False))


@lru_cache(maxsize=8)
def _placeholders(placeholder: str) -> tuple[Any, ...]:
    """What Debezium puts into arrays and maps instead: the text, its bytes, a UUID made of it."""
    data = placeholder.encode()
    return (
        [placeholder],
        [data],
        [base64.b64encode(data).decode()],
        list(data),
        [str(_name_uuid(data))],
        {placeholder: placeholder},
    )


def _name_uuid(data: bytes) -> UUID:
    """Java's UUID.nameUUIDFromBytes."""
    return UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3)
