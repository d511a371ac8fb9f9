"""MySQL and MariaDB types → lake types: which Arrow type a column's values have, and why.

Knows names and numbers only: `catalog.py` reads them from a server, `relation.py` from a table map, `values.py` turns
bytes into columns. The rules are written for people in TYPES.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headwater.errors import Usage
from headwater.event import TableSchema

MAX_DECIMAL_DIGITS = 38  # of decimal128, and of Spark's and Delta's decimal

INTEGERS = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
TEXTS = frozenset(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"))
BINARIES = frozenset(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"))
GEOMETRIES = frozenset(
    (
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
    )
)
_SIGNED = {
    "tinyint": pa.int16(),
    "smallint": pa.int16(),
    "mediumint": pa.int32(),
    "int": pa.int32(),
    "bigint": pa.int64(),
}
_UNSIGNED = {
    "tinyint": pa.int16(),
    "smallint": pa.int32(),
    "mediumint": pa.int32(),
    "int": pa.int64(),
    "bigint": pa.decimal128(20, 0),
}
_LAKE: dict[str, pa.DataType] = {
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "datetime": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "year": pa.int16(),
    "vector": pa.list_(pa.float32()),
    **dict.fromkeys(BINARIES | GEOMETRIES, pa.binary()),
}


def lake_type(facts: Mapping[str, Any], cast: str | None = None) -> pa.DataType:
    """The Arrow type for a column with these facts (`Column.detail`); string for whatever has no better one.

    `cast` is what the user asked for this column: `string` keeps the server's text."""
    name = facts["type"]
    if cast is not None:
        check_cast({"column": cast})
        return pa.string()
    if name in INTEGERS:
        return (_UNSIGNED if facts.get("unsigned") else _SIGNED)[name]
    if name == "decimal":
        digits, scale = facts["length"], facts["scale"]
        return pa.decimal128(digits, scale) if digits <= MAX_DECIMAL_DIGITS else pa.string()
    return _LAKE.get(name, pa.string())


def check_cast(cast: Mapping[str, str]) -> None:
    """Refuse a `cast` option that asks for anything but `string`."""
    for column, wanted in cast.items():
        if wanted != "string":
            raise Usage(
                f"cast: {column!r} cannot be cast to {wanted!r}",
                "only `string` is known: it keeps the server's text as it is",
            )


def with_cast(table: TableSchema, cast: Mapping[str, str]) -> TableSchema:
    """`table` with the lake types that `cast` (database.table.column: string) asks for."""
    check_cast(cast)
    columns = []
    for column in table.columns:
        wanted = cast.get(f"{table.unquoted}.{column.name}")
        if wanted:
            detail = {**column.detail, "cast": wanted}
            column = replace(column, arrow=lake_type(detail, wanted), detail=detail)
        columns.append(column)
    return replace(table, columns=tuple(columns))
