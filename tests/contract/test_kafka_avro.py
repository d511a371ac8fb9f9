"""Avro and the schema registry: who may change a schema, and what happens without a registry."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tests.contract.targets import KafkaAvro
from tests.contract.test_sinks import BEGIN, ORDERS, begun, write
from tests.unit.formats.change_builder import column
from tests.unit.sinks.lake_of_orders import Changes, row

from headwater.errors import Retry, Stop, Usage
from headwater.options import parse_options
from headwater.sinks.kafka import KafkaOptions
from headwater.testing.kafka import KafkaServer
from headwater.testing.registry import RegistryServer

pytestmark = pytest.mark.server


@pytest.fixture
def topics(kafka: KafkaServer, registry: RegistryServer, tmp_path: Path) -> KafkaAvro:
    made = KafkaAvro(tmp_path, kafka)
    made.registry = registry
    return made


def test_a_schema_that_the_registry_refuses_stops_before_any_event(topics: KafkaAvro) -> None:
    sink = begun(topics)
    write(sink, Changes(ORDERS).insert(**row(1)))
    columns = tuple(column("qty", "text") if each.name == "qty" else each for each in ORDERS.columns)
    changed = dataclasses.replace(ORDERS, columns=columns)

    with pytest.raises(Stop, match=r"SCHEMA_DRIFT.*shop\.orders-value"):
        write(sink, Changes(changed, commit=200).insert(**{**row(2), "qty": "many"}))

    assert topics.rows(ORDERS) == [row(1)]
    position = topics.sink().table_position(ORDERS)
    assert position is not None
    assert position < Changes(changed, commit=200).upto


def test_a_registry_that_is_not_there_is_waited_for(topics: KafkaAvro) -> None:
    sink = topics.sink({"schema.registry.url": "http://127.0.0.1:1"})
    sink.position()
    sink.load(ORDERS, [], BEGIN)

    with pytest.raises(Retry, match=r"schema registry at http://127\.0\.0\.1:1 cannot be reached"):
        write(sink, Changes(ORDERS).insert(**row(1)))

    write(topics.sink(), Changes(ORDERS).insert(**row(1)))
    assert topics.rows(ORDERS) == [row(1)]


def test_the_registry_s_settings_are_not_the_broker_s_and_its_secrets_are_not_shown() -> None:
    given = {
        "bootstrap.servers": "h:9092",
        "format": "debezium-avro",
        "schema.registry.url": "http://r:8081",
        "schema.registry.basic.auth.user.info": "me:hunter2",
    }
    options = parse_options(KafkaOptions, given, where="sinks[0]")

    assert options.registry() == {"url": "http://r:8081", "basic.auth.user.info": "me:hunter2"}
    assert options.settings() == {"bootstrap.servers": "h:9092"}
    assert "hunter" not in repr(options)
    with pytest.raises(Usage, match="go together"):
        parse_options(KafkaOptions, {"bootstrap.servers": "h:9092", "format": "debezium-avro"}, where="sinks[0]")
