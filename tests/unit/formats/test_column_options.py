"""Debezium's column options, where the recordings of real Debezium do not reach."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from headwater.errors import Usage
from headwater.event import TableSchema
from headwater.formats.connector import Moment
from headwater.formats.debezium_json import DebeziumJson
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.masking import hashed, java_string, truncated
from headwater.options import parse_options
from headwater.sources.postgres.debezium import PostgresConnector

from .change_builder import NOW, batch, change, column, order

TABLE = TableSchema(
    "public",
    "t",
    (
        column("id", "int4", nullable=False),
        column("code", "text", nullable=False),
        column("note", "text"),
        column("free", "numeric"),
        column("clock", "time"),
        column("photo", "bytea"),
    ),
    key=("id",),
    identity=("id",),
)


def after(given: dict[str, str], **row: Any) -> dict[str, Any]:
    options = parse_options(DebeziumOptions, {"topic.prefix": "srv", **given}, where="test")
    values = {"id": 1, "code": "abc", "note": None, "free": "1.5", "clock": "12:00:00", "photo": b"\1\2\3", **row}
    changes = batch([change("u", values, unchanged=row.get("unchanged"))], TABLE)
    (record,) = DebeziumJson(options, PostgresConnector("db")).encode(changes, Moment(NOW))
    found: dict[str, Any] = json.loads(str(record["value"]))["after"]
    return found


def test_a_column_that_is_a_number_in_events_is_left_alone() -> None:
    every = {"column.mask.with.3.chars": r"public\.t\..*"}
    plain = after({})
    assert after(every) == {**plain, "code": "***", "note": "***"}
    assert after({"column.truncate.to.1.chars": r"public\.t\..*"}) == {**plain, "code": "a", "photo": "AQ=="}


def test_a_value_that_the_log_left_out_is_masked_too() -> None:
    options = {"column.mask.with.0.chars": "public.t.note", "unavailable.value.placeholder": "gone"}
    assert after(options, unchanged=["note"])["note"] == ""
    assert after({"unavailable.value.placeholder": "gone"}, unchanged=["note"])["note"] == "gone"


def test_the_key_is_never_masked_or_left_out() -> None:
    given = {"column.exclude.list": r"public\.orders\.id", "topic.prefix": "srv"}
    options = parse_options(DebeziumOptions, given, where="test")
    (record,) = DebeziumJson(options, PostgresConnector("db")).encode(batch([change("c", order(1))]), Moment(NOW))
    assert record["key"] == '{"id":1}'
    assert "id" not in json.loads(str(record["value"]))["after"]


def test_patterns_are_whole_names_without_case() -> None:
    assert "note" in after({"column.exclude.list": r"public\.t\.not"})
    assert "note" not in after({"column.exclude.list": r"PUBLIC\.T\.NOTE"})
    assert "note" not in after({"column.exclude.list": r"x,public\.t\.n.{1\,3}"})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"column.include.list": "a", "column.exclude.list": "b"}, "exclude each other"),
        ({"column.mask.hash.v2.SHA-257.with.salt.x": "a"}, "no hash algorithm 'SHA-257'"),
        ({"column.exclude.list": "("}, "not a regular expression"),
        ({"column.mask.with.x.chars": "a"}, "unknown option"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(Usage) as error:
        after(given)
    assert says in str(error.value)


def test_text_is_cut_by_utf16_units_and_never_inside_a_character() -> None:
    texts = pa.array(["a\U0001f600b", "äöü", None, "x"])
    assert truncated(texts, 2).to_pylist() == ["a", "äö", None, "x"]
    assert truncated(texts, 3).to_pylist() == ["a\U0001f600", "äöü", None, "x"]


def test_a_string_is_framed_as_java_writes_it() -> None:
    assert java_string("é\0") == b"\xac\xed\x00\x05t\x00\x04\xc3\xa9\xc0\x80"
    assert java_string("\U0001f600")[4:] == b"t\x00\x06\xed\xa0\xbd\xed\xb8\x80"
    assert java_string("x" * 70_000)[4:13] == b"|" + (70_000).to_bytes(8, "big")


def test_equal_values_have_equal_hashes_cut_to_the_column() -> None:
    first, second, other, null = hashed(pa.array(["a", "a", "b", None]), "sha256", "s", 10).to_pylist()
    assert first == second != other
    assert (len(first), null) == (10, None)
