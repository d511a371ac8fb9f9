"""PostgreSQL types → lake types: which Arrow type a column's values have, and why.

Knows numbers and names only: `catalog.py` reads them from a server, `values.py` turns texts into columns.
The rules are written for people in TYPES.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from headwater.errors import Unrepresentable, Usage
from headwater.event import Column, TableSchema

T = TypeVar("T")

MAX_DECIMAL_DIGITS = 38  # of decimal128, and of Spark's and Delta's decimal


@dataclass(frozen=True)
class PgType:
    """A row of pg_type, as far as it decides how values look."""

    oid: int
    name: str
    # typtype: b base, c composite, d domain, e enum, r range, m multirange, p pseudo
    kind: str = "b"
    schema: str = "pg_catalog"
    # Element type of a true array (not of int2vector, point, …, which have a typelem too); 0 otherwise.
    element: int = 0
    # What a domain stands for; 0 otherwise.
    base: int = 0
    base_typmod: int = -1
    dimensions: int = 0
    # What stands between elements in the text of an array of this type: ";" for box, "," for all others.
    delimiter: str = ","
    labels: tuple[str, ...] = ()


def type_facts(oid: int, typmod: int, dimensions: int, known: Mapping[int, PgType]) -> dict[str, Any]:
    """What decoding and Debezium's mapping need to know of a column's type, as plain JSON values.

    A domain is resolved to its base; an array carries the facts of its element under `element`."""
    facts: dict[str, Any] = {"oid": oid, "typmod": typmod}
    found = known.get(oid)
    if found is not None and found.kind == "d":
        facts["domain"] = found.name
        facts["domain_schema"] = found.schema
    while found is not None and found.kind == "d":
        typmod, dimensions = found.base_typmod, max(dimensions, found.dimensions)
        found = known.get(found.base)
    if found is None:
        return {**facts, "base": "", "base_oid": 0, "base_typmod": -1, "kind": "?"}
    facts |= {"base": found.name, "base_oid": found.oid, "base_typmod": typmod, "kind": found.kind}
    if found.schema != "pg_catalog":
        facts["schema"] = found.schema
    if found.labels:
        facts["labels"] = list(found.labels)
    if found.delimiter != ",":
        facts["delimiter"] = found.delimiter
    if found.element:
        facts["element"] = type_facts(found.element, typmod, 0, known)
        facts["dimensions"] = max(dimensions, 1)
        return facts
    return facts | _modifiers(found.name, typmod)


def _modifiers(name: str, typmod: int) -> dict[str, int]:
    """What a type modifier says: `length` of texts and bits, digits (`length`) and `scale` of numeric, and
    `precision`, the fractional digits of times. Empty when the column declares none."""
    if typmod < 0:
        return {}
    match name:
        case "varchar" | "bpchar":
            return {"length": typmod - 4}
        case "bit" | "varbit":
            return {"length": typmod}
        case "numeric":
            # The scale is an 11-bit two's complement number (PostgreSQL 15 made it signed).
            return {"length": (typmod - 4 >> 16) & 0xFFFF, "scale": ((typmod - 4 & 0x7FF) ^ 0x400) - 0x400}
        case "time" | "timetz" | "timestamp" | "timestamptz":
            return {"precision": typmod}
        case "interval" if typmod & 0xFFFF != 0xFFFF:
            return {"precision": typmod & 0xFFFF}
    return {}


_LAKE: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "oid": pa.int64(),  # unsigned 32 bits
    "float4": pa.float32(),
    "float8": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "bytea": pa.binary(),
}


def lake_type(facts: Mapping[str, Any], cast: str | None = None) -> pa.DataType:
    """The Arrow type for a column with these `type_facts`; string for whatever has no better one.

    `cast` is what the user asked for this column: `string` keeps the server's text verbatim."""
    if cast is not None:
        check_cast({"column": cast})
        return pa.string()
    if "element" in facts:
        # The server does not enforce declared dimensions; a declaration of two or more means it, though.
        return pa.string() if facts["dimensions"] > 1 else pa.list_(lake_type(facts["element"]))
    name = facts["base"]
    if name == "hstore" and facts["kind"] == "b":
        return pa.map_(pa.string(), pa.string())
    if facts.get("schema", "pg_catalog") != "pg_catalog":
        return pa.string()
    if name == "numeric":
        digits, scale = facts.get("length", 0), facts.get("scale", 0)
        fits = 0 < digits <= MAX_DECIMAL_DIGITS and 0 <= scale <= digits
        return pa.decimal128(digits, scale) if fits else pa.string()
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
    """`table` with the lake types that `cast` (schema.table.column: string) asks for, and no others.

    Decided anew from the columns' facts: a cast that is set or taken back reaches frames that were
    journalled before, so it can cure a value that stopped the table."""
    check_cast(cast)
    columns = []
    for column in table.columns:
        wanted = cast.get(f"{table.unquoted}.{column.name}")
        if wanted != column.detail.get("cast"):
            detail = {name: fact for name, fact in column.detail.items() if name != "cast"}
            if wanted:
                detail["cast"] = wanted
            column = replace(column, arrow=lake_type(detail, wanted), detail=detail)
        columns.append(column)
    return replace(table, columns=tuple(columns))


def made_fitting(make: Callable[[TableSchema], T], table: TableSchema, as_text: Callable[[pa.DataType], bool]) -> T:
    """What `make` makes of the table; a column with a value that does not fit becomes text if its type is one of
    those."""
    while True:
        try:
            return make(table)
        except Unrepresentable as error:
            if not any(c.name == error.column and as_text(c.arrow) for c in table.columns):
                raise
            casts = {f"{table.unquoted}.{c.name}": str(c.detail["cast"]) for c in table.columns if "cast" in c.detail}
            table = with_cast(table, {**casts, f"{table.unquoted}.{error.column}": "string"})


# A NaN or an infinity in events is for their format to decide (`Source.decode_events`).
text_in_events = pa.types.is_decimal128


def builtin_column(name: str, type_oid: int, typmod: int) -> Column:
    """A column of a table that the catalog no longer has, from a Relation message alone.

    A type that is not built in (enum, domain, composite, extension) becomes string."""
    facts = type_facts(type_oid, typmod, 0, BUILTIN)
    return Column(name, _spelling(facts), lake_type(facts), detail=facts)


def _spelling(facts: Mapping[str, Any]) -> str:
    """What format_type() would say, near enough for people."""
    if "element" in facts:
        return _spelling(facts["element"]) + "[]"
    if not facts["base"]:
        return f"type {facts['oid']}"
    spelled: str = _SPELLED.get(facts["base"], facts["base"])
    if "scale" in facts:
        return f"{spelled}({facts['length']},{facts['scale']})"
    if "length" in facts:
        return f"{spelled}({facts['length']})"
    if "precision" in facts:
        head, _, tail = spelled.partition(" ")
        return f"{head}({facts['precision']}) {tail}".rstrip()
    return spelled


_SPELLED = {
    "bool": "boolean",
    "bpchar": "character",
    "char": '"char"',
    "float4": "real",
    "float8": "double precision",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "time": "time without time zone",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "timetz": "time with time zone",
    "varbit": "bit varying",
    "varchar": "character varying",
}

# name: (oid, oid of its array type). These numbers never change: they are in the server's source, pg_type.dat.
_BUILTIN_OIDS = {
    "bool": (16, 1000),
    "bytea": (17, 1001),
    "char": (18, 1002),
    "name": (19, 1003),
    "int8": (20, 1016),
    "int2": (21, 1005),
    "int2vector": (22, 1006),
    "int4": (23, 1007),
    "regproc": (24, 1008),
    "text": (25, 1009),
    "oid": (26, 1028),
    "tid": (27, 1010),
    "xid": (28, 1011),
    "cid": (29, 1012),
    "oidvector": (30, 1013),
    "json": (114, 199),
    "xml": (142, 143),
    "point": (600, 1017),
    "lseg": (601, 1018),
    "path": (602, 1019),
    "box": (603, 1020),
    "polygon": (604, 1027),
    "line": (628, 629),
    "cidr": (650, 651),
    "float4": (700, 1021),
    "float8": (701, 1022),
    "circle": (718, 719),
    "macaddr8": (774, 775),
    "money": (790, 791),
    "macaddr": (829, 1040),
    "inet": (869, 1041),
    "bpchar": (1042, 1014),
    "varchar": (1043, 1015),
    "date": (1082, 1182),
    "time": (1083, 1183),
    "timestamp": (1114, 1115),
    "timestamptz": (1184, 1185),
    "interval": (1186, 1187),
    "timetz": (1266, 1270),
    "bit": (1560, 1561),
    "varbit": (1562, 1563),
    "numeric": (1700, 1231),
    "regprocedure": (2202, 2207),
    "regoper": (2203, 2208),
    "regoperator": (2204, 2209),
    "regclass": (2205, 2210),
    "regtype": (2206, 2211),
    "uuid": (2950, 2951),
    "txid_snapshot": (2970, 2949),
    "pg_lsn": (3220, 3221),
    "tsvector": (3614, 3643),
    "tsquery": (3615, 3645),
    "regconfig": (3734, 3735),
    "regdictionary": (3769, 3770),
    "jsonb": (3802, 3807),
    "int4range": (3904, 3905),
    "numrange": (3906, 3907),
    "tsrange": (3908, 3909),
    "tstzrange": (3910, 3911),
    "daterange": (3912, 3913),
    "int8range": (3926, 3927),
    "jsonpath": (4072, 4073),
    "regnamespace": (4089, 4090),
    "regrole": (4096, 4097),
    "regcollation": (4191, 4192),
    "int4multirange": (4451, 6150),
    "nummultirange": (4532, 6151),
    "tsmultirange": (4533, 6152),
    "tstzmultirange": (4534, 6153),
    "datemultirange": (4535, 6155),
    "int8multirange": (4536, 6157),
    "pg_snapshot": (5038, 5039),
    "xid8": (5069, 271),
}


def _builtin() -> dict[int, PgType]:
    known = {}
    for name, (oid, array) in _BUILTIN_OIDS.items():
        kind = "m" if name.endswith("multirange") else "r" if name.endswith("range") else "b"
        delimiter = ";" if name == "box" else ","
        known[oid] = PgType(oid, name, kind, delimiter=delimiter)
        known[array] = PgType(array, "_" + name, element=oid, delimiter=delimiter)
    return known


BUILTIN = _builtin()
