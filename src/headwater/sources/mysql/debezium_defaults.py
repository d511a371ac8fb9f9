"""Column defaults as they stand in a Connect schema.

A literal is read as the column's own values are; what only the server can compute becomes the type's zero.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

import pyarrow as pa

from headwater.event import Column
from headwater.formats import kernels
from headwater.sources.mysql.debezium_types import Shape
from headwater.sources.mysql.types import INTEGERS, TEXTS

_COMPUTED = re.compile(r"(?i)(?:current_timestamp|now|localtime|localtimestamp)(?:\(\d*\))?(?: on update .*)?")
_READ = (
    INTEGERS.keys()
    | TEXTS
    | {
        "binary",
        "varbinary",
        "decimal",
        "float",
        "double",
        "enum",
        "set",
        "year",
        "date",
        "datetime",
        "timestamp",
        "bit",
        "time",
    }
)


def default_text(column: Column, shape: Shape) -> str | None:
    """JSON text of the column's default in its schema; None when the schema has none."""
    text, kind = column.default, column.detail["type"]
    if text is None or column.generated or kind not in _READ or "cast" in column.detail:
        return None
    if _COMPUTED.fullmatch(text):
        return shape.zero
    if text.startswith("'") and text.endswith("'") and len(text) > 1:
        # MariaDB writes literals as SQL does, MySQL as they are.
        text = text[1:-1].replace("''", "'").replace("\\\\", "\\")
    value = _value(text, column)
    if value is None:
        # A date that no calendar has.
        return None if column.nullable else shape.zero
    try:
        written = shape.write(pa.array([value], column.arrow))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None
    if not written.rows(kernels.VALUE)[0]:
        return None
    found: str = written.to_arrow()[0].as_py()
    return found


def _value(text: str, column: Column) -> object:
    arrow = column.arrow
    try:
        if pa.types.is_integer(arrow):
            return int(text)
        if pa.types.is_decimal(arrow):
            return Decimal(text).quantize(Decimal(1).scaleb(-arrow.scale))
        if pa.types.is_floating(arrow):
            return float(text)
        if pa.types.is_date(arrow):
            return date.fromisoformat(text)
        if pa.types.is_timestamp(arrow):
            found = datetime.fromisoformat(text)
            return found.replace(tzinfo=UTC) if arrow.tz else found
        if pa.types.is_binary(arrow):
            # MySQL prints them in hexadecimal, MariaDB as a literal.
            return bytes.fromhex(text[2:]) if text.startswith("0x") else text.replace("\\0", "\0").encode()
    except (ValueError, InvalidOperation):
        return None
    if column.detail["type"] == "bit":
        digits = re.fullmatch(r"b'([01]+)'", text)
        return digits[1].zfill(column.detail["length"]) if digits else None
    return text
