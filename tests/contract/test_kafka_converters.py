"""What a consumer of Debezium runs, reads what we write: Connect's JSON and Avro converters, Debezium's transform."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.contract.connect_reader import AVRO, JSON, ConnectReader
from tests.contract.targets import read_topic

from headwater.testing.kafka import KafkaServer
from headwater.testing.pipeline import PipelineProcess
from headwater.testing.registry import RegistryServer

pytestmark = pytest.mark.server

TABLE = """
    create table {name} (
        id bigint primary key, small smallint, flag boolean, real real, double double precision,
        exact numeric(12, 3), any_number numeric, word varchar(10), body text, raw bytea, day date, at timestamp,
        at_zone timestamptz, clock time, span interval, data jsonb, tag uuid, list int[], words text[], bits bit(4),
        net inet)
"""
ROW = """
    {id}, -3, true, 1.5, -2.25, 123456.789, 12345678901234567890.123, 'straße', null, '\\x00ff', '2026-02-28',
    '2026-02-28 12:34:56.789012', '1969-12-31 23:59:59.5+00', '23:59:59.999999', '1 month 2 days 3 seconds',
    '{{"a": [1, null]}}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{{1,null,3}}', '{{a,null,"c d"}}', b'1010',
    '10.0.0.1/8'
"""


def as_it_is(data: bytes, place: object) -> bytes:
    return data


def events(pipeline: PipelineProcess, database: Any, kafka: KafkaServer, name: str, reader: ConnectReader) -> list[Any]:
    """(key, (op, before, after) or None) of everything in a table's topic, after one change of every kind; then a
    logical message, and how many events each transaction had."""
    database.execute(TABLE.format(name=name))
    database.execute(f"insert into {name} values ({ROW.format(id=1)})")
    assert pipeline.available_now() == 0, pipeline.output()
    database.execute(f"insert into {name} values ({ROW.format(id=2)})")
    database.execute(f"update {name} set small = 7, body = 'long' where id = 2")
    database.execute(f"update {name} set id = 3 where id = 2; delete from {name} where id = 3")
    database.execute("select pg_logical_emit_message(true, 'note', 'hello')")
    assert pipeline.available_now() == 0, pipeline.output()

    found: list[Any] = []
    topic = f"{name}.public.{name}"
    with reader:
        for record in read_topic(kafka, topic, decode=as_it_is):
            schema, key = reader.read(topic, record.key, key=True)
            assert schema == f"{topic}.Key"
            if record.value is None:
                found.append((key, None))
                continue
            schema, value = reader.read(topic, record.value)
            assert schema == f"{topic}.Envelope"
            found.append((key, (value["op"], value["before"], value["after"])))
            assert reader.flattened(topic, record.key, record.value) == value["after"]
        for part, shown in (("message", "message"), ("transaction", "event_count")):
            topic = f"{name}.{part}"
            values = [reader.read(topic, record.value)[1] for record in read_topic(kafka, topic, decode=as_it_is)]
            found.append([value[shown] for value in values])
    return found


def test_converters_and_transform_take_every_event(
    database: Any, kafka: KafkaServer, registry: RegistryServer, tmp_path: Path
) -> None:
    def pipeline(name: str, source: dict[str, str], sink: dict[str, str]) -> PipelineProcess:
        folder = tmp_path / name
        folder.mkdir()
        own = {"url": database.url, "slot": f"{database.slot}_{name}", "provide.transaction.metadata": "true"}
        source = {"type": "postgres", **own, **source}
        sink = {"type": "kafka", "bootstrap.servers": kafka.bootstrap, **sink}
        given = {"name": name, "source": {**source, "tables": [f"public.{name}"]}, "sinks": [sink]}
        return PipelineProcess(folder, given, spark=False)

    avro = {"format": "debezium-avro", "schema.registry.url": registry.url}
    as_json = events(
        pipeline("by_json", {"schemas.enable": "true"}, {"format": "debezium-json"}),
        database,
        kafka,
        "by_json",
        ConnectReader(JSON, {"schemas.enable": "true"}),
    )
    as_avro = events(
        pipeline("by_avro", {}, avro),
        database,
        kafka,
        "by_avro",
        ConnectReader(AVRO, {"schema.registry.url": registry.url}),
    )

    assert as_json == as_avro
    assert as_json[-2:] == [[{"prefix": "note", "content": "aGVsbG8="}], [None, 1, None, 1, None, 3, None, 1]]
    del as_json[-2:]
    assert [(key["id"], change and change[0]) for key, change in as_json] == [
        (1, "r"), (2, "c"), (2, "u"), (2, "d"), (2, None), (3, "c"), (3, "d"), (3, None)
    ]  # fmt: skip
    [row] = database.execute("select id, small, word, day - date '1970-01-01', tag::text from by_json")
    after = as_json[0][1][2]
    assert (after["id"], after["small"], after["word"], after["day"], after["tag"]) == row
