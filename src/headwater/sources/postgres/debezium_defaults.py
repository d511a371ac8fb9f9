"""Column defaults as they stand in a Connect schema.

A literal is read as the column's own values are; what only the server can compute becomes the type's zero.
"""

from __future__ import annotations

import re

import numpy as np

from headwater.errors import Unrepresentable
from headwater.event import Column
from headwater.formats import kernels
from headwater.sources.postgres.debezium_types import Shape
from headwater.sources.postgres.values import parse

# The types whose defaults Debezium reads; for the others a schema has none.
_READ = {
    *("bit", "varbit", "bool", "bpchar", "varchar", "text", "numeric", "float4", "float8", "int2", "int4", "int8"),
    *("json", "jsonb", "xml", "uuid", "date", "time", "timestamp", "timestamptz", "interval"),
}
_COMPUTED = re.compile(
    r"(?is)(?:.*\w\(.*\).*|current_timestamp.*|current_time.*|current_date|localtime.*|localtimestamp.*)"
)
_LITERAL = re.compile(r"(?s)[Bb]?'((?:[^']|'')*)'(?:::.+)?")
_NUMBER = re.compile(r"\(?(-?[0-9.]+(?:[eE][+-]?\d+)?)\)?(?:::.+)?")


def literal_of(expression: str) -> str | None:
    """The text of a constant as the server printed it; None when the expression is no constant."""
    quoted = _LITERAL.fullmatch(expression)
    if quoted:
        return quoted[1].replace("''", "'")
    number = _NUMBER.fullmatch(expression)
    if number:
        return number[1]
    return {"true": "t", "false": "f"}.get(expression.lower())


def default_text(column: Column, shape: Shape) -> str | None:
    """JSON text of the column's default in its schema; None when the schema has none."""
    facts, expression = column.detail, column.default
    if expression is None or "element" in facts or shape.schema.type == "struct":
        return None
    if facts["base"] not in _READ and facts["kind"] != "e":
        return None
    text = literal_of(expression)
    if text is None:
        return (shape.computed or shape.zero) if _COMPUTED.fullmatch(expression) else None
    raw = np.frombuffer(text.encode(), dtype=np.uint8)
    try:
        value = parse(column, raw, np.zeros(1, np.int64), np.array([len(raw)], np.int32))
    except Unrepresentable:
        return None
    written = shape.write(value)
    if not written.rows(kernels.VALUE)[0]:
        return None
    found: str = written.to_arrow()[0].as_py()
    return found
