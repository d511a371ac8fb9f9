"""What is special to Kafka: partitions, tombstones, headers, transactions, and what a broker can do to a producer."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from tests.contract.targets import KafkaAtLeastOnce, KafkaTopics, Record, read_topic
from tests.contract.test_sinks import BEGIN, ORDERS, begun, write
from tests.unit.sinks.lake_of_orders import Changes, row

from headwater.errors import Rejected, Retry, Stop, Usage
from headwater.event import ChangeBatch, Position
from headwater.formats.debezium_options import DebeziumOptions
from headwater.options import parse_options
from headwater.sinks.kafka import Kafka, KafkaOptions
from headwater.sinks.kafka.plain import key_partition
from headwater.sources.postgres.debezium import PostgresConnector
from headwater.testing import wait_until
from headwater.testing.certificates import write_certificates
from headwater.testing.kafka import KafkaServer

pytestmark = pytest.mark.server


class Partitioned(KafkaTopics):
    partitions = 3


@pytest.fixture
def topics(kafka: KafkaServer, tmp_path: Path) -> KafkaTopics:
    return KafkaTopics(tmp_path, kafka)


def ops(records: list[Record]) -> list[str | None]:
    return [None if record.value is None else record.value["op"] for record in records]


def test_rows_go_to_partitions_by_key_and_stay_in_order(kafka: KafkaServer, tmp_path: Path) -> None:
    topics = Partitioned(tmp_path, kafka)
    sink = begun(topics)
    changes = Changes(ORDERS)
    for version in range(4):
        for n in range(20):
            changes = changes.insert(**row(n)) if version == 0 else changes.update(**row(n, qty=version))
        changes.next()

    write(sink, changes)

    records = topics.records(ORDERS)
    assert {record.partition for record in records} == {0, 1, 2}
    for n in range(20):
        own = [record for record in records if record.key == {"id": n}]
        assert [record.value["after"]["qty"] for record in own] == [1, 1, 2, 3]
        assert {record.partition for record in own} == {
            key_partition(json.dumps({"id": n}).replace(" ", "").encode(), 3)
        }


def test_deletes_have_tombstones_and_a_moved_key_names_its_other_half(topics: KafkaTopics) -> None:
    sink = begun(topics)

    write(sink, Changes(ORDERS).insert(**row(1)).delete(id=1).insert(**row(2)).update(before={"id": 2}, **row(3)))

    records = topics.records(ORDERS)
    assert ops(records) == ["c", "d", None, "c", "d", None, "c"]
    assert [record.key["id"] for record in records] == [1, 1, 1, 2, 2, 2, 3]
    assert records[4].headers["__debezium.newkey"] == '{"id":3}'
    assert records[5].headers["__debezium.newkey"] == '{"id":3}'
    assert records[6].headers["__debezium.oldkey"] == '{"id":2}'
    assert records[0].headers["__debezium.context.connectorName"] == "postgresql"


def test_a_topic_is_created_as_configured(topics: KafkaTopics) -> None:
    sink = topics.sink(partitions=5, topic_config={"cleanup.policy": "compact"})
    sink.position()

    sink.load(ORDERS, [], BEGIN)

    assert sink.client.topics()[topics.topic(ORDERS)] == 5
    config = _config(topics.kafka, topics.topic(ORDERS))
    assert config["cleanup.policy"] == "compact"
    assert _config(topics.kafka, f"__headwater-position.{topics.pipeline}")["cleanup.policy"] == "compact"


def _config(kafka: KafkaServer, topic: str) -> dict[str, str]:
    from confluent_kafka.admin import ConfigResource, ResourceType

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    [answer] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return {name: entry.value for name, entry in answer.result().items()}


def test_a_second_run_fences_the_first_and_goes_on_where_it_was(topics: KafkaTopics) -> None:
    first = begun(topics)
    write(first, Changes(ORDERS).insert(**row(1)))
    second = topics.sink()
    second.position()

    with pytest.raises(Stop, match="another process writes for this sink"):
        write(first, Changes(ORDERS, commit=200).insert(**row(2)))
    write(second, Changes(ORDERS, commit=200).insert(**row(2)))

    assert ops(topics.records(ORDERS)) == ["c", "c"]


def test_under_another_prefix_there_is_nothing_yet(topics: KafkaTopics) -> None:
    write(begun(topics), Changes(ORDERS).insert(**row(1)))
    options = dataclasses.replace(topics.options, topic_prefix=f"{topics.pipeline}-new")

    other = topics.sink()
    other.use_events(options, (), partial(PostgresConnector, "db"))

    assert other.position() is None
    assert other.table_position(ORDERS) is None
    assert topics.sink().position() == BEGIN


def test_whoever_only_looks_shuts_nobody_out(topics: KafkaTopics) -> None:
    sink = begun(topics)

    assert topics.sink().seen_position() == BEGIN
    assert topics.sink().table_position(ORDERS) == BEGIN

    write(sink, Changes(ORDERS).insert(**row(1)))
    assert ops(topics.records(ORDERS)) == ["c"]


SCRIPT = """
    import pickle, sys
    sink, table, batch, upto = pickle.load(open(sys.argv[1], "rb"))
    sink.position()
    sink.write_log([[batch]], upto)
"""


def run_killed(sink: Kafka, changes: Changes, folder: Path, failpoint: str) -> None:
    """Write in a process that is killed at a failpoint."""
    import pickle

    (folder / "work").write_bytes(pickle.dumps((sink, ORDERS, changes.batch(), changes.upto)))
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(folder / "work")]
    done = subprocess.run(command, env={**os.environ, "HEADWATER_FAILPOINTS": f"{failpoint}=kill"}, check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("failpoint", ["kafka.before_commit", "kafka.after_commit"])
def test_killed_around_the_commit_each_event_is_there_exactly_once(
    topics: KafkaTopics, tmp_path: Path, failpoint: str
) -> None:
    begun(topics)
    changes = Changes(ORDERS).insert(**row(1)).next().update(**row(1, qty=2)).next().update(**row(1, qty=3))
    run_killed(topics.sink(), changes, tmp_path, failpoint)

    sink = topics.sink()
    sink.position()
    sink.write_log([[changes.batch()]], changes.upto)

    assert [record.value["after"]["qty"] for record in topics.records(ORDERS)] == [1, 2, 3]
    assert topics.sink().position() == changes.upto


def test_without_transactions_what_comes_twice_has_the_same_id(kafka: KafkaServer, tmp_path: Path) -> None:
    topics = KafkaAtLeastOnce(tmp_path, kafka)
    begun(topics)
    changes = Changes(ORDERS).insert(**row(1)).update(**row(1, qty=2)).next().delete(id=1)
    run_killed(topics.sink(), changes, tmp_path, "kafka.before_commit")

    sink = topics.sink()
    sink.position()
    sink.write_log([[changes.batch()]], changes.upto)

    ids = [record.headers["headwater.event.id"] for record in topics.records(ORDERS)]
    assert ids[-4:] == ["100:1", "100:2", "110:1", "110:1"]
    assert set(ids) == set(ids[-4:])
    assert topics.rows(ORDERS) == []


def test_a_record_that_is_too_large_stops_the_batch_and_is_named(topics: KafkaTopics) -> None:
    sink = topics.sink(topic_config={"max.message.bytes": "10000"}, client={"compression.type": "none"})
    sink.position()
    sink.load(ORDERS, [], BEGIN)

    with pytest.raises(Rejected, match=r"shop\.orders is larger than Kafka takes") as raised:
        write(sink, Changes(ORDERS).insert(**row(1)).insert(**row(2, body="x" * 20_000)))

    assert "max.message.bytes" in str(raised.value)
    assert topics.records(ORDERS) == []
    write(sink, Changes(ORDERS).insert(**row(1)))
    assert ops(topics.records(ORDERS)) == ["c"]


def test_a_topic_that_was_deleted_is_for_a_person(topics: KafkaTopics) -> None:
    sink = begun(topics)
    write(sink, Changes(ORDERS).insert(**row(1)))
    admin = AdminClient({"bootstrap.servers": topics.kafka.bootstrap})
    admin.delete_topics([topics.topic(ORDERS)])[topics.topic(ORDERS)].result()

    again = topics.sink()
    again.position()
    with pytest.raises(Stop, match="has disappeared"):
        write(again, Changes(ORDERS, commit=200).insert(**row(2)))


@pytest.mark.slow
def test_a_topic_that_is_deleted_under_a_running_sink_is_for_a_person(topics: KafkaTopics) -> None:
    sink = topics.sink({"topic.metadata.propagation.max.ms": "1000", "message.timeout.ms": "5000"})
    sink.position()
    sink.load(ORDERS, [], BEGIN)
    write(sink, Changes(ORDERS).insert(**row(1)))
    admin = AdminClient({"bootstrap.servers": topics.kafka.bootstrap})
    admin.delete_topics([topics.topic(ORDERS)])[topics.topic(ORDERS)].result()

    def stops() -> bool:
        try:
            write(sink, Changes(ORDERS, commit=200).insert(**row(2)))
        except Retry:
            return False
        except Stop as error:
            return "has disappeared" in str(error)
        raise AssertionError("it was written to a topic that is not there")

    wait_until(stops, 60, "the sink notices")


def test_another_count_of_partitions_is_for_a_person(topics: KafkaTopics) -> None:
    sink = topics.sink(partitions=0)
    sink.position()
    sink.load(ORDERS, [], BEGIN)
    topic = topics.topic(ORDERS)
    admin = AdminClient({"bootstrap.servers": topics.kafka.bootstrap})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result()

    again = topics.sink(partitions=0)
    again.position()
    with pytest.raises(Stop, match="had 1 partitions and has 4 now") as raised:
        write(again, Changes(ORDERS).insert(**row(1)))
    assert "partitions: 4" in str(raised.value)

    accepted = topics.sink(partitions=4)
    accepted.position()
    write(accepted, Changes(ORDERS).insert(**row(1)))
    assert ops(topics.records(ORDERS)) == ["c"]


def test_two_tables_whose_names_become_one_topic_are_refused(topics: KafkaTopics) -> None:
    sink = begun(topics)
    one, other = dataclasses.replace(ORDERS, name="a b"), dataclasses.replace(ORDERS, name="a_b")
    write(sink, Changes(one).insert(**row(1)))

    with pytest.raises(Stop, match=r"shop\.a b and shop\.a_b would both be written to the topic"):
        write(sink, Changes(other).insert(**row(1)))


def test_a_broker_that_goes_away_is_waited_for(topics: KafkaTopics) -> None:
    sink = topics.sink({"transaction.timeout.ms": "5000", "socket.timeout.ms": "2000"})
    sink.position()
    sink.load(ORDERS, [], BEGIN)
    changes = Changes(ORDERS).insert(**row(1)).next().insert(**row(2))
    topics.kafka.stop()
    try:
        with pytest.raises(Retry):
            write(sink, changes)
    finally:
        topics.kafka.start()

    write(sink, changes)

    assert topics.rows(ORDERS) == [row(1), row(2)]
    assert topics.seen(ORDERS) == 2


@pytest.mark.slow
def test_a_broker_that_is_killed_with_a_transaction_open_is_written_to_again_at_once(topics: KafkaTopics) -> None:
    sink = begun(topics)
    changes = Changes(ORDERS).insert(**row(1)).next().insert(**row(2))

    def killed() -> Iterator[list[ChangeBatch]]:
        yield [changes.batch(0, 1)]
        # What was sent is on the broker's disk, and its transaction is open.
        writing = sink._writing
        assert writing is not None
        writing.producer._kafka.flush(10)
        topics.kafka.kill()
        topics.kafka.start()
        raise Retry("the connection broke")

    with pytest.raises(Retry):
        sink.write_log(killed(), changes.upto)

    # Far sooner than its time is up: whoever takes the transactional id over ends what was open.
    again = topics.sink()
    assert again.position() == BEGIN
    again.write_log([[changes.batch()]], changes.upto)
    assert [record.value["after"]["id"] for record in topics.records(ORDERS)] == [1, 2]


def test_settings_are_librdkafka_s_own_and_secrets_are_not_shown() -> None:
    given = {"bootstrap.servers": "h:9092", "sasl.password": "hunter2", "ssl.key.password": "hunter3", "linger.ms": 7}
    options = parse_options(KafkaOptions, given, where="sinks[0]")

    assert options.settings()["sasl.password"] == "hunter2"
    assert options.settings()["linger.ms"] == "7"
    assert "hunter" not in repr(options)
    with pytest.raises(Usage, match=r"transactional\.id cannot be set"):
        parse_options(KafkaOptions, {**given, "transactional.id": "mine"}, where="sinks[0]")
    wrong = Kafka(parse_options(KafkaOptions, {**given, "no.such.setting": "1"}, where="sinks[0]"), pipeline="shop")
    wrong.use_events(DebeziumOptions(topic_prefix="shop"), (), partial(PostgresConnector, "db"))
    with pytest.raises(Usage, match="librdkafka does not take") as raised:
        wrong.position()
    assert "no.such.setting" in str(raised.value)
    assert "hunter" not in str(raised.value)


def test_what_is_aborted_is_hidden_from_readers_of_committed_records(topics: KafkaTopics, tmp_path: Path) -> None:
    begun(topics)
    changes = Changes(ORDERS).insert(**row(1))
    run_killed(topics.sink(), changes, tmp_path, "kafka.before_commit")
    # A new run ends what the killed one left open.
    topics.sink().position()

    assert topics.records(ORDERS) == []
    assert len(read_topic(topics.kafka, topics.topic(ORDERS), committed=False)) <= 1


def test_a_broker_with_tls_and_a_password_is_written_to(topics: KafkaTopics, tmp_path: Path) -> None:
    sink = topics.sink(topics.kafka.secured("shop", "the-password"))
    sink.position()
    sink.load(ORDERS, [], BEGIN)

    write(sink, Changes(ORDERS).insert(**row(1)))

    assert topics.rows(ORDERS) == [row(1)]
    other = tmp_path / "other"
    other.mkdir()
    write_certificates(other)
    strange = {**topics.kafka.secured("shop", "the-password"), "ssl.ca.location": str(other / "ca.pem")}
    with pytest.raises(Stop, match="refuses us") as raised:
        topics.sink(strange).position()
    assert "certificate" in str(raised.value)
    assert "the-password" not in str(raised.value)


def test_a_heartbeat_is_sent_when_nothing_else_happens_and_not_more_often_than_asked(topics: KafkaTopics) -> None:
    sink = topics.sink()
    sink.use_events(topics.options, (), partial(PostgresConnector, "db"), heartbeat_ms=60_000)
    sink.position()

    sink.write_log([], Position(100, 0))
    sink.write_log([], Position(200, 0))

    [beat] = read_topic(topics.kafka, f"__debezium-heartbeat.{topics.pipeline}")
    assert beat.key == {"serverName": topics.pipeline}
    assert beat.value["ts_ms"] > 0
    assert topics.sink().position() == Position(200, 0)
