"""One Target per sink and way of using it: how the contract suite makes the sink, and what a reader then finds.

A new sink gets the whole suite by adding its Target here; `test_every_sink_has_a_target` asks for it.
"""

from __future__ import annotations

import json
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from deltalake import DeltaTable

from headwater.event import TableSchema
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.names import adjust, topic_name
from headwater.sinks.base import Sink
from headwater.sinks.delta import Delta, DeltaOptions
from headwater.sinks.kafka import Kafka, KafkaOptions
from headwater.sources.postgres.debezium import PostgresConnector
from headwater.testing.kafka import KafkaServer
from headwater.testing.registry import RegistryServer

Row = dict[str, Any]


class Target(ABC):
    """A place of its own for one test."""

    type: ClassVar[str]
    # Whether a reader can see every change, or only what is left of them.
    keeps_history: ClassVar[bool] = True
    needs_registry: ClassVar[bool] = False

    @abstractmethod
    def sink(self) -> Sink:
        """The sink anew, as after a restart."""

    @abstractmethod
    def rows(self, table: TableSchema) -> list[Row]:
        """The table as a reader of the target has it now, by key."""

    def seen(self, table: TableSchema) -> int:
        """How many changes a reader of everything finds."""
        raise NotImplementedError

    @abstractmethod
    def unreachable(self) -> Sink:
        """A sink whose server is not there."""

    def refused(self) -> Sink | None:
        """A sink with wrong credentials; None when there are none to be wrong."""
        return None


def folded(table: TableSchema, changes: Iterable[tuple[str, Any, Any, Iterable[str]]]) -> list[Row]:
    """What is left of (op, before, after, names of unchanged columns)."""
    kept: dict[tuple[Any, ...], Row] = {}
    for op, before, after, unchanged in changes:
        if op == "t":
            kept.clear()
        if before is not None:
            old = kept.pop(key_of(table, before), {}) if op in "ud" else {}
        else:
            old = kept.get(key_of(table, after), {}) if after is not None else {}
        if after is not None:
            kept[key_of(table, after)] = {**after, **{name: old.get(name) for name in unchanged}}
    return [kept[key] for key in sorted(kept)]


def key_of(table: TableSchema, row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in table.key)


class DeltaUpsert(Target):
    """A mirror."""

    type = "delta"
    mode = "upsert"
    keeps_history = False

    def __init__(self, folder: Path, kafka: Any) -> None:
        self.folder = folder

    def sink(self, path: str = "lake") -> Delta:
        made = Delta(DeltaOptions(path=str(self.folder / path), mode=self.mode), pipeline="shop")
        made.name = "delta"
        return made

    def read(self, table: TableSchema) -> list[Row]:
        rows: list[Row] = DeltaTable(self.sink().lake.table_uri(table)).to_pyarrow_table().to_pylist()
        return rows

    def rows(self, table: TableSchema) -> list[Row]:
        return sorted(self.read(table), key=lambda row: key_of(table, row))

    def unreachable(self) -> Sink:
        (self.folder / "no-folder").write_text("a file")
        return self.sink("no-folder/lake")


class DeltaAppend(DeltaUpsert):
    """A changelog."""

    mode = "append"
    keeps_history = True

    def rows(self, table: TableSchema) -> list[Row]:
        log = sorted(self.read(table), key=lambda row: (row["_headwater_commit"], row["_headwater_ordinal"]))
        return folded(
            table,
            ((row["_headwater_op"], row["before"], row["after"], row["_headwater_unchanged"] or ()) for row in log),
        )

    def seen(self, table: TableSchema) -> int:
        return len(self.read(table))


@dataclass(frozen=True)
class Record:
    """One record of a topic."""

    partition: int
    key: Any
    value: Any
    headers: dict[str, str]


Decode = Callable[[bytes, SerializationContext], Any]


def as_json(data: bytes, place: SerializationContext) -> Any:
    return json.loads(data)


def read_topic(kafka: KafkaServer, topic: str, *, committed: bool = True, decode: Decode = as_json) -> list[Record]:
    """Everything in a topic now, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": uuid.uuid4().hex,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )
    try:
        known = consumer.list_topics(timeout=10).topics
        if topic not in known:
            return []
        partitions = list(known[topic].partitions)
        if committed:
            wait_settled(kafka, [TopicPartition(topic, partition) for partition in partitions])
        found: dict[int, list[Record]] = {partition: [] for partition in partitions}
        open_ = set(partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        while open_:
            message = consumer.poll(10)
            assert message is not None, f"{topic} cannot be read"
            error = message.error()
            if error is None:
                found[message.partition()].append(_record(message, decode))
            elif error.code() == KafkaError._PARTITION_EOF:
                open_.discard(message.partition())
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
    return [record for partition in partitions for record in found[partition]]


def wait_settled(kafka: KafkaServer, places: list[TopicPartition]) -> None:
    """A commit is promised when the coordinator has it; the partitions get their marks a moment later, and readers see
    nothing before. A transaction that somebody left open is not waited for longer than this."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    deadline = time.monotonic() + 10

    def ends(level: IsolationLevel) -> list[int]:
        asked = admin.list_offsets(dict.fromkeys(places, OffsetSpec.latest()), isolation_level=level)
        return [int(asked[place].result().offset) for place in places]

    while ends(IsolationLevel.READ_COMMITTED) != ends(IsolationLevel.READ_UNCOMMITTED) and time.monotonic() < deadline:
        time.sleep(0.05)


def _record(message: Any, decode: Decode) -> Record:
    parts = ((MessageField.KEY, message.key()), (MessageField.VALUE, message.value()))
    key, value = (None if data is None else decode(data, SerializationContext(message.topic(), f)) for f, data in parts)
    headers = {name: text.decode() for name, text in message.headers() or []}
    return Record(message.partition(), key, value, headers)


class KafkaTopics(Target):
    """Topics read as a consumer that folds Debezium's events by key reads them."""

    type = "kafka"
    format = "debezium-json"
    exactly_once = True
    # A truncate has no key: with several partitions nobody could tell what came before it.
    partitions = 1

    def __init__(self, folder: Path, kafka: KafkaServer) -> None:
        self.kafka = kafka
        self.pipeline = f"shop-{uuid.uuid4().hex[:8]}"
        self.options = DebeziumOptions(topic_prefix=self.pipeline, skipped_operations=["none"])

    def sink(self, client: dict[str, str] | None = None, **more: Any) -> Kafka:
        given = {
            "format": self.format,
            "exactly_once": self.exactly_once,
            "partitions": self.partitions,
            "topic_config": {"max.message.bytes": "8000000"},
            "client": {"message.max.bytes": "8000000", **(client or {})},
            **more,
        }
        bootstrap = given["client"].pop("bootstrap.servers", self.kafka.bootstrap)
        made = Kafka(KafkaOptions(bootstrap_servers=bootstrap, **given), pipeline=self.pipeline)
        made.name = "kafka"
        made.use_events(self.options, (), partial(PostgresConnector, "db"))
        return made

    def topic(self, table: TableSchema) -> str:
        return topic_name(self.options, table.schema, table.name)

    def records(self, table: TableSchema) -> list[Record]:
        return read_topic(self.kafka, self.topic(table))

    def rows(self, table: TableSchema) -> list[Row]:
        return folded(table, map(self._change, filter(lambda record: record.value is not None, self.records(table))))

    def _change(self, record: Record) -> tuple[str, Any, Any, list[str]]:
        value = record.value
        after = value["after"]
        unchanged = [name for name, text in (after or {}).items() if text == self.options.unavailable_value_placeholder]
        # The old key is in the delete's own record.
        return value["op"], value["before"] if value["op"] == "d" else None, after, unchanged

    def seen(self, table: TableSchema) -> int:
        return sum(record.value is not None for record in self.records(table))

    def unreachable(self) -> Sink:
        return self.sink({"bootstrap.servers": "127.0.0.1:1", "socket.timeout.ms": "1000"})

    def refused(self) -> Sink | None:
        return self.sink(self.kafka.secured("shop", "not-the-password"))


class KafkaAtLeastOnce(KafkaTopics):
    """The same without transactions: what comes twice is known by its id."""

    exactly_once = False

    def seen(self, table: TableSchema) -> int:
        ids = {
            (json.dumps(record.key), record.headers["headwater.event.id"])
            for record in self.records(table)
            if record.value is not None
        }
        return len(ids)


class KafkaFlat(KafkaTopics):
    """Flat rows."""

    format = "flat"

    def _change(self, record: Record) -> tuple[str, Any, Any, list[str]]:
        value = record.value
        row = {name: text for name, text in value.items() if not name.startswith("_ns_")}
        op = {"INSERT": "c", "UPDATE": "u", "DELETE": "d", "TRUNCATE": "t"}[value["_ns_op"]]
        return op, row if op == "d" else None, row if op in "cu" else None, []

    def rows(self, table: TableSchema) -> list[Row]:
        """A column that did not change is not in the record; a key that moved is buried under its old name."""
        kept: dict[tuple[Any, ...], Row] = {}
        for record in self.records(table):
            if record.value is None:
                kept.pop(key_of(table, record.key), None)
                continue
            op, _before, after, _unchanged = self._change(record)
            if op == "t":
                kept.clear()
            if after is not None:
                kept[key_of(table, after)] = {**kept.get(key_of(table, after), {}), **after}
        return [kept[key] for key in sorted(kept)]


class KafkaAvro(KafkaTopics):
    """Avro, read back by Confluent's own deserializer. Names that Avro does not allow come back as they were."""

    format = "debezium-avro"
    needs_registry = True
    registry: RegistryServer

    def sink(self, client: dict[str, str] | None = None, **more: Any) -> Kafka:
        return super().sink({"schema.registry.url": self.registry.url, **(client or {})}, **more)

    def records(self, table: TableSchema) -> list[Record]:
        with SchemaRegistryClient({"url": self.registry.url}) as client:
            records = read_topic(self.kafka, self.topic(table), decode=AvroDeserializer(client))
        back = {adjust(column.name, "avro", field=True): column.name for column in table.columns}
        for record in records:
            for row in (record.value or {}).get("before"), (record.value or {}).get("after"):
                if row is not None:
                    named = {back[name]: value for name, value in row.items()}
                    row.clear()
                    row.update(named)
        return records


TARGETS: dict[str, type[Target]] = {
    "delta-upsert": DeltaUpsert,
    "delta-append": DeltaAppend,
    "kafka": KafkaTopics,
    "kafka-at-least-once": KafkaAtLeastOnce,
    "kafka-flat": KafkaFlat,
    "kafka-avro": KafkaAvro,
}
