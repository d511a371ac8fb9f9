"""Which lake type a PostgreSQL type becomes, from numbers and names alone."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from headwater.errors import Usage
from headwater.event import Column, TableSchema
from headwater.sources.postgres.types import (
    BUILTIN,
    PgType,
    builtin_column,
    lake_type,
    type_facts,
    with_cast,
)

TIMESTAMP = pa.timestamp("us", tz="UTC")


def numeric(precision: int, scale: int) -> int:
    return ((precision << 16) | (scale & 0x7FF)) + 4


@pytest.mark.parametrize(
    ("oid", "typmod", "wanted", "spelled"),
    [
        (16, -1, pa.bool_(), "boolean"),
        (21, -1, pa.int16(), "smallint"),
        (23, -1, pa.int32(), "integer"),
        (20, -1, pa.int64(), "bigint"),
        (26, -1, pa.int64(), "oid"),
        (700, -1, pa.float32(), "real"),
        (701, -1, pa.float64(), "double precision"),
        (1700, numeric(10, 2), pa.decimal128(10, 2), "numeric(10,2)"),
        (1700, numeric(38, 38), pa.decimal128(38, 38), "numeric(38,38)"),
        (1700, numeric(39, 2), pa.string(), "numeric(39,2)"),
        (1700, numeric(5, -2), pa.string(), "numeric(5,-2)"),
        (1700, numeric(3, 5), pa.string(), "numeric(3,5)"),
        (1700, -1, pa.string(), "numeric"),
        (1043, 24, pa.string(), "character varying(20)"),
        (1560, 3, pa.string(), "bit(3)"),
        (18, -1, pa.string(), '"char"'),
        (1082, -1, pa.date32(), "date"),
        (1114, -1, pa.timestamp("us"), "timestamp without time zone"),
        (1184, 3, TIMESTAMP, "timestamp(3) with time zone"),
        (17, -1, pa.binary(), "bytea"),
        (1231, numeric(10, 2), pa.list_(pa.decimal128(10, 2)), "numeric(10,2)[]"),
        (1185, -1, pa.list_(TIMESTAMP), "timestamp with time zone[]"),
        (3905, -1, pa.list_(pa.string()), "int4range[]"),
        (22, -1, pa.string(), "int2vector"),
        (987654, -1, pa.string(), "type 987654"),
    ],
)
def test_a_relation_message_alone_gives_the_lake_type(oid: int, typmod: int, wanted: pa.DataType, spelled: str) -> None:
    column = builtin_column("c", oid, typmod)
    assert column.arrow == wanted
    assert column.type == spelled


@pytest.mark.parametrize(
    "name",
    [
        "text",
        "varchar",
        "bpchar",
        "char",
        "name",
        "uuid",
        "json",
        "jsonb",
        "xml",
        "inet",
        "cidr",
        "macaddr",
        "bit",
        "varbit",
        "time",
        "timetz",
        "interval",
        "money",
        "int4range",
        "nummultirange",
        "tsvector",
        "tsquery",
        "point",
        "box",
        "path",
        "polygon",
        "jsonpath",
        "pg_lsn",
        "xid",
        "xid8",
        "regclass",
    ],
)
def test_types_without_a_better_one_are_strings(name: str) -> None:
    oid = next(known.oid for known in BUILTIN.values() if known.name == name)
    assert builtin_column("c", oid, -1).arrow == pa.string()


KNOWN = BUILTIN | {
    100_000: PgType(100_000, "price", "d", "shop", base=100_001),
    100_001: PgType(100_001, "amount", "d", "shop", base=1700, base_typmod=numeric(12, 3)),
    100_002: PgType(100_002, "_price", "b", "shop", element=100_000),
    100_003: PgType(100_003, "grid", "d", "shop", base=1007, dimensions=2),
    100_004: PgType(100_004, "mood", "e", "shop", labels=("sad", "happy")),
    100_005: PgType(100_005, "hstore", "b", "extensions"),
    100_006: PgType(100_006, "int4", "c", "shop"),
    100_007: PgType(100_007, "list", "d", "shop", base=1007),
    100_008: PgType(100_008, "_list", "b", "shop", element=100_007),
}


@pytest.mark.parametrize(
    ("oid", "dimensions", "wanted"),
    [
        (100_000, 0, pa.decimal128(12, 3)),
        (100_002, 1, pa.list_(pa.decimal128(12, 3))),
        (100_003, 0, pa.string()),
        (100_004, 0, pa.string()),
        (100_005, 0, pa.map_(pa.string(), pa.string())),
        (100_006, 0, pa.string()),
        (100_008, 1, pa.list_(pa.list_(pa.int32()))),
        (1007, 0, pa.list_(pa.int32())),
        (1007, 2, pa.string()),
    ],
)
def test_domains_arrays_and_extension_types_resolve(oid: int, dimensions: int, wanted: pa.DataType) -> None:
    assert lake_type(type_facts(oid, -1, dimensions, KNOWN)) == wanted


def test_facts_keep_what_a_domain_and_an_enum_were() -> None:
    price = type_facts(100_000, -1, 0, KNOWN)
    assert (price["domain"], price["base"], price["length"], price["scale"]) == ("price", "numeric", 12, 3)
    assert type_facts(100_004, -1, 0, KNOWN)["labels"] == ["sad", "happy"]


def test_a_cast_reaches_a_stored_schema_and_can_be_taken_back() -> None:
    stored = TableSchema("public", "a.b", (builtin_column("n", 1700, numeric(9, 0)), builtin_column("m", 23, -1)))
    stored = TableSchema.from_json(stored.to_json())
    cast = with_cast(stored, {"public.a.b.n": "string", "public.other.m": "string"})
    assert [column.arrow for column in cast.columns] == [pa.string(), pa.int32()]
    assert cast.id != stored.id
    assert with_cast(cast, {}) == stored


def test_only_string_can_be_cast_to() -> None:
    table = TableSchema("public", "t", (replace(builtin_column("n", 23, -1)), Column("x", "x", pa.string(), detail={})))
    with pytest.raises(Usage, match="only `string` is known"):
        with_cast(table, {"public.t.n": "double"})
