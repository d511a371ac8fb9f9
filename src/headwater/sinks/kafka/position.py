"""What the sink knows of itself: a compacted topic with its position, its tables' and what it saw of its topics.

One partition, one record per fact; the last one of a key counts. Several sinks and pipelines may share the topic.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from headwater.errors import Retry, Stop
from headwater.event import Position, TableSchema
from headwater.sinks.kafka.client import TIMEOUT, Client

CONFIG = {"cleanup.policy": "compact", "retention.ms": "-1"}
# A writer that was killed may have left a transaction open; nobody sees behind it before the broker ends it.
PATIENCE_SECONDS = 330.0

# (key, value) of a record; no value: the fact holds no longer.
Fact = tuple[bytes, bytes | None]


@dataclass
class Held:
    """What the position topic says about one sink."""

    # Its prefix and its name.
    sink: str
    position: Position | None = None
    tables: dict[str, Position] = field(default_factory=dict)
    # Tables whose snapshot was begun, and the position of the first attempt.
    loading: dict[str, Position] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    # Tables that stay behind `position`: they are in their topic up to here.
    stopped: dict[str, Position] = field(default_factory=dict)
    # Dead letters that were sent after all, as TABLE@COMMIT:ORDINAL.
    late: dict[str, int] = field(default_factory=dict)

    @property
    def durable(self) -> Position | None:
        """Everything up to here is in its topic."""
        return None if self.position is None else min([self.position, *self.stopped.values()])

    def reached(self, table: TableSchema) -> Position | None:
        """Changes of the table up to here are in its topic."""
        if table.table in self.stopped:
            return self.stopped[table.table]
        own = self.tables.get(table.table)
        if own is None or self.position is None:
            return own or self.position
        return max(own, self.position)

    def fact(self, kind: str, name: str, value: Position | int | None) -> Fact:
        """A record that says so. `kind` is the name of a field here."""
        text = None
        if value is not None:
            text = (value.to_json() if isinstance(value, Position) else json.dumps(value)).encode()
        return json.dumps([self.sink, kind, name], ensure_ascii=False).encode(), text

    def learn(self, key: bytes | None, value: bytes | None) -> None:
        """A record of the topic; those of other sinks are nothing to us."""
        try:
            sink, kind, name = json.loads(key or b"")
        except (ValueError, TypeError) as error:
            raise Stop(f"the position topic holds a record that is not ours: {(key or b'')[:80]!r}") from error
        if sink != self.sink:
            return
        if kind == "position":
            self.position = None if value is None else Position.from_json(value)
        elif value is None:
            getattr(self, kind).pop(name, None)
        elif kind in ("partitions", "late"):
            getattr(self, kind)[name] = int(value)
        else:
            getattr(self, kind)[name] = Position.from_json(value)


class PositionTopic:
    """Reads the topic; writing is the producer's, in the transaction of the data."""

    def __init__(self, client: Client, topic: str, sink: str) -> None:
        self.client = client
        self.topic = topic
        self.sink = sink

    def ensure(self) -> None:
        """The topic exists and has one partition: order among facts is what they mean."""
        known = self.client.topics()
        if self.topic not in known:
            self.client.create(self.topic, 1, CONFIG)
        elif known[self.topic] != 1:
            raise Stop(f"the position topic {self.topic} has {known[self.topic]} partitions instead of one")

    def read(self) -> Held:
        """Everything that is committed by now."""
        held = Held(self.sink)
        if self.topic not in self.client.topics():
            return held
        end = self._end()
        consumer = self.client.made(
            Consumer,
            **{
                "group.id": f"headwater-{self.sink}",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 10,
            },
        )
        try:
            consumer.assign([TopicPartition(self.topic, 0, 0)])
            self._read(consumer, held, end)
        except KafkaException as error:
            raise self.client.error(error, f"cannot read {self.topic}") from error
        finally:
            consumer.close()
        return held

    def _read(self, consumer: Consumer, held: Held, end: int) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(TIMEOUT)
            if message is None:
                continue
            error = message.error()
            if error is None:
                held.learn(message.key(), message.value())
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            elif (message.offset() or 0) >= end:
                return
        raise Retry(
            f"{self.topic} cannot be read to its end: a transaction in it stays open",
            "a broker that lost its state may leave one for ever: kafka-transactions.sh find-hanging, then abort",
        )

    def _end(self) -> int:
        """Where the topic ends, whatever is still open in it."""
        place = TopicPartition(self.topic, 0)
        try:
            asked = self.client.admin.list_offsets(
                {place: OffsetSpec.latest()},  # type: ignore[no-untyped-call]
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=TIMEOUT,
            )
            return int(asked[place].result().offset)
        except KafkaException as error:
            raise self.client.error(error, f"cannot read {self.topic}") from error
