"""Events other than rows, statements, and binary JSON."""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa
import pytest

from headwater.sources.mysql import binlog
from headwater.sources.mysql.binlog import Malformed
from headwater.sources.mysql.json_binary import double_text, json_text
from headwater.sources.mysql.statement import Kind, classify, truncated
from headwater.sources.mysql.table_map import parse_table_map


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("BEGIN", Kind.BEGIN),
        ("begin", Kind.BEGIN),
        ("COMMIT", Kind.COMMIT),
        ("ROLLBACK", Kind.ROLLBACK),
        ("ROLLBACK TO `a`", Kind.ROLLBACK_TO),
        ("SAVEPOINT `a`", Kind.SAVEPOINT),
        ("/* hi */ insert into t values (1)", Kind.CHANGE),
        ("-- note\nDELETE from t", Kind.CHANGE),
        ("/*!40000 REPLACE into t values (1) */", Kind.CHANGE),
        ("TRUNCATE t", Kind.TRUNCATE),
        ("alter table t add insert_time int", Kind.DEFINITION),
        ("create table t as select 1", Kind.DEFINITION),
        ("CREATE TABLE `t` (`a` int) START TRANSACTION", Kind.DEFINITION_WITH_ROWS),
        ("# c\n drop table x", Kind.DEFINITION),
        ("", Kind.DEFINITION),
    ],
)
def test_statements_are_told_apart(text: str, kind: Kind) -> None:
    assert classify(text) is kind


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("truncate table orders", ("shop", "orders")),
        ("TRUNCATE `other`.`o``x y`", ("other", "o`x y")),
        ("/* a */ truncate\n table  a . `b`", ("a", "b")),
        ("TRUNCATE TABLE t /* generated */", ("shop", "t")),
    ],
)
def test_a_truncated_table_is_named(text: str, table: tuple[str, str]) -> None:
    assert truncated(text, "shop") == table


def test_a_compressed_transaction_is_unpacked_up_to_its_size() -> None:
    events = b"events" * 1000
    packed = pa.compress(events, codec="zstd", asbytes=True)

    def field(kind: int, value: int) -> bytes:
        return bytes([kind, 3, 0xFC]) + value.to_bytes(2, "little")

    head = field(2, 0) + field(3, len(events)) + field(1, len(packed)) + b"\0"
    assert binlog.parse_payload(head + packed) == events
    with pytest.raises(Malformed):
        binlog.parse_payload(head + packed[:-5])
    huge = bytes([3, 9, 0xFE]) + (1 << 60).to_bytes(8, "little")
    with pytest.raises(Malformed, match="impossible size"):
        binlog.parse_payload(bytes([2, 1, 0]) + huge + b"\0" + packed)


def test_mariadb_s_compressed_data_must_have_the_size_it_says() -> None:
    packed = zlib.compress(b"x" * 500)

    assert binlog.inflate(b"\x82\x01\xf4" + packed) == b"x" * 500
    for wrong in (b"\x82\x01\xf3" + packed, b"\x82\x01\xf5" + packed, b"\xf2\x01\xf4" + packed, b"", b"\x82\x01\xf4xx"):
        with pytest.raises(Malformed):
            binlog.inflate(wrong)


def test_a_gtid_of_mysql_8_says_when_it_was_committed() -> None:
    uuid = bytes(range(16))
    body = b"\x01" + uuid + struct.pack("<q", 42) + b"\x02" + bytes(16)
    body += ((1_700_000_000_123_456) | 1 << 55).to_bytes(7, "little")
    found = binlog.parse_mysql_gtid(body)

    assert str(found) == "00010203-0405-0607-0809-0a0b0c0d0e0f:42"
    assert found.time == 1_700_000_000_123_456
    assert binlog.parse_mysql_gtid(body[:25]).time == 0


@pytest.mark.parametrize("size", [0, 5, 12, 30])
def test_events_that_are_too_short_are_refused(size: int) -> None:
    for parse in (parse_table_map, binlog.parse_query, lambda body: binlog.parse_format_description(body)):
        with pytest.raises(Malformed):
            parse(bytes([200]) * size)


# Made by MySQL 8.0.33: select hex(json) of these texts, by way of the log.
def test_binary_json() -> None:
    small = bytes.fromhex("0001000c000b00010005010061")
    assert json_text(small) == '{"a": 1}'
    array = bytes.fromhex("0203000d0004000004010005ffff")
    assert json_text(array) == "[null, true, -1]"
    assert json_text(b'\x0c\x03a"\xc3\xa4'[:2] + b'a"b') == '"a\\"b"'
    assert json_text(b"\x0b" + struct.pack("<d", 100.0)) == "100.0"
    assert json_text(b"\x0a" + b"\xff" * 8) == "18446744073709551615"
    assert json_text(b"") == "null"
    assert json_text(b"\x0f\xf6\x04\x03\x01\x80\x7b\x05"[:3] + b"\x03\x01\x8c\x05") == "12.5"


@pytest.mark.parametrize(
    "raw",
    [b"\x00", b"\x00\xff\xff\x00\x00", b"\x63", b"\x0c\xff\xff\xff\xff\xff\xff", b"\x02\x01\x00\x08\x00\x02\x00\x00"],
)
def test_what_is_not_binary_json_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        json_text(raw)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "0.0000001",
            "0.00001",
            "0.0001",
            "1e15",
            "1e16",
            "1.2345678901234568e17",
            "100000000000000.0",
            "1e22",
            "0.1",
        ),
        *("0.3333333333333333", "-1e-300", "0.5", "-0.0", "0.0", "100.0", "1.5e300"),
    ],
)
def test_doubles_in_json_look_as_mysql_8_writes_them(text: str) -> None:
    assert double_text(float(text)) == text
