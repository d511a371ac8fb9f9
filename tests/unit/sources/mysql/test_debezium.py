"""MySQL's and MariaDB's values and `source` block in Debezium's form; the contract's section on them, line by line."""

from __future__ import annotations

import base64
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.sources.mysql.recorded import PACKETS, Reader

from headwater.event import Column
from headwater.formats.debezium_options import DebeziumOptions
from headwater.sources.mysql.debezium import BinlogConnector, MariaDbConnector, column_form, transactions
from headwater.sources.mysql.decode import decode
from headwater.sources.mysql.types import lake_type

MICROS = {"time_precision_mode": "adaptive_time_microseconds"}
WKB = struct.pack("<BIdd", 1, 1, 1.0, -2.5)


def column(kind: str, default: str | None = None, nullable: bool = True, **facts: Any) -> Column:
    detail = {"type": kind, **facts}
    return Column("c", kind, lake_type(detail), nullable, default, detail=detail)


def written(kind: Column, value: Any, **options: Any) -> tuple[str, str | None, str]:
    """(schema type, logical name, JSON text) of one value."""
    form = column_form(kind, 0, DebeziumOptions(**options))
    text = form.write(pa.array([value], kind.arrow)).to_arrow()[0].as_py()
    return form.schema.type, form.schema.name, text


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (column("tinyint"), -5, ("int16", None, "-5")),
        (column("smallint", unsigned=True), 65535, ("int32", None, "65535")),
        (column("mediumint"), 1, ("int32", None, "1")),
        (column("int", unsigned=True), 4294967295, ("int64", None, "4294967295")),
        (column("bigint", unsigned=True), Decimal(2**64 - 1), ("int64", None, "-1")),
        (column("float"), 1.5, ("float", None, "1.5")),
        (column("float", length=7, scale=2), 1.5, ("double", None, "1.5")),
        (column("bit", length=1), "1", ("boolean", None, "true")),
        (column("bit", length=10), "1000000001", ("bytes", "io.debezium.data.Bits", '"AQI="')),
        (column("year"), 2024, ("int32", "io.debezium.time.Year", "2024")),
        (column("time", fraction=0), "-838:59:59", ("int64", "io.debezium.time.MicroTime", "-3020399000000")),
        (column("time", fraction=6), "00:00:00.000001", ("int64", "io.debezium.time.MicroTime", "1")),
        (column("enum", labels=["a", "b"]), "b", ("string", "io.debezium.data.Enum", '"b"')),
        (column("set", labels=["a", "b"]), "a,b", ("string", "io.debezium.data.EnumSet", '"a,b"')),
        (
            column("json"),
            '{"a": [1, 2.50, "x: y"]}',
            ("string", "io.debezium.data.Json", '"{\\"a\\":[1,2.50,\\"x: y\\"]}"'),
        ),
        (column("uuid"), "x", ("string", "io.debezium.data.Uuid", '"x"')),
        (column("vector"), [1.0, 0.5], ("array", "io.debezium.data.FloatVector", "[1.0,0.5]")),
        (
            column("point"),
            struct.pack("<I", 4326) + WKB,
            (
                "struct",
                "io.debezium.data.geometry.Point",
                f'{{"x":1.0,"y":-2.5,"wkb":"{base64.b64encode(WKB).decode()}","srid":4326}}',
            ),
        ),
    ],
)
def test_values_have_debezium_s_form(kind: Column, value: Any, expected: tuple[str, str | None, str]) -> None:
    assert written(kind, value, **MICROS) == expected


def test_unsigned_64_bits_can_be_exact() -> None:
    kind, name, text = written(
        column("bigint", unsigned=True), Decimal(2**64 - 1), bigint_unsigned_handling_mode="precise"
    )

    assert (kind, name) == ("bytes", "org.apache.kafka.connect.data.Decimal")
    assert int.from_bytes(base64.b64decode(text.strip('"'))) == 2**64 - 1


@pytest.mark.parametrize(
    ("fraction", "name"), [(3, "io.debezium.time.Timestamp"), (4, "io.debezium.time.MicroTimestamp")]
)
def test_a_datetime_s_unit_follows_its_digits(fraction: int, name: str) -> None:
    assert column_form(column("datetime", fraction=fraction), 0, DebeziumOptions(**MICROS)).schema.name == name


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (column("int", "7"), "7"),
        (column("varchar", "'it''s'"), '"it\'s"'),
        (column("decimal", "1.50", length=10, scale=2), '"AJY="'),
        (column("timestamp", "current_timestamp()", nullable=False, fraction=0), '"1970-01-01T00:00:00Z"'),
        (column("date", "'0000-00-00'", nullable=False), "0"),
        (column("date", "'0000-00-00'"), None),
        (column("int"), None),
    ],
)
def test_defaults_stand_in_the_schema(kind: Column, expected: str | None) -> None:
    assert column_form(kind, 0, DebeziumOptions(**MICROS)).schema.default == expected


@pytest.mark.parametrize(("connector", "name"), [(BinlogConnector, "mysql"), (MariaDbConnector, "mariadb")])
def test_the_source_block_names_file_place_row_and_transaction(connector: type[BinlogConnector], name: str) -> None:
    reader = Reader("other")
    (batch,) = [batch for chunk in reader.feed(PACKETS) for batch in decode(chunk, reader.schemas)]
    made = connector("binlog", 6)
    fields = {field.name: field.write for field in made.source_fields(batch.table)}
    texts = {
        key: write if isinstance(write, str) else write(batch.records).to_arrow().to_pylist()
        for key, write in fields.items()
    }

    assert list(fields) == ["table", "server_id", "gtid", "file", "pos", "row", "thread", "query"]
    assert (made.name, made.database_of(batch.table), texts["table"]) == (name, "shop", '"other"')
    assert texts["server_id"] == ["1", "1", "1"]
    assert texts["gtid"] == ['"0-1-5"'] * 3
    assert texts["file"] == ['"binlog.000001"'] * 3
    assert texts["row"] == ["0", "1", "2"]
    assert len(set(texts["pos"])) == 1
    assert made.transaction_id(batch.records).to_arrow().to_pylist() == ['"0-1-5"'] * 3
    assert transactions(batch.records.slice(1)).gtids.to_pylist() == ["0-1-5"] * 2
