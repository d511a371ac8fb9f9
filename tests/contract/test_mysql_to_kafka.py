"""The second database into Kafka: rows, and what changed their definition, in their places."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contract.targets import read_topic

from headwater.testing.kafka import KafkaServer
from headwater.testing.mysql import MySqlServer
from headwater.testing.pipeline import PipelineProcess

pytestmark = pytest.mark.server


def test_rows_and_schema_changes_have_topics_of_their_own(
    mysql: MySqlServer, kafka: KafkaServer, tmp_path: Path
) -> None:
    prefix = "to_kafka"
    mysql.execute(
        f"create database {prefix}",
        f"create table {prefix}.orders (id int primary key, note text)",
        f"insert into {prefix}.orders values (1, 'first')",
    )
    pipeline = PipelineProcess(
        tmp_path,
        {
            "name": prefix,
            "source": {
                "type": "mysql",
                "url": mysql.url(),
                "tables": [f"{prefix}.*"],
                "include.schema.changes": "true",
            },
            "sinks": [{"type": "kafka", "bootstrap.servers": kafka.bootstrap}],
        },
        spark=False,
    )
    try:
        assert pipeline.available_now() == 0, pipeline.output()
        mysql.execute(
            f"insert into {prefix}.orders values (2, 'second')",
            f"alter table {prefix}.orders add column qty int",
            f"insert into {prefix}.orders values (3, 'third', 3)",
        )
        assert pipeline.available_now() == 0, pipeline.output()
    finally:
        pipeline.close()
        mysql.execute(f"drop database {prefix}")

    rows = [(r.value["op"], r.value["after"]) for r in read_topic(kafka, f"{prefix}.{prefix}.orders")]
    assert rows == [
        ("r", {"id": 1, "note": "first"}),
        ("c", {"id": 2, "note": "second"}),
        ("c", {"id": 3, "note": "third", "qty": 3}),
    ]
    [change] = read_topic(kafka, prefix)
    assert change.key == {"databaseName": prefix}
    assert change.value["ddl"] == f"alter table {prefix}.orders add column qty int"
    [table] = change.value["tableChanges"]
    assert [column["name"] for column in table["table"]["columns"]] == ["id", "note", "qty"]
