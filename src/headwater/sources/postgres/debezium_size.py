"""Length and scale of a column as Debezium reports them: the JDBC driver's numbers for every type.

Only `column.propagate.source.type` and `datatype.propagate.source.type` show them.
"""

from __future__ import annotations

from headwater.event import Column

# What the driver says where a type has no length of its own.
UNBOUNDED = 2_147_483_647
_LENGTH = {"bool": 1, "char": 1, "int2": 5, "int4": 10, "oid": 10, "int8": 19, "float4": 8, "float8": 17}
_LENGTH |= {"date": 13, "interval": 49}
_SCALE = {"float4": 8, "float8": 17}
_TIMES = {"time": 8, "timetz": 14, "timestamp": 22, "timestamptz": 28}


def column_size(column: Column) -> tuple[str, int | None, int | None]:
    """(type name, length, scale)."""
    facts = column.detail
    kind = facts.get("base", "")
    declared, precision = facts.get("length"), facts.get("precision", 6)
    if "element" in facts:
        return kind, UNBOUNDED, 0
    match kind:
        case "numeric":
            return kind, declared or 0, facts.get("scale", 0)
        case "bit":
            return kind, declared or 1, 0
        case "time" | "timetz" | "timestamp" | "timestamptz":
            # The widest text: date and clock, the fraction with its point, the offset.
            fraction = 0 if precision == 0 else max(precision, 2) + 1
            return kind, _TIMES[kind] + fraction, precision
        case "interval":
            return kind, _LENGTH[kind], precision
    return kind, declared or _LENGTH.get(kind, UNBOUNDED), _SCALE.get(kind, 0)
