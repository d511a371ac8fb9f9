"""JSON texts as structure: the schema that a text implies, and the text in the converter's own spelling.

Every text may have a schema of its own, so this works text by text; equal schemas form one group.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.formats.connect import BOOLEAN, BYTES, FLOAT64, INT32, INT64, STRING, Field, Schema, quote
from headwater.formats.plain import float_text
from headwater.formats.text import Longs, Text
from headwater.transforms.events_model import Leaf, Node
from headwater.transforms.plain_text import unquoted

LOG = logging.getLogger(__name__)


class _Float(str):
    """A number with a point or an exponent, in the digits it was written with."""


@dataclass(frozen=True)
class _Rules:
    nulls: bool
    empty_arrays: bool


def expanded(payload: Node, name: str, *, nulls: bool, empty_arrays: bool) -> Iterator[tuple[Longs, Node]]:
    """(rows, what they expand to), group by group; texts that are no object or array stay as they are."""
    texts = unquoted(payload).to_pylist()
    rules = _Rules(nulls, empty_arrays)
    groups: dict[Schema | None, list[int]] = {}
    made: list[str] = []
    for row, text in enumerate(texts):
        schema, written = _expand(text, name, rules)
        groups.setdefault(schema, []).append(row)
        made.append(written)
    failed = len(groups.get(None, ())) - texts.count(None)
    if failed > 0:
        LOG.warning("outbox: %d payloads are no JSON object or array that can be expanded; they stay text", failed)
    for schema, rows in groups.items():
        index = np.array(rows, dtype=np.int64)
        if schema is None:
            yield index, payload.take(index)
        else:
            yield index, Leaf(schema, Text.from_arrow(pa.array([made[row] for row in rows], pa.string())))


def _expand(text: str | None, name: str, rules: _Rules) -> tuple[Schema | None, str]:
    if text is None or not text.startswith(("{", "[")):
        return None, ""
    try:
        value = json.loads(text, parse_float=_Float, parse_constant=_refuse)
        schema = _schema(value, name, rules)
        return (None, "") if schema is None else (schema, _text(value, schema))
    except ValueError:
        return None, ""


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _schema(value: Any, name: str, rules: _Rules) -> Schema | None:
    """The optional schema of a value; None when it is left out. ValueError when it has none."""
    match value:
        case None:
            return BYTES.as_optional() if rules.nulls else None
        case bool():
            return BOOLEAN.as_optional()
        case _Float():
            return FLOAT64.as_optional()
        case str():
            return STRING.as_optional()
        case int():
            if not -(1 << 63) <= value < 1 << 63:
                raise ValueError("more than 64 bits")
            return (INT32 if -(1 << 31) <= value < 1 << 31 else INT64).as_optional()
        case dict():
            members = ((key, _schema(inner, f"{name}.{key}", rules)) for key, inner in value.items())
            fields = tuple(Field(key, schema) for key, schema in members if schema is not None)
            return Schema("struct", optional=True, name=name, fields=fields)
    return _array(value, name, rules)


def _array(values: list[Any], name: str, rules: _Rules) -> Schema | None:
    schemas = [_schema(value, name, rules) for value in values if value is not None]
    known = [schema for schema in schemas if schema is not None]
    if not known:
        return Schema("array", optional=True, items=STRING.as_optional()) if rules.empty_arrays else None
    items = known[0]
    for other in known[1:]:
        items = _merged(items, other)
    return Schema("array", optional=True, items=items)


def _merged(one: Schema, other: Schema) -> Schema:
    """The schema of an array's elements: all of one kind; objects may have different fields."""
    if one.type == other.type == "struct":
        fields = {field.name: field.schema for field in one.fields}
        for field in other.fields:
            known = fields.get(field.name)
            fields[field.name] = field.schema if known is None else _merged(known, field.schema)
        return Schema("struct", optional=True, name=one.name, fields=tuple(Field(*pair) for pair in fields.items()))
    if one != other:
        raise ValueError("elements of different kinds")
    return one


def _text(value: Any, schema: Schema) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case _Float():
            return float_text(repr(float(value)))
        case str():
            return quote(value)
        case dict():
            members = (f"{quote(field.name)}:{_text(value.get(field.name), field.schema)}" for field in schema.fields)
            return "{" + ",".join(members) + "}"
        case list() if schema.items is not None:
            return "[" + ",".join(_text(element, schema.items) for element in value) + "]"
    return str(value)
