"""How wide a column's values are in rows events, and in a result under the binary protocol."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from headwater.errors import Stop
from headwater.sources.mysql import table_map as t

# As in the protocol: a length of one byte, and one of variable size.
_ONE_BYTE, _VARIABLE = -1, -9

_FIXED = {
    t.TINY: 1,
    t.SHORT: 2,
    t.INT24: 3,
    t.LONG: 4,
    t.LONGLONG: 8,
    t.FLOAT: 4,
    t.DOUBLE: 8,
    t.YEAR: 1,
    t.DATE: 3,
    t.NEWDATE: 3,
}
# Decimal digits → bytes, for what is left of a group of nine.
DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)

# In a result a column says one of these types; the others come with a length of variable size.
_RESULT_FIXED = {
    t.TINY: 1,
    t.SHORT: 2,
    t.YEAR: 2,
    t.INT24: 4,
    t.LONG: 4,
    t.LONGLONG: 8,
    t.FLOAT: 4,
    t.DOUBLE: 8,
}
_RESULT_TIMES = frozenset((t.DATE, t.NEWDATE, t.TIME, t.DATETIME, t.TIMESTAMP, t.TIMESTAMP2, t.DATETIME2, t.TIME2))


def log_layout(columns: Iterable[tuple[int, int]], table: str) -> npt.NDArray[np.int32]:
    """The layout of a table's columns in rows events, from their (type, meta)."""
    return np.array([_log_width(kind, meta, table) for kind, meta in columns], dtype=np.int32)


def decimal_bytes(meta: int) -> int:
    """The size of a decimal: nine digits take four bytes, on both sides of the point."""
    digits, scale = meta >> 8, meta & 0xFF
    whole = digits - scale
    return whole // 9 * 4 + DIGIT_BYTES[whole % 9] + scale // 9 * 4 + DIGIT_BYTES[scale % 9]


def _log_width(kind: int, meta: int, table: str) -> int:
    if kind in _FIXED:
        return _FIXED[kind]
    fraction = (meta + 1) // 2
    match kind:
        case t.NEWDECIMAL:
            return decimal_bytes(meta)
        case t.TIMESTAMP2:
            return 4 + fraction
        case t.DATETIME2:
            return 5 + fraction
        case t.TIME2:
            return 3 + fraction
        case t.VARCHAR | t.VAR_STRING | t.STRING:
            return -1 if meta < 256 else -2
        case t.BLOB | t.GEOMETRY | t.JSON | t.VECTOR:
            return -meta
        case t.ENUM | t.SET:
            return meta
        case t.BIT:
            return (meta >> 8) + (1 if meta & 0xFF else 0)
        case t.TIMESTAMP | t.DATETIME | t.TIME:
            raise Stop(
                f"{table} has a column in a form of before MySQL 5.6 (type {kind})",
                f"alter table {table} force;   -- with mysql56_temporal_format=on: writes it in today's form",
                "or leave the table out: source.exclude",
            )
        case t.BLOB_COMPRESSED | t.VARCHAR_COMPRESSED:
            raise Stop(
                f"{table} has a COMPRESSED column, which is logged compressed; that is not read yet",
                "Declare the column without COMPRESSED, or leave the table out: source.exclude",
            )
    raise Stop(f"{table} has a column of the unknown type {kind}", "Leave the table out: source.exclude")


def result_layout(types: Sequence[int]) -> npt.NDArray[np.int32]:
    """The layout of a result's columns, from the types it declares."""
    widths = [_ONE_BYTE if kind in _RESULT_TIMES else _RESULT_FIXED.get(kind, _VARIABLE) for kind in types]
    return np.array(widths, dtype=np.int32)
