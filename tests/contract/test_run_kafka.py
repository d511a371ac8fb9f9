"""A whole pipeline into Kafka and Delta: snapshot and stream, killed and started again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.contract.targets import Record, read_topic
from tests.lake import assert_lake_equals_source

from headwater.testing.kafka import KafkaServer
from headwater.testing.pipeline import PipelineProcess

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]


def current(records: list[Record]) -> dict[int, Any]:
    """What a consumer that compacts by key ends with."""
    kept: dict[int, Any] = {}
    for record in records:
        if record.value is None:
            kept.pop(record.key["id"], None)
        else:
            kept[record.key["id"]] = record.value["after"]
    return kept


def test_snapshot_and_stream_arrive_exactly_once_however_often_the_run_is_killed(
    database: Any, kafka: KafkaServer, tmp_path: Path
) -> None:
    database.execute(
        "create table orders (id int primary key, note text);"
        "insert into orders select n, 'first ' || n from generate_series(1, 50) n"
    )
    prefix = f"run_{database.name}"
    pipeline = PipelineProcess(
        tmp_path,
        {
            "name": prefix,
            "source": {
                "type": "postgres",
                "url": database.url,
                "slot": database.slot,
                "provide.transaction.metadata": "true",
            },
            "sinks": [
                {"type": "kafka", "bootstrap.servers": kafka.bootstrap, "partitions": 2},
                {"type": "delta", "path": str(tmp_path / "lake")},
            ],
        },
    )
    try:
        assert pipeline.available_now() == 0, pipeline.output()
        database.execute("update orders set note = 'second' where id <= 10; delete from orders where id > 45")
        database.execute("insert into orders values (100, 'new')")
        assert pipeline.available_now(failpoints="kafka.before_commit=kill") < 0, pipeline.output()
        database.execute("update orders set id = 101 where id = 100")
        assert pipeline.available_now(failpoints="kafka.after_commit=kill") < 0, pipeline.output()
        assert pipeline.available_now() == 0, pipeline.output()
    finally:
        pipeline.close()

    assert_lake_equals_source(database, tmp_path / "lake", ["public.orders"])
    records = read_topic(kafka, f"{prefix}.public.orders")
    rows = database.execute("select id, note from orders")
    assert current(records) == {key: {"id": key, "note": note} for key, note in rows}
    ops = [record.value["op"] for record in records if record.value is not None]
    assert sorted(ops) == sorted("r" * 50 + "u" * 10 + "d" * 5 + "c" + "d" + "c")
    places = [(r.value["source"]["lsn"], json.dumps(r.key)) for r in records if r.value and r.value["op"] != "r"]
    assert len(set(places)) == len(places)
    ends = [r.value for r in read_topic(kafka, f"{prefix}.transaction") if r.value["status"] == "END"]
    assert sorted(end["event_count"] for end in ends) == [1, 2, 15]
