"""PostgreSQL types under every mode of Debezium: schema, value, filler, placeholder, default.

The values are server texts, read by the same parser as the log's. Expected results were seen on real Debezium.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from headwater.event import Column
from headwater.formats import kernels
from headwater.formats.connect import STRING, Schema
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.row import ColumnForm
from headwater.sources.postgres.debezium import column_form
from headwater.sources.postgres.debezium_defaults import literal_of
from headwater.sources.postgres.debezium_message import Message, message_record
from headwater.sources.postgres.types import BUILTIN, PgType, lake_type, type_facts
from headwater.sources.postgres.values import parse

_BY_NAME = {kind.name: oid for oid, kind in BUILTIN.items()}
EXTENSIONS = {
    90_001: PgType(90_001, "hstore", schema="public"),
    90_002: PgType(90_002, "citext", schema="public"),
    90_003: PgType(90_003, "ltree", schema="public"),
    90_004: PgType(90_004, "mood", "e", "public", labels=("sad", "happy, really")),
    90_005: PgType(90_005, "_mood", "b", "public", element=90_004),
    90_006: PgType(90_006, "cents", "d", "public", base=_BY_NAME["numeric"], base_typmod=(12 << 16) + 2 + 4),
    90_007: PgType(90_007, "geometry", schema="public"),
    90_008: PgType(90_008, "vector", schema="public"),
    90_009: PgType(90_009, "sparsevec", schema="public"),
    90_010: PgType(90_010, "address", "c", "public"),
}
KNOWN = {**BUILTIN, **EXTENSIONS}


def column(kind: str, typmod: int = -1, dimensions: int = 0, **more: Any) -> Column:
    oid = next(oid for oid, known in KNOWN.items() if known.name == kind)
    facts = type_facts(oid, typmod, dimensions, KNOWN)
    return Column("c", kind, lake_type(facts), detail=facts, **more)


def form(kind: str, typmod: int = -1, *, options: dict[str, Any] | None = None, **more: Any) -> ColumnForm:
    found = column_form(column(kind, typmod, **more), 0, DebeziumOptions(topic_prefix="srv", **(options or {})))
    assert found is not None
    return found


def value(text: str, kind: str, typmod: int = -1, **options: Any) -> Any:
    """What a consumer reads for a server text."""
    raw = np.frombuffer(text.encode(), dtype=np.uint8)
    array = parse(column(kind, typmod), raw, np.zeros(1, np.int64), np.array([len(raw)], np.int32))
    written = form(kind, typmod, options=options).write(array)
    assert not written.rows(kernels.FAILED).any()
    return json.loads(written.to_arrow()[0].as_py())


def described(schema: Schema) -> tuple[str, str | None, dict[str, str]]:
    return schema.type, schema.name, dict(schema.parameters)


NUMERIC_10_2 = (10 << 16) + 2 + 4


@pytest.mark.parametrize(
    ("kind", "typmod", "schema"),
    [
        ("bool", -1, ("boolean", None, {})),
        ("int2", -1, ("int16", None, {})),
        ("int4", -1, ("int32", None, {})),
        ("int8", -1, ("int64", None, {})),
        ("oid", -1, ("int64", None, {})),
        ("float4", -1, ("float", None, {})),
        ("float8", -1, ("double", None, {})),
        ("bit", 1, ("boolean", None, {})),
        ("bit", 8, ("bytes", "io.debezium.data.Bits", {"length": "8"})),
        ("varbit", -1, ("bytes", "io.debezium.data.Bits", {"length": "2147483647"})),
        ("varchar", 14, ("string", None, {})),
        ("citext", -1, ("string", None, {})),
        ("bytea", -1, ("bytes", None, {})),
        ("jsonb", -1, ("string", "io.debezium.data.Json", {})),
        ("xml", -1, ("string", "io.debezium.data.Xml", {})),
        ("uuid", -1, ("string", "io.debezium.data.Uuid", {})),
        ("ltree", -1, ("string", "io.debezium.data.Ltree", {})),
        ("tsvector", -1, ("string", "io.debezium.data.Tsvector", {})),
        ("int4range", -1, ("string", None, {})),
        ("inet", -1, ("string", None, {})),
        ("mood", -1, ("string", "io.debezium.data.Enum", {"allowed": "sad,happy, really"})),
        ("numeric", -1, ("struct", "io.debezium.data.VariableScaleDecimal", {})),
        (
            "numeric",
            NUMERIC_10_2,
            (
                "bytes",
                "org.apache.kafka.connect.data.Decimal",
                {"scale": "2", "connect.decimal.precision": "10"},
            ),
        ),
        (
            "cents",
            -1,
            (
                "bytes",
                "org.apache.kafka.connect.data.Decimal",
                {"scale": "2", "connect.decimal.precision": "12"},
            ),
        ),
        ("money", -1, ("bytes", "org.apache.kafka.connect.data.Decimal", {"scale": "2"})),
        ("date", -1, ("int32", "io.debezium.time.Date", {})),
        ("time", 3, ("int32", "io.debezium.time.Time", {})),
        ("time", -1, ("int64", "io.debezium.time.MicroTime", {})),
        ("timestamp", 3, ("int64", "io.debezium.time.Timestamp", {})),
        ("timestamp", -1, ("int64", "io.debezium.time.MicroTimestamp", {})),
        ("timestamptz", -1, ("string", "io.debezium.time.ZonedTimestamp", {})),
        ("timetz", -1, ("string", "io.debezium.time.ZonedTime", {})),
        ("interval", -1, ("int64", "io.debezium.time.MicroDuration", {})),
        ("hstore", -1, ("string", "io.debezium.data.Json", {})),
        ("point", -1, ("struct", "io.debezium.data.geometry.Point", {})),
        ("vector", -1, ("array", "io.debezium.data.DoubleVector", {})),
    ],
)
def test_schema(kind: str, typmod: int, schema: tuple[str, str | None, dict[str, str]]) -> None:
    assert described(form(kind, typmod).schema) == schema


@pytest.mark.parametrize("kind", ["tsquery", "pg_lsn", "address", "box", "int4multirange", "_money", "_interval"])
def test_types_without_a_mapping_are_left_out(kind: str) -> None:
    assert column_form(column(kind), 0, DebeziumOptions()) is None


def test_types_without_a_mapping_are_bytes_when_asked_for() -> None:
    assert value("fat", "tsquery", include_unknown_datatypes=True) == "ZmF0"
    assert value("fat", "tsquery", include_unknown_datatypes=True, binary_handling_mode="hex") == "666174"


@pytest.mark.parametrize(
    ("text", "kind", "typmod", "expected"),
    [
        ("t", "bool", -1, True),
        ("4294967295", "oid", -1, 4294967295),
        ("a name", "name", -1, "a name"),
        ("NaN", "float8", -1, "NaN"),
        ("-Infinity", "float4", -1, "-Infinity"),
        ("1", "bit", 1, True),
        ("10000001", "bit", 8, "gQ=="),
        ("10000000000000011", "bit", 17, "AwAB"),
        ("00000000", "bit", 8, ""),
        ("123.4500", "numeric", -1, {"scale": 2, "value": "MDk="}),
        ("12300", "numeric", -1, {"scale": 0, "value": "MAw="}),
        ("1.10", "numeric", NUMERIC_10_2, "bg=="),
        ("-$1,234.56", "money", -1, "/h3A"),
        ("\\x00ff10", "bytea", -1, "AP8Q"),
        ("2016-11-04", "date", -1, 17109),
        ("infinity", "date", -1, -2147472692),
        ("-infinity", "date", -1, -2147472691),
        ("13:51:30.123456", "time", -1, 49890123456),
        ("13:51:30.123", "time", 3, 49890123),
        ("24:00:00", "time", -1, 86400000000),
        ("2016-11-04 13:51:30.123456", "timestamp", -1, 1478267490123456),
        ("2016-11-04 13:51:30.123", "timestamp", 3, 1478267490123),
        ("infinity", "timestamp", -1, 9223372036825200000),
        ("-infinity", "timestamp", -1, -9223372036832400000),
        ("infinity", "timestamp", 3, 9223372036825200),
        ("2016-11-04 11:51:30.123456+00", "timestamptz", -1, "2016-11-04T11:51:30.123456Z"),
        ("2016-11-04 11:51:30+00", "timestamptz", -1, "2016-11-04T11:51:30.000000Z"),
        ("2016-11-04 11:51:30+00", "timestamptz", 0, "2016-11-04T11:51:30Z"),
        ("2016-11-04 11:51:30.12+00", "timestamptz", 3, "2016-11-04T11:51:30.120Z"),
        ("infinity", "timestamptz", -1, "infinity"),
        ("4713-01-01 00:00:00+00 BC", "timestamptz", -1, "-4712-01-01T00:00:00.000000Z"),
        ("13:51:30.123789+02", "timetz", -1, "11:51:30.123789Z"),
        ("13:51:30-05:30", "timetz", -1, "19:21:30Z"),
        ("1 year 2 mons 3 days 04:05:06.78", "interval", -1, 37091106780000),
        ("1 mon", "interval", -1, 2629800000000),
        ("-1 mons -2 days -00:00:00.000001", "interval", -1, -2802600000001),
        ('"a"=>"1", "b c"=>NULL', "hstore", -1, '{"a":"1","b c":null}'),
        ("(1,2)", "point", -1, {"x": 1.0, "y": 2.0, "wkb": "AQEAAAAAAAAAAADwPwAAAAAAAABA", "srid": None}),
        ("[1,2.5]", "vector", -1, [1.0, 2.5]),
        ("{1:0.5,3:2}/5", "sparsevec", -1, {"dimensions": 5, "vector": [[1, 0.5], [3, 2.0]]}),
        (
            "0101000020E6100000000000000000F03F0000000000000040",
            "geometry",
            -1,
            {"wkb": "AQEAACDmEAAAAAAAAAAA8D8AAAAAAAAAQA==", "srid": 4326},
        ),
        ("{1,NULL,3}", "_int4", -1, [1, None, 3]),
        ('{"a b",NULL,"NULL"}', "_text", -1, ["a b", None, "NULL"]),
        ("{1.10,2,NULL}", "_numeric", -1, [{"scale": 1, "value": "Cw=="}, {"scale": 0, "value": "Ag=="}, None]),
        ("{2016-11-04,NULL}", "_date", -1, [17109, None]),
        ('{sad,"happy, really"}', "_mood", -1, ["sad", "happy, really"]),
        ("{}", "_text", -1, []),
    ],
)
def test_value(text: str, kind: str, typmod: int, expected: object) -> None:
    found = value(text, kind, typmod)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "kind", "typmod", "options", "expected"),
    [
        ("1.10", "numeric", NUMERIC_10_2, {"decimal_handling_mode": "double"}, 1.1),
        ("1.10", "numeric", NUMERIC_10_2, {"decimal_handling_mode": "string"}, "1.10"),
        ("123.4500", "numeric", -1, {"decimal_handling_mode": "string"}, "123.4500"),
        ("NaN", "numeric", -1, {"decimal_handling_mode": "string"}, "NAN"),
        ("-Infinity", "numeric", -1, {"decimal_handling_mode": "string"}, "NEGATIVE_INFINITY"),
        ("Infinity", "numeric", -1, {"decimal_handling_mode": "double"}, "Infinity"),
        ("$1.05", "money", -1, {"money_fraction_digits": 1}, "Cw=="),
        ("-$1,234.56", "money", -1, {"decimal_handling_mode": "string"}, "-1234.56"),
        ("$1,234.56", "money", -1, {"decimal_handling_mode": "double"}, 1234.56),
        ("\\x00ff10", "bytea", -1, {"binary_handling_mode": "hex"}, "00ff10"),
        ("\\xfbffbf", "bytea", -1, {"binary_handling_mode": "base64-url-safe"}, "-_-_"),
        ("\\xfbffbf", "bytea", -1, {"binary_handling_mode": "base64"}, "+/+/"),
        ("1 year 2 mons 3 days 04:05:06.78", "interval", -1, {"interval_handling_mode": "string"}, "P1Y2M3DT4H5M6.78S"),
        ("-1 days +02:03:00", "interval", -1, {"interval_handling_mode": "string"}, "P0Y0M-1DT2H3M0S"),
        ("-00:00:01.5", "interval", -1, {"interval_handling_mode": "string"}, "P0Y0M0DT0H0M-1.5S"),
        ('"a"=>"1"', "hstore", -1, {"hstore_handling_mode": "map"}, {"a": "1"}),
        ("2017-09-15", "date", -1, {"time_precision_mode": "isostring"}, "2017-09-15Z"),
        ("04:05:11.789", "time", -1, {"time_precision_mode": "isostring"}, "04:05:11.789Z"),
        (
            "2019-07-09 02:28:57.123456",
            "timestamp",
            -1,
            {"time_precision_mode": "isostring"},
            "2019-07-09T02:28:57.123456Z",
        ),
        ("infinity", "timestamp", -1, {"time_precision_mode": "isostring"}, "+294247-01-10T04:00:25.2Z"),
        ("13:51:30.123456", "time", -1, {"time_precision_mode": "connect"}, 49890123),
        ("13:51:30.123456", "time", 3, {"time_precision_mode": "adaptive_time_microseconds"}, 49890123456),
        ("13:51:30.123456", "time", -1, {"time_precision_mode": "nanoseconds"}, 49890123456000),
        ("2016-11-04 13:51:30.123456", "timestamp", -1, {"time_precision_mode": "connect"}, 1478267490123),
        ("2016-11-04 13:51:30.123456", "timestamp", 3, {"time_precision_mode": "microseconds"}, 1478267490123456),
        ("2016-11-04 13:51:30.123456", "timestamp", -1, {"time_precision_mode": "nanoseconds"}, 1478267490123456000),
        ("infinity", "timestamp", -1, {"time_precision_mode": "nanoseconds"}, (1 << 63) - 1),
    ],
)
def test_value_under_a_mode(text: str, kind: str, typmod: int, options: dict[str, Any], expected: object) -> None:
    assert value(text, kind, typmod, **options) == expected


@pytest.mark.parametrize(
    ("text", "kind", "options"),
    [
        ("NaN", "numeric", {}),
        ("9999-12-31 00:00:00", "timestamp", {"time_precision_mode": "nanoseconds"}),
        ("-178000000 years", "interval", {}),
    ],
)
def test_values_that_a_form_cannot_hold_fail(text: str, kind: str, options: dict[str, Any]) -> None:
    raw = np.frombuffer(text.encode(), dtype=np.uint8)
    array = parse(column(kind), raw, np.zeros(1, np.int64), np.array([len(raw)], np.int32))
    assert form(kind, options=options).write(array).rows(kernels.FAILED).all()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("bool", "false"),
        ("int4", "0"),
        ("float8", "0.0"),
        ("text", '""'),
        ("bytea", '""'),
        ("numeric", '{"scale":0,"value":"AA=="}'),
        ("timestamptz", '"1970-01-01T00:00:00Z"'),
        ("timetz", '"00:00:00Z"'),
        ("hstore", '"{}"'),
        ("_text", "[]"),
        ("uuid", '""'),
        ("point", '{"x":0.0,"y":0.0,"wkb":"AQEAAAAAAAAAAAAAAAAAAAAAAAAA","srid":null}'),
    ],
)
def test_a_required_column_without_a_value_has_its_type_s_zero(kind: str, expected: str) -> None:
    assert form(kind, nullable=False).missing == expected
    assert form(kind, nullable=True).missing == "null"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("text", "__debezium_unavailable_value"),
        ("jsonb", "__debezium_unavailable_value"),
        ("bytea", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="),
        ("_text", ["__debezium_unavailable_value"]),
        ("_int4", list(b"__debezium_unavailable_value")),
        ("_uuid", ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
        ("hstore", '{"__debezium_unavailable_value":"__debezium_unavailable_value"}'),
    ],
)
def test_placeholder(kind: str, expected: object) -> None:
    found = form(kind).unavailable
    assert found is not None
    assert json.loads(found) == expected


@pytest.mark.parametrize(
    ("mode", "expected"), [("hex", "gone"), ("base64", "Z29uZQ=="), ("base64-url-safe", "Z29uZQ==")]
)
def test_placeholder_of_bytes_as_text(mode: str, expected: str) -> None:
    options = {"binary_handling_mode": mode, "unavailable_value_placeholder": "gone"}
    assert form("bytea", options=options).unavailable == f'"{expected}"'


def test_a_placeholder_may_be_given_in_hexadecimal_digits() -> None:
    assert form("bytea", options={"unavailable_value_placeholder": "hex:00ff"}).unavailable == '"AP8="'


@pytest.mark.parametrize(
    ("kind", "typmod", "expression", "expected"),
    [
        ("int4", -1, "42", "42"),
        ("int8", -1, "'-1'::bigint", "-1"),
        ("int4", -1, "nextval('t_id_seq'::regclass)", "0"),
        ("int4", -1, "(1 + 2)", None),
        ("bool", -1, "true", "true"),
        ("text", -1, "'hi ''there'''::text", "\"hi 'there'\""),
        ("text", -1, "NULL::text", None),
        ("numeric", NUMERIC_10_2, "9.99", '"A+c="'),
        ("numeric", -1, "1.5", None),
        ("bit", 8, "'10000001'::\"bit\"", '"gQ=="'),
        ("uuid", -1, "gen_random_uuid()", '"00000000-0000-0000-0000-000000000000"'),
        ("jsonb", -1, "'{}'::jsonb", '"{}"'),
        ("date", -1, "'2020-01-01'::date", "18262"),
        ("date", -1, "CURRENT_DATE", "0"),
        ("timestamptz", -1, "now()", '"1970-01-01T00:00:00.000000Z"'),
        ("timestamptz", 0, "CURRENT_TIMESTAMP", '"1970-01-01T00:00:00Z"'),
        ("interval", -1, "'1 day'::interval", "86400000000"),
        ("mood", -1, "'sad'::mood", '"sad"'),
        ("bytea", -1, "'\\x01'::bytea", None),
        ("_int4", -1, "'{1,2}'::integer[]", None),
        ("int4", -1, None, None),
    ],
)
def test_default(kind: str, typmod: int, expression: str | None, expected: str | None) -> None:
    assert form(kind, typmod, default=expression).schema.default == expected


def test_literals_are_told_from_expressions() -> None:
    assert literal_of("'a''b'::character varying") == "a'b"
    assert literal_of("(-5)") == "-5"
    assert literal_of("lower('A'::text)") is None


def test_a_multi_dimensional_array_is_the_server_s_text() -> None:
    two = column_form(column("_int4", dimensions=2), 0, DebeziumOptions())
    assert two is not None
    assert described(two.schema) == ("string", None, {})


def test_a_logical_message_has_its_own_envelope() -> None:
    message = Message("greeting", "hello ü".encode(), lsn=33119640, time=1794778478647879, xid=845, previous=33119568)
    options = DebeziumOptions(topic_prefix="srv", version="3.6.3.Final")
    record = message_record(message, options, "db", STRING, now=1794778479299)
    assert (record.topic, record.key) == ("srv.message", '{"prefix":"greeting"}')
    assert record.value == (
        '{"op":"m","ts_ms":1794778479299,"source":{"version":"3.6.3.Final","connector":"postgresql","name":"srv",'
        '"ts_ms":1794778478647,"snapshot":"false","db":"db","sequence":"[\\"33119568\\",\\"33119640\\"]",'
        '"ts_us":1794778478647879,"ts_ns":1794778478647879000,"schema":"","table":"","txId":845,"lsn":33119640,'
        '"xmin":null,"origin":null,"origin_lsn":null},"transaction":null,'
        '"message":{"prefix":"greeting","content":"aGVsbG8gw7w="}}'
    )
