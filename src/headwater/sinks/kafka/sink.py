"""The Kafka sink as a plug-in: every table's changes in its topic, in log order, by one producer on the driver.

One producer, because a Kafka transaction belongs to one. So each micro-batch of all tables is one transaction with one
position; snapshots, which are larger, are sent by tasks, a transaction for each part.
"""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from headwater.errors import HeadwaterError, Rejected, Stop, Usage
from headwater.event import ChangeBatch, Position, TableSchema
from headwater.formats.connector import Connector
from headwater.formats.debezium_json import event_key
from headwater.formats.debezium_options import DebeziumOptions
from headwater.sinks.base import NOTHING_STOPPED, Sink, Written
from headwater.sinks.kafka.client import Client
from headwater.sinks.kafka.options import KafkaOptions
from headwater.sinks.kafka.position import Fact, Held, PositionTopic
from headwater.sinks.kafka.producer import Producer
from headwater.sinks.kafka.records import EventForm, Outgoing, Records
from headwater.sources.base import Finding, Severity
from headwater.transforms.base import EventTransform


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

    def __getstate__(self) -> dict[str, Any]:
        connections = ("_writing", "client", "records")
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
    def records(self) -> Records:
        return Records(self.options, self.form, self.connector, lambda: self.client.id)

    @property
    def _id(self) -> str:
        return f"headwater.{self.pipeline}.{self.name}"

    @property
    def _positions(self) -> PositionTopic:
        topic = self.options.position_topic.replace("{name}", self.pipeline)
        # Under another prefix there are other topics, which hold nothing yet: a position is of both.
        return PositionTopic(self.client, topic, f"{self.form.options.topic_prefix}/{self.name}")

    # -- what the pipeline asks --------------------------------------------------------------------

    def place(self) -> str:
        """The cluster: topics are named by the pipeline, so two sinks would have the same ones."""
        return ",".join(sorted(server.strip() for server in self.options.bootstrap_servers.split(",")))

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
        topic, wanted = self.records.topic(table), self.options.partitions
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
        return f"topic {self.records.topic(table)}"

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
                        self._send(writing, self.records.changes(left, batch))
                        counts[batch.table.table] += len(left)
                self._send(writing, self.records.boundaries(batches, writing.held.position, upto))
            known = writing.held.position if kind == "position" else writing.held.tables.get(name)
            if known is None or known < upto:
                writing.facts.append(writing.held.fact(kind, name, upto))
            if stopped is not None:
                self._send(writing, self.records.heartbeat(upto))
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
                    self._send(writing, self.records.changes(left, batch))
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
                self._send(writing, self.records.changes(batch, batch))
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
            self._partitions(writing, self.records.topic(table))
            writing.facts.append(writing.held.fact("tables", table.table, min([*begins, upto])))
            writing.facts.append(writing.held.fact("loading", table.table, None))

        self._in_one_batch(remember)

    # -- inside ------------------------------------------------------------------------------------

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

    def _send(self, writing: Writing, outgoing: Iterable[Outgoing]) -> None:
        for each in outgoing:
            self._partitions(writing, each.topic)
            writing.producer.send(each.records, each.ids, each.place)

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
