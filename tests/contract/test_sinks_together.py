"""Kafka and Delta in one pipeline, without Spark: each at its own pace; refused records and drifting tables apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from tests.contract.targets import Record, read_topic
from tests.lake import lake_rows

from headwater.cli import main
from headwater.testing import wait_until
from headwater.testing.kafka import KafkaServer
from headwater.testing.pipeline import PipelineProcess
from headwater.testing.proxy import TcpProxy
from headwater.testing.registry import RegistryServer

pytestmark = pytest.mark.server

CREATE = (
    "create table orders (id int primary key, note text, price numeric(10, 2), qty int);"
    "create table items (id int primary key, note text);"
    "insert into orders values (1, 'first', 1); insert into items values (1, 'first')"
)


class Pair:
    """A pipeline with both sinks, and what their readers find."""

    def __init__(self, database: Any, kafka: KafkaServer, folder: Path, **more: Any) -> None:
        self.database = database
        self.kafka = kafka
        self.prefix = f"pair_{database.name}_{folder.name[-8:]}"
        self.lake = folder / "lake"
        self.sinks: list[dict[str, Any]] = [
            {"type": "delta", "path": str(self.lake)},
            {"type": "kafka", "bootstrap.servers": kafka.bootstrap, "partitions": 1, **more},
        ]
        self.pipeline = PipelineProcess(folder, self.definition(), spark=False)

    def definition(self) -> dict[str, Any]:
        source = {"type": "postgres", "url": self.database.url, "slot": self.database.slot}
        return {"name": self.prefix, "source": source, "sinks": self.sinks}

    def rewrite(self, folder: Path) -> None:
        """The file anew, after a change of the definition."""
        self.pipeline = PipelineProcess(folder, self.definition(), spark=False)

    def records(self, table: str, **more: Any) -> list[Record]:
        return read_topic(self.kafka, f"{self.prefix}.public.{table}", **more)

    def topic(self, table: str, **more: Any) -> list[tuple[str, Any, Any]]:
        """(op, id, note) of every event."""
        return [
            (r.value["op"], r.value["after"]["id"], r.value["after"]["note"])
            for r in self.records(table, **more)
            if r.value is not None
        ]

    def lake_of(self, table: str) -> dict[int, str]:
        if not (self.lake / "public" / table / "_delta_log").exists():
            return {}
        return {row["id"]: row["note"] for row in lake_rows(self.lake, f"public.{table}")}

    def letters(self, capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
        capsys.readouterr()
        action, *rest = words or ("list",)
        main(["dead-letters", action, str(self.pipeline.file), *rest, "--json"])
        said = capsys.readouterr()
        assert not said.err
        return [json.loads(line) for line in said.out.splitlines()]


@pytest.fixture
def pair(database: Any, kafka: KafkaServer, tmp_path: Path) -> Iterator[Pair]:
    database.execute(CREATE)
    made = Pair(database, kafka, tmp_path)
    yield made
    made.pipeline.close()


def test_what_a_target_refuses_waits_with_its_row_and_is_delivered_in_order(
    database: Any, kafka: KafkaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database.execute(CREATE)
    limits = {"topic_config": {"max.message.bytes": "9000"}, "compression.type": "none", "on_error": "dead_letter"}
    pair = Pair(database, kafka, tmp_path, **limits)
    pair.sinks[0]["on_error"] = "dead_letter"
    pair.rewrite(tmp_path)
    # Too large for its topic already when the table is copied.
    database.execute("insert into orders values (5, repeat('z', 10000), 1)")
    try:
        assert pair.pipeline.available_now() == 0, pair.pipeline.output()
        # Row 2 is too large for its topic, row 3 has no price that a lake or an event could hold.
        database.execute("insert into orders values (2, repeat('x', 10000), 1), (3, 'odd', 'NaN'), (4, 'four', 1)")
        # Many small records together are larger than the topic takes; one by one they are not.
        database.execute("insert into orders select n, repeat('y', 100), 1 from generate_series(100, 160) n")
        database.execute("update orders set note = 'small' where id = 2; update orders set price = 7 where id = 3")
        assert pair.pipeline.available_now() == 0, pair.pipeline.output()

        delivered = [(op, id_) for op, id_, _note in pair.topic("orders") if id_ < 100]
        assert delivered == [("r", 1), ("c", 4)]
        assert sorted(pair.lake_of("orders"))[:4] == [1, 2, 4, 5]
        assert len(pair.lake_of("orders")) == len(pair.topic("orders")) + 2 == 65
        letters = pair.letters(capsys)
        assert [(letter["sink"], letter["keys"]) for letter in letters] == [
            ("delta", ['{"id": "3"}']),
            ("delta", ['{"id": "3"}']),
            *[("kafka", [f'{{"id": "{n}"}}']) for n in (5, 2, 3, 2, 3)],
        ]
        assert [letter["follows"] is not None for letter in letters] == [False, True, False, False, False, True, True]
        assert {s.sink: s.dead_letters for s in pair.pipeline.report().sinks} == {"delta": 2, "kafka": 5}
        [shown] = pair.letters(capsys, "show", letters[0]["id"])
        assert shown["event"]["after"] == {"id": 3, "note": "odd", "price": "NaN", "qty": None}
        assert "10,2" in shown["reason"]["what"]

        # Row 3 was corrected at the source: its bad state is given up. Row 2 has room now.
        odd = [letter["id"] for letter in letters if letter["keys"] == ['{"id": "3"}'] and letter["follows"] is None]
        assert [done["outcome"] for done in pair.letters(capsys, "drop", *odd, "--yes")] == ["dropped"] * 2
        _set_max_bytes(kafka, f"{pair.prefix}.public.orders", "100000")
        done = pair.letters(capsys, "retry")
        assert [each["outcome"] for each in done] == ["delivered"] * 5, done
        assert pair.letters(capsys) == []
        database.execute("update orders set note = 'last' where id in (2, 3)")
        assert pair.pipeline.available_now() == 0, pair.pipeline.output()
    finally:
        pair.pipeline.close()

    seen = [(op, id_, note) for op, id_, note in pair.topic("orders") if id_ in (2, 3, 5)]
    assert [one for one in seen if one[1] == 5] == [("r", 5, "z" * 10000)]
    assert [one for one in seen if one[1] == 2] == [("c", 2, "x" * 10000), ("u", 2, "small"), ("u", 2, "last")]
    assert [one for one in seen if one[1] == 3] == [("u", 3, "odd"), ("u", 3, "last")]
    assert pair.lake_of("orders") == dict(database.execute("select id, note from orders"))


def _set_max_bytes(kafka: KafkaServer, topic: str, size: str) -> None:
    entry = ConfigEntry("max.message.bytes", size, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()


@pytest.mark.slow
def test_retrying_twice_delivers_once(
    database: Any, kafka: KafkaServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database.execute(CREATE)
    limits = {"topic_config": {"max.message.bytes": "9000"}, "compression.type": "none", "on_error": "dead_letter"}
    pair = Pair(database, kafka, tmp_path, **limits)
    try:
        assert pair.pipeline.available_now() == 0, pair.pipeline.output()
        database.execute("insert into orders values (2, repeat('x', 10000), 1)")
        assert pair.pipeline.available_now() == 0, pair.pipeline.output()
        [path] = (pair.pipeline.state / "dead-letters").rglob("*.json")
        kept = path.read_text()
        assert [one["outcome"] for one in pair.letters(capsys, "retry")] == ["waiting"]
        _set_max_bytes(kafka, f"{pair.prefix}.public.orders", "100000")

        assert [one["outcome"] for one in pair.letters(capsys, "retry")] == ["delivered"]
        # Killed before the letter was removed, say.
        path.write_text(kept)
        assert [one["outcome"] for one in pair.letters(capsys, "retry")] == ["delivered"]
    finally:
        pair.pipeline.close()

    assert [one[:2] for one in pair.topic("orders")] == [("r", 1), ("c", 2)]


def test_a_table_that_drifts_stops_alone_and_goes_on_exactly_where_it_was(
    database: Any, kafka: KafkaServer, registry: RegistryServer, tmp_path: Path
) -> None:
    database.execute(CREATE)
    pair = Pair(database, kafka, tmp_path, **{"format": "debezium-avro", "schema.registry.url": registry.url})
    with SchemaRegistryClient({"url": registry.url}) as client:
        read = AvroDeserializer(client)
        try:
            pair.pipeline.start()
            pair.pipeline.wait_ready()
            database.execute("insert into orders values (2, 'two', 1)")
            # A batch of its own: a table stops with all it has in a batch.
            wait_until(lambda: pair.topic("orders", decode=read)[1:], 60, pair.pipeline.output)
            wait_until(lambda: 2 in pair.lake_of("orders"), 60, pair.pipeline.output)
            # Neither may a reader of the old schema be given texts, nor can the Delta table's column follow.
            database.execute("alter table orders alter qty type text using qty::text")
            database.execute("insert into orders values (3, 'three', 1, 'much'); insert into items values (2, 'two')")
            wait_until(lambda: pair.topic("items", decode=read)[1:], 60, pair.pipeline.output)
            wait_until(lambda: 2 in pair.lake_of("items"), 60, pair.pipeline.output)
            wait_until(lambda: len(pair.pipeline.report().reasons) == 2, 30, pair.pipeline.output)

            report = pair.pipeline.report()
            assert not report.ready
            assert "sink delta: public.orders has stopped" in report.reasons[0]
            assert "SCHEMA_DRIFT" in report.reasons[1]
            stopped = {(sink.sink, table.table) for sink in report.sinks for table in sink.tables if table.stopped}
            assert stopped == {("delta", "public.orders"), ("kafka", "public.orders")}
            assert pair.topic("orders", decode=read) == [("r", 1, "first"), ("c", 2, "two")]
            assert pair.lake_of("orders") == {1: "first", 2: "two"}

            # Killed: what stopped is still there for it, and the others get nothing twice.
            pair.pipeline.kill()
            database.execute("insert into items values (3, 'three'); insert into orders values (4, 'four', 1, 'more')")
            assert pair.pipeline.available_now() == 3, pair.pipeline.output()
            assert pair.topic("orders", decode=read)[2:] == []
            # The remedy: nobody reads with the old schema any more.
            client.delete_subject(f"{pair.prefix}.public.orders-value")
            assert pair.pipeline.available_now() == 3, pair.pipeline.output()
            assert "SCHEMA_DRIFT" not in str(pair.pipeline.report().reasons)
        finally:
            pair.pipeline.close()

        assert pair.topic("orders", decode=read)[2:] == [("c", 3, "three"), ("c", 4, "four")]
        items = [("r", 1, "first"), ("c", 2, "two"), ("c", 3, "three")]
        assert pair.topic("items", decode=read) == items
        assert pair.lake_of("items") == {id_: note for _op, id_, note in items}


@pytest.mark.slow
def test_a_sink_that_is_away_at_the_start_does_not_hold_the_other(pair: Pair, tmp_path: Path) -> None:
    with TcpProxy(pair.kafka.port) as proxy:
        proxy.refuse = True
        pair.sinks[1]["bootstrap.servers"] = f"127.0.0.1:{proxy.port}"
        pair.rewrite(tmp_path)
        pair.pipeline.start()
        wait_until(lambda: pair.lake_of("orders"), 60, pair.pipeline.output)
        pair.database.execute("insert into orders values (2, 'two', 1)")
        wait_until(lambda: 2 in pair.lake_of("orders"), 60, pair.pipeline.output)

        wait_until(lambda: "sink kafka" in str(pair.pipeline.report().reasons), 30, pair.pipeline.output)
        report = pair.pipeline.report()
        assert report.running
        assert not report.ready
        assert {sink.sink: sink.behind_changes for sink in report.sinks} == {"delta": 0, "kafka": 1}

        proxy.refuse = False
        pair.pipeline.wait_ready()
        wait_until(lambda: len(pair.topic("orders")) == 2, 60, pair.pipeline.output)
        assert pair.pipeline.stop() == 0, pair.pipeline.output()
    assert [one[:2] for one in pair.topic("orders")] in ([("r", 1), ("c", 2)], [("r", 1), ("r", 2)])


@pytest.mark.slow
def test_a_sink_that_is_down_or_slow_is_seen_to_lag_and_catches_up(pair: Pair) -> None:
    fault = pair.pipeline.state / "sink_fault.json"
    pair.pipeline.start()
    pair.pipeline.wait_ready()
    fault.write_text(json.dumps({"sinks": ["kafka"], "down": True}))
    pair.database.execute("insert into orders select n, 'new', 1 from generate_series(2, 50) n")
    wait_until(lambda: len(pair.lake_of("orders")) == 50, 60, pair.pipeline.output)
    wait_until(lambda: "sink kafka" in str(pair.pipeline.report().reasons), 30, pair.pipeline.output)

    lags = {sink.sink: sink.behind_changes for sink in pair.pipeline.report().sinks}
    assert lags == {"delta": 0, "kafka": 49}

    fault.write_text(json.dumps({"sinks": ["kafka"], "seconds": 0.2}))
    wait_until(lambda: len(pair.topic("orders")) == 50, 60, pair.pipeline.output)
    pair.pipeline.wait_ready()
    assert pair.pipeline.stop() == 0, pair.pipeline.output()


@pytest.mark.slow
def test_a_sink_that_is_added_begins_with_a_snapshot_and_disturbs_nobody(pair: Pair, tmp_path: Path) -> None:
    kafka = pair.sinks.pop()
    pair.rewrite(tmp_path)
    assert pair.pipeline.available_now() == 0, pair.pipeline.output()
    pair.database.execute("insert into orders values (2, 'two', 1); delete from orders where id = 1")
    before = lake_rows(pair.lake, "public.items")
    pair.sinks.append(kafka)
    pair.rewrite(tmp_path)

    assert pair.pipeline.available_now() == 0, pair.pipeline.output()
    pair.database.execute("update orders set note = 'new'")
    assert pair.pipeline.available_now() == 0, pair.pipeline.output()

    assert pair.lake_of("orders") == {2: "new"}
    assert lake_rows(pair.lake, "public.items") == before
    kept = {r.key["id"]: r.value and r.value["after"]["note"] for r in pair.records("orders") if r.value}
    assert kept == {2: "new"}
    assert [one[:2] for one in pair.topic("items")] == [("r", 1)]
