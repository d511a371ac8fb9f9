"""Transforms of events, on batches made by hand; what real Debezium gave is in tests/integration/test_transforms.py."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.formats.change_builder import NOW, batch, change, column, order

from headwater.errors import Stop, Usage
from headwater.event import ChangeBatch, TableSchema
from headwater.formats.connector import Moment, Run
from headwater.formats.debezium_json import DebeziumJson
from headwater.formats.debezium_options import DebeziumOptions
from headwater.options import parse_options
from headwater.sources.postgres.debezium import PostgresConnector
from headwater.transforms.chain import build_chain
from headwater.transforms.connect_form import take_connect
from headwater.transforms.encoder import TransformingEncoder

CHANGES = (
    change("c", order(1)),
    change("u", order(2, name=None), order(2)),
    change("u", order(5), order(4)),
    change("u", order(9, name=None), unchanged=["name"]),
    change("d", None, order(3)),
    change("t"),
)
CONNECTOR = PostgresConnector("db")
RUN = Run("a run", "postgresql")


def records(
    changes: ChangeBatch, *sections: dict[str, Any], options: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    form = parse_options(DebeziumOptions, {"topic.prefix": "srv", **(options or {})}, where="test")
    return list(TransformingEncoder(form, CONNECTOR, build_chain(sections).events, RUN).encode(changes, Moment(NOW)))


@pytest.mark.parametrize("schemas", ["true", "false"])
@pytest.mark.parametrize("headers", ["json", "simple"])
def test_untransformed_events_are_the_format_s_own(schemas: str, headers: str) -> None:
    given = {
        "topic.prefix": "srv",
        "converter.schemas.enable": schemas,
        "header.converter": headers,
        "skipped.operations": "none",
        "provide.transaction.metadata": "true",
    }
    form = parse_options(DebeziumOptions, given, where="test")
    plain = list(DebeziumJson(form, CONNECTOR, RUN).encode(batch(CHANGES), Moment(NOW)))
    made = list(TransformingEncoder(form, CONNECTOR, (), RUN).encode(batch(CHANGES), Moment(NOW)))
    assert [{key: row[key] for key in plain[0]} for row in made] == plain


def test_flatten_gives_rows_and_null_for_deletes() -> None:
    rows = records(batch([change("c", order(1)), change("d", None, order(2))]), {"type": "flatten"})
    assert [row["value"] and json.loads(row["value"]) and json.loads(row["value"])["id"] for row in rows] == [1, None]
    assert rows[1]["value"] == "null"
    assert [row["change"] for row in rows] == [0, 1]


def test_a_fact_that_events_do_not_have_is_refused() -> None:
    with pytest.raises(Usage, match="no field 'wombat'"):
        records(batch(CHANGES), {"type": "flatten", "add_fields": ["wombat"]})


def test_content_router_sends_each_event_where_its_content_says() -> None:
    section = {"type": "content_router", "topic": "case when op = 'd' then 'gone' when after.id > 1 then 'big' end"}
    topics = [(row["topic"], row["change"]) for row in records(batch(CHANGES), section)]
    # A tombstone stays; the delete half of a split update is a delete.
    kept = "srv.public.orders"
    assert topics == [(kept, 0), ("big", 1), ("gone", 2), (kept, 2), ("big", 2), ("big", 3), ("gone", 4), (kept, 4)]


def test_scripts_are_not_run() -> None:
    with pytest.raises(Usage, match="scripts are not run"):
        build_chain([{"type": "content_router", "topic.expression": "1", "language": "jsr223.groovy"}])


def test_headers_and_fields_are_added_in_order() -> None:
    sections = (
        {"type": "insert_header", "header": "team", "value": 'blue "1"'},
        {"type": "header_to_value", "headers": ["team"], "fields": ["source.team"], "operation": "move"},
        {"type": "insert_field", "static.field": "region", "static.value": "eu"},
        {"type": "regex_router", "regex": r"srv\.(.*)", "replacement": "all.$1"},
    )
    (row,) = records(batch([change("c", order(1))]), *sections)
    value = json.loads(row["value"])
    assert row["topic"] == "all.public.orders"
    assert (list(value)[-1], value["region"], value["source"]["team"]) == ("region", "eu", 'blue "1"')
    assert "team" not in [header["key"] for header in row["headers"]]


def test_predicates_choose_topics() -> None:
    flat = {
        "transforms": "Name",
        "transforms.name.type": "org.apache.kafka.connect.transforms.InsertHeader",
        "transforms.name.header": "h",
        "transforms.name.value.literal": "v",
        "transforms.name.predicate": "isIt",
        "transforms.name.negate": "true",
        "predicates": "isIt",
        "predicates.isit.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.isit.pattern": ".*orders",
        "topic.prefix": "x",
    }
    sections, rest = take_connect(flat, "test")
    assert rest == {"topic.prefix": "x"}
    assert sections[0]["except_topics"] == ".*orders"
    (row,) = records(batch([change("c", order(1))]), *sections)
    assert "h" not in [header["key"] for header in row["headers"]]


OUTBOX = TableSchema(
    "public",
    "outbox",
    (
        column("id", "uuid", nullable=False),
        column("aggregatetype", "text"),
        column("aggregateid", "text"),
        column("payload", "text"),
        column("made", "timestamp"),
        column("part", "int4"),
    ),
    key=("id",),
    identity=("id",),
)


def message(number: int, payload: str | None, **more: Any) -> dict[str, Any]:
    row = {"id": f"{number:036d}", "aggregatetype": "order", "aggregateid": "7", "payload": payload, "made": None}
    return change("c", {**row, "part": 1, **more})


def test_outbox_sets_partition_and_timestamp() -> None:
    section = {"type": "outbox", "place": ["part:partition"], "timestamp": "made"}
    changes = [message(1, "{}", made=1_700_000_000_000_999), message(2, "{}")]
    rows = records(batch(changes, OUTBOX), section)
    assert [(row["partition"], row["timestamp"]) for row in rows] == [(1, 1_700_000_000_000), (1, NOW // 1_000_000)]


def test_outbox_expands_each_payload_by_its_own_shape() -> None:
    payloads = ['{"a": 1, "b": [1.5, 2]}', '{"a": 12345678901, "c": "x"}', "[1, 2]", "no json", "[1, NaN]", '{"a": 1}']
    changes = batch([message(n, text) for n, text in enumerate(payloads)], OUTBOX)
    rows = records(changes, {"type": "outbox", "expand_json": True}, options={"converter.schemas.enable": "true"})
    values = [json.loads(row["value"]) for row in rows]
    assert [row["change"] for row in rows] == [0, 1, 2, 3, 4, 5]
    # Numbers of two kinds in one array: not expanded, as in Debezium.
    assert values[0]["payload"] == payloads[0]
    assert (values[1]["payload"], values[1]["schema"]["fields"][0]["type"]) == ({"a": 12345678901, "c": "x"}, "int64")
    assert (values[2]["payload"], values[2]["schema"]["items"]["type"]) == ([1, 2], "int32")
    assert [values[3]["payload"], values[4]["payload"]] == ["no json", "[1, NaN]"]
    assert values[5]["payload"] == {"a": 1}


def test_an_update_of_the_outbox_stops_when_it_shall() -> None:
    row = message(1, "x")["after"]
    with pytest.raises(Stop, match="was updated"):
        records(batch([change("u", row)], OUTBOX), {"type": "outbox", "table.op.invalid.behavior": "fatal"})


def test_a_table_that_is_no_outbox_is_named() -> None:
    with pytest.raises(Usage, match=r"public\.orders has no column 'aggregateid'"):
        records(batch([change("c", order(1))]), {"type": "outbox"})


def test_a_change_of_which_no_event_can_be_made_may_be_left_out() -> None:
    # NaN has no form under decimal.handling.mode=precise.
    table = TableSchema("public", "t", (column("id", "int4"), column("n", "numeric")), key=("id",), identity=("id",))
    changes = batch([change("c", {"id": n, "n": "NaN" if n == 1 else "1"}) for n in range(4)], table)
    options = {"event.processing.failure.handling.mode": "skip"}
    for sections in ((), ({"type": "flatten"},)):
        rows = records(changes, *sections, options=options)
        assert [row["change"] for row in rows] == [0, 2, 3]
    form = parse_options(DebeziumOptions, {"topic.prefix": "srv", **options}, where="test")
    plain = DebeziumJson(form, CONNECTOR).encode(changes, Moment(NOW))
    assert plain.table["change"].to_pylist() == [0, 2, 3]
    with pytest.raises(Stop):
        records(changes)
