"""Transaction and heartbeat records, topic and schema names."""

from __future__ import annotations

import json

import pytest

from headwater.formats.connect import quote
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.debezium_records import begin_record, end_record, heartbeat_record
from headwater.formats.names import adjust, sanitise, topic_name

OPTIONS = DebeziumOptions(topic_prefix="srv")


def test_a_transaction_begins_without_counts() -> None:
    record = begin_record(OPTIONS, "805:33072280", 1794778478628)
    assert (record.topic, record.key) == ("srv.transaction", '{"id":"805:33072280"}')
    assert record.value == (
        '{"status":"BEGIN","id":"805:33072280","event_count":null,"data_collections":null,"ts_ms":1794778478628}'
    )


def test_a_transaction_ends_with_counts_per_table() -> None:
    record = end_record(OPTIONS, "805:33072496", 1794778478628, {"public.plain": 2, "public.other": 1})
    value = json.loads(record.value)
    assert (value["status"], value["event_count"]) == ("END", 3)
    assert value["data_collections"] == [
        {"data_collection": "public.plain", "event_count": 2},
        {"data_collection": "public.other", "event_count": 1},
    ]


def test_a_heartbeat_names_the_server() -> None:
    record = heartbeat_record(OPTIONS, 5)
    assert (record.topic, record.key, record.value) == (
        "__debezium-heartbeat.srv",
        '{"serverName":"srv"}',
        '{"ts_ms":5}',
    )
    with_schema = heartbeat_record(DebeziumOptions(topic_prefix="srv", schemas_enable=True), 5)
    assert json.loads(with_schema.value)["schema"]["name"] == "io.debezium.connector.common.Heartbeat"


@pytest.mark.parametrize(
    ("parts", "topic"),
    [
        (("public", "orders"), "srv.public.orders"),
        (("other-schema", "t.1"), "srv.other-schema.t.1"),
        (("public", "Odd Näme; x"), "srv.public.Odd_N_me__x"),
        (("", "orders"), "srv.orders"),
        (("public", "x" * 300), "srv.public." + "x" * 238),
    ],
)
def test_topic_names(parts: tuple[str, ...], topic: str) -> None:
    assert topic_name(OPTIONS, *parts) == topic


def test_topics_of_dots_alone_are_underscores() -> None:
    assert (sanitise("."), sanitise("..")) == ("_", "__")


@pytest.mark.parametrize(
    ("name", "mode", "field", "adjusted"),
    [
        ("srv.my-table", "avro", False, "srv.my_table"),
        ("a.b", "avro", True, "a_b"),
        ("1st", "avro", True, "_1st"),
        ("my-t_x", "avro_unicode", False, "my_u002dt_u005fx"),
        ("ü", "avro_unicode", True, "_u00fc"),
        ("any thing", "none", True, "any thing"),
    ],
)
def test_adjusted_names(name: str, mode: str, field: bool, adjusted: str) -> None:
    assert adjust(name, mode, field=field) == adjusted


def test_quoting_matches_the_kernel_for_control_characters() -> None:
    assert quote("\x0b\x1f\n") == '"\\u000B\\u001F\\n"'
