"""Topics of Debezium's as a source: into Delta, equal to the table they came from; and what a broker can do to it.

The events are those of our own Kafka sink, whose bytes `tests/oracle` holds to Debezium's.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from decimal import Decimal
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from tests.contract.targets import read_topic
from tests.contract.test_sources import Row, decoded, opened, read, shown
from tests.lake import assert_same_rows, lake_rows, source_rows

from headwater.errors import Retry, Stop, Usage
from headwater.event import Position
from headwater.options import parse_options
from headwater.sources.kafka import Kafka
from headwater.sources.kafka.options import KafkaOptions
from headwater.testing import wait_until
from headwater.testing.kafka import KafkaServer
from headwater.testing.pipeline import PipelineProcess
from headwater.testing.registry import RegistryServer

pytestmark = pytest.mark.server

TABLE = """
create table orders (
  id int primary key, at timestamptz not null, due timestamp, day date, amount numeric(12,2), rate double precision,
  paid boolean, note text, body text, raw bytea, tags text[], code uuid, opening time, any_number numeric
);
alter table orders alter column body set storage external
"""
# What events without a schema cannot say.
CAST = {
    "at": "timestamptz",
    "due": "timestamp",
    "day": "date",
    "amount": "decimal(12,2)",
    "raw": "bytes",
    "opening": "time",
}


def insert(first: int, last: int) -> str:
    return f"""
      insert into orders select n, timestamptz '2024-02-29 12:00:00.123456Z' + n * interval '1 day',
        timestamp '1969-12-31 23:59:59.5', date '2000-01-01' + n, n * 1.25, n / 3.0, n % 2 = 0,
        'né "' || n || E'"\\n\\\\', repeat('x', 3000) || n, decode('00ff', 'hex') || int4send(n),
        array['a', null, 'q"' || n], ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, time '08:30:00.25',
        n * 1000000000000.5
      from generate_series({first}, {last}) n
    """


def assert_same(database: Any, lake: Path) -> None:
    """The lake's rows are the table's; what is text in the lake is compared as text."""
    extra = ", extra" if database.execute("select 1 from pg_attribute where attname = 'extra'") else ""
    rows = f"""(select id, at, due, day, amount, rate, paid, note, md5(body) as body, raw, tags, code::text as code,
      opening::text as opening, trim_scale(any_number::numeric)::text as any_number{extra} from orders) as shown"""
    ours = lake_rows(lake, "public.orders")
    for row in ours:
        row["body"] = md5(row["body"].encode(), usedforsecurity=False).hexdigest()
        row["any_number"] = f"{Decimal(row['any_number']).normalize():f}"
        # Without a schema, an array is JSON.
        row["tags"] = json.loads(row["tags"]) if isinstance(row["tags"], str) else row["tags"]
    assert_same_rows("orders", ours, source_rows(database, rows))


class Relay:
    """PostgreSQL into topics by one pipeline, topics into a lake by another."""

    def __init__(self, folder: Path, database: Any, kafka: KafkaServer, sink: dict[str, Any], source: dict[str, Any]):
        self.prefix = f"relay_{uuid.uuid4().hex[:8]}"
        (folder / "there").mkdir()
        (folder / "back").mkdir()
        broker = {"bootstrap.servers": kafka.bootstrap}
        there = {"type": "postgres", "url": database.url, "slot": database.slot, "topic.prefix": self.prefix}
        there |= {"converter.schemas.enable": sink.pop("schemas", False), "skipped.operations": "none"}
        sinks = [{"type": "kafka", **broker, "partitions": 3, **sink}]
        self.there = PipelineProcess(
            folder / "there", {"name": self.prefix, "source": there, "sinks": sinks}, spark=False
        )
        back = {"type": "kafka", **broker, "topic.prefix": self.prefix, **source}
        self.back = PipelineProcess(folder / "back", {"name": self.prefix, "source": back}, spark=False)

    def publish(self) -> None:
        assert self.there.available_now() == 0, self.there.output()

    def close(self) -> None:
        self.there.close()
        self.back.close()


@pytest.fixture(params=["schemas", *(pytest.param(form, marks=pytest.mark.slow) for form in ("plain", "avro"))])
def relay(
    request: pytest.FixtureRequest, database: Any, kafka: KafkaServer, registry: RegistryServer, tmp_path: Path
) -> Iterator[Relay]:
    match request.param:
        case "schemas":
            made = Relay(tmp_path, database, kafka, {"schemas": True}, {})
        case "plain":
            cast = {f"public.orders.{column}": kind for column, kind in CAST.items()}
            # Without its schema, an unconstrained numeric is an object.
            database.execute(TABLE.replace(", any_number numeric", ", any_number text").strip())
            made = Relay(tmp_path, database, kafka, {}, {"cast": cast})
        case _:
            avro = {"format": "debezium-avro", "schema.registry.url": registry.url}
            made = Relay(tmp_path, database, kafka, avro, {"registry": registry.url})
    if request.param != "plain":
        database.execute(TABLE)
    yield made
    made.close()


def test_a_lake_from_topics_equals_the_table_behind_them_however_often_the_tail_is_killed(
    relay: Relay, database: Any
) -> None:
    database.execute(insert(1, 200))
    relay.publish()
    assert relay.back.available_now() == 0, relay.back.output()
    assert_same(database, relay.back.lake)

    database.execute("update orders set note = 'the body did not change', rate = 'NaN' where id <= 50")
    database.execute(insert(300, 400))
    # A row that moves is deleted and created: Debezium does not carry over what did not change.
    database.execute(
        "delete from orders where id between 60 and 70; update orders set id = 70, body = '' where id = 80"
    )
    database.execute("update orders set id = id + 1000, body = repeat('y', 3000) where id > 190")
    database.execute(
        "alter table orders add column extra bigint; update orders set extra = 9007199254740993 where id = 1"
    )
    relay.publish()
    # Every tail dies with its first block, the next one goes on behind it; and so does a run killed behind its commit.
    deadly = "journal.after_append=kill"
    assert relay.back.available_now(failpoints=f"{deadly},sink.after_write=kill") < 0, relay.back.output()
    assert relay.back.available_now(failpoints=deadly) == 0, relay.back.output()

    assert_same(database, relay.back.lake)


# -- what a broker can do to it --------------------------------------------------------------------


class Broker:
    """Topics of a prefix of their own, written by hand."""

    def __init__(self, server: KafkaServer) -> None:
        self.server = server
        self.prefix = f"hand_{uuid.uuid4().hex[:8]}"
        self.topic = f"{self.prefix}.public.items"
        self.admin = AdminClient({"bootstrap.servers": server.bootstrap})
        self.create(self.topic)

    def create(self, topic: str, partitions: int = 1) -> None:
        self.admin.create_topics([NewTopic(topic, partitions)])[topic].result()
        self.wait(topic, partitions)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result()
        wait_until(lambda: topic not in self.admin.list_topics(timeout=5).topics, 30, "the topic is still there")

    def wait(self, topic: str, partitions: int) -> None:
        def there() -> bool:
            found = self.admin.list_topics(timeout=5).topics.get(topic)
            return found is not None and len(found.partitions) == partitions

        wait_until(there, 30, "the topic does not show")

    def write(self, *ids: int, partition: int = 0, topic: str = "", transaction: str = "", **more: Any) -> None:
        settings = {"bootstrap.servers": self.server.bootstrap}
        producer = Producer({**settings, "transactional.id": self.prefix} if transaction else settings)
        if transaction:
            producer.init_transactions()
            producer.begin_transaction()
        for number in ids:
            source = {"name": self.prefix, "schema": "public", "table": "items", "ts_ms": 1_700_000_000_000}
            value = {"before": None, "after": {"id": number, **more}, "source": source, "op": "c"}
            key = json.dumps({"id": number})
            producer.produce(topic or self.topic, json.dumps(value), key, partition)
        producer.flush()
        if transaction:
            getattr(producer, f"{transaction}_transaction")()

    def raw(self, value: bytes) -> None:
        producer = Producer({"bootstrap.servers": self.server.bootstrap})
        producer.produce(self.topic, value)
        producer.flush()

    def source(self, **options: Any) -> Kafka:
        own = {"bootstrap.servers": self.server.bootstrap, "topic.prefix": self.prefix}
        return Kafka(parse_options(KafkaOptions, {**own, **options}, where="source", name="hand"))


@pytest.fixture
def broker(kafka: KafkaServer) -> Broker:
    return Broker(kafka)


def changes(source: Kafka, after: Position) -> tuple[list[Row], Position]:
    """Everything behind a position, and where that ends."""
    with opened(source, after) as log:
        chunks = read(source, log)
        return decoded(source, log, chunks), chunks[-1].last


def test_records_that_a_transaction_gave_up_are_never_read(broker: Broker) -> None:
    broker.write(1, transaction="commit")
    broker.write(2, transaction="abort")
    broker.write(3, transaction="commit")
    source = broker.source()
    begin = source.prepare(None)

    rows, last = changes(source, begin)

    assert shown(rows) == [("c", 1), ("c", 3)]
    # The broker's own marks count too: nothing is left to wait for.
    assert last.commit <= source.end()


def test_records_that_have_expired_stop_it_by_name(broker: Broker) -> None:
    broker.write(1, 2, 3)
    source = broker.source()
    begin = source.prepare(None)
    gone = TopicPartition(broker.topic, 0, 2)
    broker.admin.delete_records([gone])[gone].result()

    for ask in (source.prepare, source.log):
        with pytest.raises(Stop, match=rf"{broker.topic} \[0\] no longer has the record with offset 0.*is 2"):
            ask(begin)


def test_records_that_expire_while_they_are_read_stop_it_by_name(broker: Broker) -> None:
    source = broker.source()
    with opened(source, source.prepare(None)) as log:
        log._consumer.pause([TopicPartition(broker.topic, 0)])  # type: ignore[attr-defined]
        broker.write(1, 2, 3)
        gone = TopicPartition(broker.topic, 0, 2)
        broker.admin.delete_records([gone])[gone].result()
        log._consumer.resume([TopicPartition(broker.topic, 0)])  # type: ignore[attr-defined]
        with pytest.raises(Stop, match="no longer has the record with offset 0"):
            wait_until(lambda: log.read(0.2) is not None and False, 30, "nothing is refused")


def test_a_topic_that_was_made_again_stops_it(broker: Broker) -> None:
    broker.write(1, 2)
    source = broker.source()
    _, last = changes(source, source.prepare(None))
    broker.delete(broker.topic)
    with pytest.raises(Stop, match=f"{broker.topic} has disappeared"):
        source.prepare(last)

    broker.create(broker.topic)
    broker.write(1, 2, 3, 4)
    with pytest.raises(Stop, match="deleted and made again"):
        source.prepare(last)
    unnamed = Position(10, 0, json.dumps({broker.topic: ["", 9]}))
    with pytest.raises(Stop, match=r"ends at offset 4; we have read up to 9"):
        source.log(unnamed)


def test_a_topic_that_is_deleted_while_it_is_read_stops_it(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.sources.kafka.log.LOOK_SECONDS", 0.2)
    source = broker.source()
    refused = pytest.raises(Stop, match=f"{broker.topic} has disappeared")
    with opened(source, source.prepare(None)) as log, refused:
        broker.delete(broker.topic)
        wait_until(lambda: log.read(0.2) is not None and False, 30, "nobody notices")


@pytest.mark.slow
def test_a_broker_that_goes_away_is_waited_for() -> None:
    with KafkaServer() as server:
        broker = Broker(server)
        source = broker.source()
        broker.write(1)
        rows, last = changes(source, source.prepare(None))
        with opened(source, last) as log:
            server.stop()
            with pytest.raises(Retry, match=server.bootstrap):
                wait_until(lambda: log.read(0.2) is not None and False, 60, "nobody notices")
        server.start()
        broker.write(2)
        again, _ = changes(source, last)

    assert shown(rows + again) == [("c", 1), ("c", 2)]


def test_partitions_and_topics_that_are_added_are_read_from_their_beginning(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.sources.kafka.log.LOOK_SECONDS", 0.2)
    source = broker.source()
    broker.write(1)
    with opened(source, source.prepare(None)) as log:
        rows = decoded(source, log, read(source, log))
        new = NewPartitions(broker.topic, 3)
        broker.admin.create_partitions([new])[broker.topic].result()
        broker.wait(broker.topic, 3)
        other = f"{broker.prefix}.public.others"
        broker.create(other)
        broker.write(2, partition=1)
        broker.write(3, partition=2)
        broker.write(4, topic=other)
        rows += decoded(source, log, read(source, log))

    assert sorted(shown(rows)) == [("c", 1), ("c", 2), ("c", 3), ("c", 4)]


def test_a_record_of_somebody_else_stops_it_where_it_stands(broker: Broker) -> None:
    broker.write(1)
    broker.raw(b'{"id": 5, "name": "flattened"}')
    source = broker.source()
    refused = pytest.raises(Stop, match=rf"{broker.topic} \[0\] offset 1 is no event")
    with opened(source, source.prepare(None)) as log, refused:
        wait_until(lambda: log.read(0.2) is not None and False, 30, "nothing is refused")
    lenient = broker.source(**{"event.processing.failure.handling.mode": "skip"})

    assert shown(changes(lenient, source.prepare(None))[0]) == [("c", 1)]


def test_a_group_sees_what_every_sink_holds(broker: Broker) -> None:
    broker.write(1, 2, 3)
    source = broker.source(**{"group.id": broker.prefix})

    def committed() -> int:
        consumer = Consumer({"bootstrap.servers": broker.server.bootstrap, "group.id": broker.prefix})
        try:
            return int(consumer.committed([TopicPartition(broker.topic, 0)], timeout=10)[0].offset)
        finally:
            consumer.close()

    with opened(source, source.prepare(None)) as log:
        chunks = read(source, log)
        assert committed() < 0
        log.confirm(chunks[-1].last)
        wait_until(lambda: log.read(0.1) is None and committed() == 3, 30, "the group has no offset")


def test_what_is_wrong_with_the_options_is_said(broker: Broker, kafka: KafkaServer) -> None:
    with pytest.raises(Usage, match=r"no topic matches topic\.prefix 'nobody'"):
        broker.source(**{"topic.prefix": "nobody"}).prepare(None)
    with pytest.raises(Usage, match="say which topics"):
        broker.source(**{"topic.prefix": ""}).prepare(None)
    with pytest.raises(Usage, match="librdkafka does not take"):
        broker.source(**{"no.such.setting": "1"}).prepare(None)
    refused = broker.source(**kafka.secured("shop", "not-the-password"))
    with pytest.raises(Stop, match="refuses us") as error:
        refused.prepare(None)
    assert "not-the-password" not in str(error.value) + repr(refused.options)


def test_check_finds_the_tables_and_what_will_hurt(broker: Broker) -> None:
    broker.write(1, 2, name="x")
    found = {finding.subject: finding for finding in broker.source().check()}

    assert found["tables"].text == "1 captured"
    assert found["retention"].text == "records are kept for 7 d at least"
    assert any("without a schema" in finding.text for finding in broker.source().check())
    (table,) = broker.source().tables()
    assert (table.table, table.key, [c.name for c in table.columns]) == ("public.items", ("id",), ["id", "name"])


# -- from end to end -------------------------------------------------------------------------------


def test_events_go_on_to_other_topics_with_their_rows_as_they_were(broker: Broker, tmp_path: Path) -> None:
    broker.write(1, 2, amount=1.50, note='é "x"')
    cluster = {"bootstrap.servers": broker.server.bootstrap}
    source = {"type": "kafka", **cluster, "topic.prefix": broker.prefix}
    runs = {}
    for name in (f"{broker.prefix}_copy", broker.prefix):
        (tmp_path / name).mkdir()
        definition = {"name": name, "source": source, "sinks": [{"type": "kafka", **cluster}]}
        runs[name] = PipelineProcess(tmp_path / name, definition, spark=False)
        try:
            status = runs[name].available_now()
        finally:
            runs[name].close()
        # Into the very topics that are read, it would never end.
        assert status == (3 if name == broker.prefix else 0), runs[name].output()

    assert "which it is read from" in runs[broker.prefix].output()
    copied = read_topic(broker.server, f"{broker.prefix}_copy.public.items")
    assert [record.value["after"] for record in copied] == [{"id": n, "amount": 1.5, "note": 'é "x"'} for n in (1, 2)]
    assert [record.value["source"]["topic"] for record in copied] == [broker.topic] * 2


def test_tail_prints_what_comes_from_now_on(broker: Broker) -> None:
    broker.write(1)
    url = f"kafka://{broker.server.bootstrap}/{broker.prefix}"
    command = [sys.executable, "-m", "headwater.cli", "tail", url, "--limit", "1", "--format", "flat"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        assert "listening" in tail.stderr.readline()
        broker.write(2)
        line = json.loads(tail.stdout.readline())
        assert tail.wait(30) == 0

    assert line["id"] == 2


@pytest.mark.spark
@pytest.mark.slow
def test_spark_reads_typed_rows_and_resumes_inside_of_a_batch(spark: Any, broker: Broker, tmp_path: Path) -> None:
    broker.admin.create_partitions([NewPartitions(broker.topic, 2)])[broker.topic].result()
    broker.wait(broker.topic, 2)
    options = {
        "url": f"kafka://{broker.server.bootstrap}/{broker.prefix}",
        "table": "public.items",
        "state": str(tmp_path / "state"),
        "max_rows": "7",
    }
    seen: list[Any] = []

    def run() -> None:
        frame = spark.readStream.format("headwater").options(**options).load()
        query = (
            frame.writeStream.foreachBatch(lambda batch, _number: seen.append(batch.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    broker.write(*range(20), note="a")
    broker.write(*range(100, 120), partition=1, note="b")
    run()
    # The journal is lost; the checkpoint holds the offsets of both partitions.
    shutil.rmtree(tmp_path / "state")
    broker.write(*range(20, 25), note="c")
    run()

    assert max(map(len, seen)) <= 7
    rows = [row for batch in seen for row in batch]
    assert sorted(row.after.id for row in rows) == [*range(25), *range(100, 120)]
    assert [row.after.id for row in rows if row.after.id < 100] == list(range(25))
