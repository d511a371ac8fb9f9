"""The Kafka sink as a plug-in: every table's changes in its topic, in log order, by one producer on the driver.

One producer, because a Kafka transaction belongs to one. So each micro-batch of all tables is one transaction with one
position; snapshots, which are larger, are sent by tasks, a transaction for each part.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import Drift, HeadwaterError, Rejected, Stop, Unrepresentable, Usage
from headwater.event import ChangeBatch, Position, TableSchema
from headwater.formats.connector import Connector, Run
from headwater.formats.debezium_json import event_key
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.debezium_records import Record, heartbeat_record
from headwater.formats.flat_records import FlatRecords
from headwater.formats.names import topic_name
from headwater.formats.schema_registry import SchemaRegistry
from headwater.formats.transactions import boundaries
from headwater.sinks.base import NOTHING_STOPPED, Sink, Written
from headwater.sinks.kafka.client import Client
from headwater.sinks.kafka.options import KafkaOptions
from headwater.sinks.kafka.position import Fact, Held, PositionTopic
from headwater.sinks.kafka.producer import Producer
from headwater.sources.base import Finding, Severity
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


@dataclass
class Writing:
    """What this process has open: a producer that has fenced all before it, and what the topic said after that."""

    producer: Producer
    held: Held
    facts: list[Fact] = field(default_factory=list)


class Kafka(Sink):
    """Topics of a Kafka cluster."""

    type = "kafka"
    options_class = KafkaOptions
    writes_events = True

    def __init__(self, options: KafkaOptions, *, pipeline: str) -> None:
        self.options = options
        self.pipeline = pipeline
        self._form: EventForm | None = None
        self._writing: Writing | None = None
        self._last_beat = 0.0

    def __getstate__(self) -> dict[str, Any]:
        connections = ("_writing", "client", "encoder", "topics")
        # How the database looks in events is asked once, on the driver.
        _ = self.connector
        return {**{name: part for name, part in self.__dict__.items() if name not in connections}, "_writing": None}

    def use_events(
        self,
        options: DebeziumOptions,
        transforms: Sequence[EventTransform],
        connector: Callable[[], Connector],
        heartbeat_ms: int = 0,
    ) -> None:
        """How events look; the definition calls this before anything is written."""
        if transforms and self.options.format == "flat":
            raise Usage(
                f"sink {self.name!r}: flat rows are no events: {transforms[0].type!r} cannot transform them",
                "use a transform of changes (filter, columns, mask, route), or format: debezium-json",
            )
        self._form = EventForm(options, tuple(transforms), connector, heartbeat_ms)

    @property
    def form(self) -> EventForm:
        if self._form is None:
            raise Usage(f"sink {self.name!r} does not know how events look: call use_events first")
        return self._form

    @cached_property
    def connector(self) -> Connector:
        return self.form.connector()

    @cached_property
    def client(self) -> Client:
        return Client(self.options)

    @cached_property
    def encoder(self) -> Any:
        """Changes → records. One for this process; used by one thread."""
        if self.options.format == "flat":
            return FlatRecords(self.form.options, self.connector)
        run = Run(id=str(uuid.uuid4()), connector=self.connector.name)
        if self.options.format == "debezium-avro":
            registry = SchemaRegistry(self.options.registry())
            return AvroEncoder(self.form.options, self.connector, self.form.transforms, registry, run)
        return encoder(self.form.options, self.connector, self.form.transforms, run)

    @cached_property
    def topics(self) -> dict[str, str]:
        """Topics that were written, each with its table."""
        return {}

    @property
    def _id(self) -> str:
        return f"headwater.{self.pipeline}.{self.name}"

    @property
    def _positions(self) -> PositionTopic:
        topic = self.options.position_topic.replace("{name}", self.pipeline)
        # Under another prefix there are other topics, which hold nothing yet: a position is of both.
        return PositionTopic(self.client, topic, f"{self.form.options.topic_prefix}/{self.name}")

    # -- what the pipeline asks --------------------------------------------------------------------

    def check(self, tables: Sequence[TableSchema]) -> list[Finding]:
        where = f"kafka {self.options.bootstrap_servers}"
        try:
            known = self.client.topics()
        except HeadwaterError as error:
            remedy = error.remedies[0] if error.remedies else "is it running, and is the address right?"
            return [Finding(where, Severity.ERROR, f"{error.what}: {error.cause}", remedy)]
        findings = [Finding(where, Severity.OK, f"reachable; it has {len(known)} topics")]
        for table in tables:
            findings.extend(self._check_table(table, known))
        return findings

    def _check_table(self, table: TableSchema, known: dict[str, int]) -> Iterator[Finding]:
        topic, wanted = self._topic(table), self.options.partitions
        if topic not in known and not self.options.create_topics:
            yield Finding(table.table, Severity.ERROR, f"its topic {topic} does not exist", "create it")
        elif topic in known and wanted and known[topic] != wanted:
            text = f"its topic {topic} has {known[topic]} partitions, not {wanted}"
            yield Finding(table.table, Severity.ERROR, text, f"set the sink's partitions to {known[topic]}")

    def position(self) -> Position | None:
        """Fences whoever wrote before: also what a killed run left open ends here, and not when its time is up."""
        return self._opened().held.durable

    def seen_position(self) -> Position | None:
        return self._positions.read().durable

    def table_position(self, table: TableSchema) -> Position | None:
        return self._held().tables.get(table.table)

    def warm_up(self) -> None:
        """Nothing: tasks only send snapshots."""

    def takes_log(self) -> bool:
        return True

    def target(self, table: TableSchema) -> str:
        return f"topic {self._topic(table)}"

    def key(self, table: TableSchema) -> Sequence[str]:
        return event_key(self.form.options, table)

    def write_log(
        self,
        decoded: Iterable[Sequence[ChangeBatch]],
        upto: Position,
        stopped: Mapping[str, Position] = NOTHING_STOPPED,
    ) -> list[Written]:
        return self._write(decoded, "position", "", upto, stopped)

    def write(self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position) -> Written:
        done = self._write([batches], "tables", table.table, upto)
        return done[0] if done else Written(table.table, 0, 0.0)

    def advance(self, upto: Position) -> None:
        self._write([], "position", "", upto)

    def _write(
        self,
        decoded: Iterable[Sequence[ChangeBatch]],
        kind: str,
        name: str,
        upto: Position,
        stopped: Mapping[str, Position] | None = None,
    ) -> list[Written]:
        """Everything that its topics do not have yet, and how far that is."""
        began = time.perf_counter()
        counts: Counter[str] = Counter()

        def send(writing: Writing) -> None:
            counts.clear()
            for batches in decoded:
                for batch in batches:
                    left = batch.between(writing.held.reached(batch.table), upto)
                    if len(left):
                        self._send(writing, left, batch)
                        counts[batch.table.table] += len(left)
                self._send_boundaries(writing, batches, upto)
            known = writing.held.position if kind == "position" else writing.held.tables.get(name)
            if known is None or known < upto:
                writing.facts.append(writing.held.fact(kind, name, upto))
            if stopped is not None:
                self._send_heartbeat(writing, upto)
                writing.facts.extend(catching_up(writing.held, upto, stopped))

        self._in_one_batch(send)
        seconds = time.perf_counter() - began
        return [Written(table, count, seconds) for table, count in counts.items()]

    def write_late(self, table: TableSchema, batches: Sequence[ChangeBatch]) -> Written:
        """What was sent is remembered in the same transaction: nothing is sent twice."""
        began = time.perf_counter()
        count = 0

        def send(writing: Writing) -> None:
            nonlocal count
            count = 0
            for batch in batches:
                ids = [f"{table.table}@{commit}:{ordinal}" for commit, ordinal in batch.places]
                left = batch.filter(pa.array([id_ not in writing.held.late for id_ in ids]))
                if len(left):
                    self._send(writing, left, batch)
                    count += len(left)
                    writing.facts.extend(writing.held.fact("late", id_, 1) for id_ in ids)

        self._in_one_batch(send)
        return Written(table.table, count, time.perf_counter() - began)

    # -- snapshots ---------------------------------------------------------------------------------

    def load_part(self, table: TableSchema, rows: Iterable[ChangeBatch]) -> str:
        """Sends the rows; the receipt is where the table's stream has to begin.

        Rows that were sent under an earlier snapshot (the run was killed) stay in the topic, and what happened to them
        since has to follow: the stream then begins at that first snapshot."""
        try:
            return self._load_part(table, rows)
        except Rejected as error:
            if error.places:
                raise
            return self._load_part(table, rows, one_by_one=True)

    def _load_part(self, table: TableSchema, rows: Iterable[ChangeBatch], *, one_by_one: bool = False) -> str:
        place = f"{socket.gethostname()}.{os.getpid()}"
        producer = self._producer(f"{self._id}.load.{place}", one_by_one=one_by_one)
        writing = Writing(producer, Held(self._positions.sink))
        began: Position | None = None
        with producer.batch([]):
            for batch in rows:
                if began is None and len(batch):
                    began = self._begin_load(table, batch.first)
                self._send(writing, batch, batch)
        return "" if began is None else began.to_json()

    def _begin_load(self, table: TableSchema, position: Position) -> Position:
        """Remember where the first attempt at a table's snapshot began, before anybody can see a row of it."""
        held = self._positions.read()
        if table.table in held.loading:
            return held.loading[table.table]
        with Producer(self.client, self._positions.topic, None).batch([held.fact("loading", table.table, position)]):
            pass
        return position

    def load(self, table: TableSchema, receipts: Sequence[str], upto: Position) -> None:
        begins = [Position.from_json(receipt) for receipt in receipts if receipt]

        def remember(writing: Writing) -> None:
            self._partitions(writing, self._topic(table))
            writing.facts.append(writing.held.fact("tables", table.table, min([*begins, upto])))
            writing.facts.append(writing.held.fact("loading", table.table, None))

        self._in_one_batch(remember)

    # -- inside ------------------------------------------------------------------------------------

    def _topic(self, table: TableSchema) -> str:
        return topic_name(self.form.options, *self.connector.topic_parts(table))

    def _producer(self, transactional_id: str, *, one_by_one: bool = False) -> Producer:
        name = transactional_id if self.options.exactly_once else None
        return Producer(self.client, self._positions.topic, name, one_by_one=one_by_one)

    def _opened(self, *, one_by_one: bool = False) -> Writing:
        """The producer. Whoever had its name before can write no more; then what is in the topic is the truth."""
        if self._writing is None:
            self._positions.ensure()
            producer = self._producer(self._id, one_by_one=one_by_one)
            self._writing = Writing(producer, self._positions.read())
        return self._writing

    def _held(self) -> Held:
        return self._writing.held if self._writing is not None else self._positions.read()

    def _in_one_batch(self, work: Callable[[Writing], None]) -> None:
        try:
            self._attempt(work)
        except Rejected as error:
            if error.places:
                raise
            # A request of several records was refused: one by one they fit, or it is known which of them does not.
            self._attempt(work, one_by_one=True)

    def _attempt(self, work: Callable[[Writing], None], *, one_by_one: bool = False) -> None:
        if one_by_one:
            self._writing = None
        writing = self._opened(one_by_one=one_by_one)
        writing.facts = []
        try:
            with writing.producer.batch(writing.facts):
                work(writing)
        except BaseException:
            # Whether it was stored, only the topic knows: it is asked again.
            self._writing = None
            self.client.forget_topics()
            raise
        if one_by_one:
            self._writing = None
        for key, value in writing.facts:
            writing.held.learn(key, value)

    def _send(self, writing: Writing, batch: ChangeBatch, whole: ChangeBatch) -> None:
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
                self._owner(topic, batch.table)
                self._partitions(writing, topic)
                ids = None if self.options.exactly_once else _event_ids(batch, part)
                writing.producer.send(part, ids, partial(_place, batch, part))

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

    def _send_boundaries(self, writing: Writing, batches: Sequence[ChangeBatch], upto: Position) -> None:
        """Where the transactions of a chunk begin and end (`provide.transaction.metadata`), in a topic of their own."""
        orders = self.encoder.orders(batches[0]) if batches else None
        if orders is None:
            return
        found = list(boundaries(self.encoder.options, orders, writing.held.position, upto))
        for boundary in sorted(found, key=lambda boundary: (boundary.position, not boundary.opens)):
            self._send_record(writing, boundary.record, boundary.position)

    def _send_heartbeat(self, writing: Writing, upto: Position) -> None:
        """A sign of life that consumers can wait for, however quiet the tables are (`heartbeat.interval.ms`)."""
        now = time.monotonic()
        if self.options.format == "flat" or not self.form.heartbeat_ms:
            return
        if now - self._last_beat >= self.form.heartbeat_ms / 1000:
            self._last_beat = now
            self._send_record(writing, heartbeat_record(self.encoder.options, time.time_ns() // 1_000_000), upto)

    def _send_record(self, writing: Writing, record: Record, at: Position) -> None:
        """A record that is no row change."""
        self._partitions(writing, record.topic)
        [one] = self.encoder.records([record]).batches
        ids = None if self.options.exactly_once else pa.array([f"{at.commit}:{at.ordinal}"])
        writing.producer.send(one, ids, lambda _number: (at.commit, at.ordinal))

    def _owner(self, topic: str, table: TableSchema) -> None:
        """Characters that Kafka does not allow become `_`: two tables may end in one topic unasked."""
        if table.detail.get("topic") == topic and getattr(self.connector, "cluster", "") == self.client.id:
            raise Stop(
                f"{table.table} would be written into the topic {topic}, which it is read from, for ever",
                "give the pipeline another name, which is the prefix of its topics, or use the transform `route`",
            )
        owner = self.topics.setdefault(topic, table.table)
        if owner != table.table and not self.form.transforms:
            raise Stop(
                f"{owner} and {table.table} would both be written to the topic {topic}",
                "rename one of them with the transform `route`, or leave it out with exclude",
            )

    def _partitions(self, writing: Writing, topic: str) -> None:
        """The topic exists, with as many partitions as ever."""
        before = writing.held.partitions.get(topic)
        now = self.client.partitions(topic, existed=before is not None)
        if before == now or any(fact[0] == writing.held.fact("partitions", topic, now)[0] for fact in writing.facts):
            return
        if before is not None and self.options.partitions != now:
            raise Stop(
                f"the topic {topic} had {before} partitions and has {now} now",
                f"to go on with {now}: set the sink's option partitions: {now}",
                cause="rows go to other partitions from here on: who reads an old and a new one sees no order",
            )
        writing.facts.append(writing.held.fact("partitions", topic, now))


def catching_up(held: Held, upto: Position, stopped: Mapping[str, Position]) -> Iterator[Fact]:
    """What the topic has to know of tables that stay behind: those that stop, and those that go on again."""
    for name, at in stopped.items():
        if held.stopped.get(name) != at:
            yield held.fact("stopped", name, at)
    for name in held.stopped.keys() - stopped.keys():
        behind = held.position is not None and upto < held.position
        yield held.fact("stopped", name, upto if behind else None)


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
