"""The value that rows already there have in a column added with a DEFAULT.

PostgreSQL gives it to them without a word in the log. A constant is filled in; anything that the server computed
row by row (a sequence, a clock, a random value) is not ours to guess and stops the table.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

import pyarrow as pa

from headwater.errors import Stop
from headwater.event import Column, TableSchema

# What pg_get_expr prints for a constant: 5, '-5'::integer, 1.5, 'text'::character varying, true, NULL::text.
_CONSTANT = re.compile(r"(?s)(?:'(?P<text>(?:[^']|'')*)'|(?P<bare>-?[0-9.]+|true|false|NULL))(?:::[\w ().,\"]+)?")

# Types whose constant is spelled exactly as their value is; others have an output form of their own.
_TEXT_TYPES = ("text", "character varying", "varchar", "citext", "json", "jsonb", "uuid", "numeric")


def fill_values(table: TableSchema, names: list[str]) -> dict[str, pa.Scalar]:
    """For each of these newly added columns the value of the rows that were there before. Raises Stop."""
    values = {}
    for name in names:
        column = table.column(name)
        value = constant(column)
        if value is None:
            raise Stop(
                f"{table.table}: column {name!r} was added with a value that the log does not carry"
                f" (default {column.default})"
                if column.default
                else f"{table.table}: column {name!r} was added as a generated column",
                "load the table anew: headwater snapshot, which replaces the Delta table",
            )
        values[name] = value
    return values


def constant(column: Column) -> pa.Scalar | None:
    """The column's default as a value; NULL when it has none, None when only the server knows it."""
    if column.generated:
        return None
    if column.default is None:
        return pa.scalar(None, column.arrow)
    found = _CONSTANT.fullmatch(column.default.strip())
    if found is None or "\\" in (found["text"] or ""):
        return None
    if found["bare"] == "NULL":
        return pa.scalar(None, column.arrow)
    text = found["bare"] if found["text"] is None else found["text"].replace("''", "'")
    try:
        return _parse(text, column)
    except (ValueError, InvalidOperation, pa.ArrowException):
        return None


def _parse(text: str, column: Column) -> pa.Scalar | None:
    kind = column.arrow
    if pa.types.is_boolean(kind):
        return pa.scalar({"true": True, "false": False}[text], kind) if text in ("true", "false") else None
    if pa.types.is_integer(kind):
        return pa.scalar(int(text), kind)
    if pa.types.is_floating(kind):
        return pa.scalar(float(text), kind)
    if pa.types.is_decimal(kind):
        return pa.scalar(Decimal(text).quantize(Decimal(1).scaleb(-kind.scale)), kind)
    if pa.types.is_date32(kind):
        return pa.scalar(text).cast(kind)
    if pa.types.is_string(kind) and column.type.split("(")[0] in _TEXT_TYPES:
        return pa.scalar(text, kind)
    return None
