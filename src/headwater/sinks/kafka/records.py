"""Changes as records of topics: what the Kafka sink sends, and in which order."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import Drift, Stop, Unrepresentable
from headwater.event import ChangeBatch, Position, TableSchema
from headwater.formats.connector import Connector, Run
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.debezium_records import Record, heartbeat_record
from headwater.formats.flat_records import FlatRecords
from headwater.formats.names import topic_name
from headwater.formats.schema_registry import SchemaRegistry
from headwater.formats.transactions import boundaries
from headwater.sinks.kafka.options import KafkaOptions
from headwater.transforms.avro_encoder import AvroEncoder
from headwater.transforms.base import EventTransform
from headwater.transforms.encoder import encoder
from headwater.transforms.stream import moment_of


@dataclass(frozen=True)
class EventForm:
    """How changes look as events, as the pipeline says it. `connector` may ask the source."""

    options: DebeziumOptions
    transforms: tuple[EventTransform, ...]
    connector: Callable[[], Connector]
    # How often a sign of life goes to the heartbeat topic; 0: never.
    heartbeat_ms: int = 0


@dataclass(frozen=True)
class Outgoing:
    """Records of one topic."""

    topic: str
    records: pa.RecordBatch
    # What tells a record from all others, where nothing else does.
    ids: pa.Array | None
    # The n-th record → where its change stands.
    place: Callable[[int], tuple[int, int]]


class Records:
    """Makes records. One for a process; used by one thread. `cluster` is the id of where they go."""

    def __init__(
        self, options: KafkaOptions, form: EventForm, connector: Connector, cluster: Callable[[], str]
    ) -> None:
        self.options = options
        self.form = form
        self.connector = connector
        self._cluster = cluster
        # Topics that were written, each with its table.
        self._owners: dict[str, str] = {}
        self._last_beat = 0.0

    @cached_property
    def encoder(self) -> Any:
        """Changes → records, in the form that was asked for."""
        if self.options.format == "flat":
            return FlatRecords(self.form.options, self.connector)
        run = Run(id=str(uuid.uuid4()), connector=self.connector.name)
        if self.options.format == "debezium-avro":
            registry = SchemaRegistry(self.options.registry())
            return AvroEncoder(self.form.options, self.connector, self.form.transforms, registry, run)
        return encoder(self.form.options, self.connector, self.form.transforms, run)

    def topic(self, table: TableSchema) -> str:
        return topic_name(self.form.options, *self.connector.topic_parts(table))

    def changes(self, batch: ChangeBatch, whole: ChangeBatch) -> Iterator[Outgoing]:
        """Changes that are new, of the `whole` that was decoded."""
        if not len(batch):
            return
        try:
            encoded = self.encoder.encode(batch, moment_of(batch, whole, time.time_ns()))
        except Drift as error:
            error.table = batch.table.table
            raise
        except Unrepresentable as error:
            error.places = self._refused(batch, whole)
            raise
        for records in encoded.batches:
            for part in _by_topic(records):
                topic = part.column("topic")[0].as_py()
                self._own(topic, batch.table)
                ids = None if self.options.exactly_once else _event_ids(batch, part)
                yield Outgoing(topic, part, ids, partial(_place, batch, part))

    def boundaries(self, batches: Sequence[ChangeBatch], held: Position | None, upto: Position) -> Iterator[Outgoing]:
        """Where the transactions of a chunk begin and end (`provide.transaction.metadata`), in a topic of their own."""
        orders = self.encoder.orders(batches[0]) if batches else None
        if orders is None:
            return
        found = list(boundaries(self.encoder.options, orders, held, upto))
        for boundary in sorted(found, key=lambda boundary: (boundary.position, not boundary.opens)):
            yield self._one(boundary.record, boundary.position)

    def heartbeat(self, upto: Position) -> Iterator[Outgoing]:
        """A sign of life that consumers can wait for, however quiet the tables are (`heartbeat.interval.ms`)."""
        now = time.monotonic()
        if self.options.format == "flat" or not self.form.heartbeat_ms:
            return
        if now - self._last_beat >= self.form.heartbeat_ms / 1000:
            self._last_beat = now
            yield self._one(heartbeat_record(self.encoder.options, time.time_ns() // 1_000_000), upto)

    def _one(self, record: Record, at: Position) -> Outgoing:
        """A record that is no row change."""
        [one] = self.encoder.records([record]).batches
        ids = None if self.options.exactly_once else pa.array([f"{at.commit}:{at.ordinal}"])
        return Outgoing(record.topic, one, ids, lambda _number: (at.commit, at.ordinal))

    def _refused(self, batch: ChangeBatch, whole: ChangeBatch) -> tuple[tuple[int, int], ...]:
        """The changes of which no event can be made; halving finds them."""
        try:
            self.encoder.encode(batch, moment_of(batch, whole, 0))
        except Unrepresentable:
            if len(batch) == 1:
                return tuple(batch.places)
            half = len(batch) // 2
            return (*self._refused(batch.slice(0, half), whole), *self._refused(batch.slice(half), whole))
        return ()

    def _own(self, topic: str, table: TableSchema) -> None:
        """Characters that Kafka does not allow become `_`: two tables may end in one topic unasked."""
        if table.detail.get("topic") == topic and getattr(self.connector, "cluster", "") == self._cluster():
            raise Stop(
                f"{table.table} would be written into the topic {topic}, which it is read from, for ever",
                "give the pipeline another name, which is the prefix of its topics, or use the transform `route`",
            )
        owner = self._owners.setdefault(topic, table.table)
        if owner != table.table and not self.form.transforms:
            raise Stop(
                f"{owner} and {table.table} would both be written to the topic {topic}",
                "rename one of them with the transform `route`, or leave it out with exclude",
            )


def _place(batch: ChangeBatch, records: pa.RecordBatch, number: int) -> tuple[int, int]:
    """Where the change of the n-th record stands."""
    change = records.column("change")[number].as_py()
    return batch.slice(change, 1).places[0]


def _by_topic(records: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Records of one topic each; almost always there is just one."""
    topics = records.column("topic")
    names = pc.unique(topics)
    if len(names) <= 1:
        return [records] if len(names) else []
    return [records.filter(pc.equal(topics, name)) for name in names]


def _event_ids(batch: ChangeBatch, records: pa.RecordBatch) -> pa.Array:
    """The position of each record's change; with the record's key it tells a record from all others."""
    change = records.column("change")
    places = [batch.records.column(name).take(change).cast(pa.string()) for name in ("commit", "ordinal")]
    return pc.binary_join_element_wise(*places, ":")
