"""Reading topics: one consumer, partitions assigned by ourselves, records in, chunks out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headwater.errors import HeadwaterError, Stop
from headwater.event import Chunk, Position, TableSchema
from headwater.sources.base import Log
from headwater.sources.kafka.connection import Topics
from headwater.sources.kafka.frames import ChunkBuilder
from headwater.sources.kafka.known import KnownTables
from headwater.sources.kafka.position import Progress, parse_progress
from headwater.sources.kafka.shapes import Shapes
from headwater.sources.kafka.versions import Versions

# Records that are asked for at a time.
BATCH = 2000
# A chunk is handed on this long after the last one: under load, fewer and larger ones.
GATHER_SECONDS = 0.05
# A log that moves without changes says so this often.
TICK_SECONDS = 30.0
# New topics and partitions are looked for, and how far behind we are is asked, this often.
LOOK_SECONDS = 5.0
# The same, while partitions that were added wait for older ones.
SOON_SECONDS = 0.5
# What librdkafka may have fetched ahead.
AHEAD_KILOBYTES = 32 << 10
# A consumer that nobody assigns partitions to has no deadline to ask for more.
NEVER_MS = 86_400_000


class KafkaLog(Log):
    """See `headwater.sources.base.Log`."""

    def __init__(self, topics: Topics, after: Position, shapes: Shapes, known: KnownTables) -> None:
        self._topics = topics
        self._known = known
        self._schemas: dict[str, TableSchema] = {}
        progress = parse_progress(after.resume)
        failure = topics.options.processing_failure
        self._builder = ChunkBuilder(after, progress, shapes, Versions(known), failure, self._remember)
        self._received = progress.coordinate
        self._behind = 0
        # Records and bytes that came.
        self._records = self._bytes = 0
        self._last_emit = self._looked = 0.0
        self._last_tick = time.monotonic()
        # Partitions that were added to a topic: read when those before them have been read up to here.
        self._waiting: dict[str, list[int]] = {}
        self._consumer: Consumer = topics.made(
            Consumer,
            **{
                # Needed by librdkafka, though nobody shares partitions out.
                "group.id": topics.options.group or "headwater",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "queued.max.messages.kbytes": AHEAD_KILOBYTES,
                "max.poll.interval.ms": NEVER_MS,
            },
        )
        try:
            self._assign(progress)
            self._look(opening=True)
        except BaseException:
            self.close()
            raise

    def read(self, timeout: float) -> Chunk | None:
        deadline = time.monotonic() + timeout
        while True:
            if self._builder.full:
                return self._emit()
            now = time.monotonic()
            wait = deadline - now
            if self._builder.pending:
                ripe = self._last_emit + GATHER_SECONDS
                if now >= ripe:
                    return self._emit()
                wait = min(wait, ripe - now)
            else:
                self._received = self._builder.coordinate
                if self._builder.moved and now - self._last_tick >= self._tick_seconds:
                    return self._emit()
            if now - self._looked >= (SOON_SECONDS if self._waiting else LOOK_SECONDS):
                self._look()
            self._take(max(wait, 0.0))
            if time.monotonic() >= deadline and not self._builder.pending and not self._builder.full:
                self._received = self._builder.coordinate
                return None

    def schema(self, schema: str) -> TableSchema:
        return self._schemas[schema]

    def confirm(self, position: Position) -> None:
        """The broker keeps records as long as it is told to, whoever reads them: a group's offsets are for people."""
        if not self._topics.options.group:
            return
        offsets = parse_progress(position.resume).offsets
        places = [TopicPartition(topic, p, offset) for topic, own in offsets.items() for p, offset in enumerate(own)]
        # What does not arrive is told with the next position.
        with suppress(KafkaException):
            self._consumer.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        self._consumer.close()

    def lag(self) -> Mapping[str, Any]:
        # The broker tells offsets, not bytes: what has come is taken for what will.
        size = self._bytes // self._records if self._records else 1
        return {"received": self._received, "behind_records": self._behind, "behind_bytes": self._behind * size}

    # -- reading -----------------------------------------------------------------------------------

    @property
    def _tick_seconds(self) -> float:
        return float(self._topics.options.heartbeat_interval_ms / 1000 or TICK_SECONDS)

    def _take(self, wait: float) -> None:
        """What has come, up to a full chunk."""
        try:
            # A whole batch is waited for: the first one that comes would be too few under load.
            messages = self._consumer.consume(BATCH, min(wait, GATHER_SECONDS))
        except KafkaException as error:
            raise self._topics.error(error, "cannot read its topics") from error
        add = self._builder.add
        for message in messages:
            topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
            refused = message.error()
            if refused is None:
                self._records += 1
                self._bytes += len(message)
                add(topic, partition, offset, message.key(), message.value(), message.timestamp()[1])
            elif refused.code() == KafkaError._PARTITION_EOF:
                # Behind what a transaction wrote stands the broker's own mark, which nobody is shown.
                self._builder.skip(topic, partition, offset)
            else:
                self._fail(refused, topic, partition)
        if not messages and self._topics.complaint:
            self._topics.metadata()

    def _fail(self, error: KafkaError, topic: str, partition: int) -> None:
        offsets = self._builder.progress.offsets.get(topic, [])
        offset = offsets[partition] if partition < len(offsets) else 0
        raise self._topics.failure(error, topic, partition, offset)

    def _emit(self) -> Chunk | None:
        chunk = self._builder.take()
        self._known.save()
        self._last_emit = self._last_tick = time.monotonic()
        if not self._builder.pending and not self._builder.full:
            self._received = self._builder.coordinate
        return chunk

    def _remember(self, table: TableSchema) -> None:
        self._schemas[table.id] = table
        self._known.remember(table)

    # -- topics and partitions ---------------------------------------------------------------------

    def _assign(self, progress: Progress) -> None:
        own = {topic: offsets for topic, offsets in progress.offsets.items() if self._topics.options.takes(topic)}
        places = [TopicPartition(topic, p, offset) for topic, each in own.items() for p, offset in enumerate(each)]
        try:
            self._consumer.assign(places)
        except KafkaException as error:
            raise self._topics.error(error, "cannot read its topics") from error

    def _look(self, *, opening: bool = False) -> None:
        """New topics and partitions, from their beginnings; and how far behind we are."""
        self._looked = time.monotonic()
        try:
            chosen = self._topics.chosen()
            self._topics.refuse_others(self._builder.progress)
            known = self._builder.progress.offsets
            grown = {topic: count for topic, count in chosen.items() if count > len(known.get(topic, ()))}
            if grown:
                self._begin(grown)
            ends = self._topics.ends({topic: len(known[topic]) for topic in chosen if topic in known})
            self._behind = sum(
                max(0, end - next_) for topic, own in ends.items() for end, next_ in zip(own, known[topic], strict=True)
            )
        except Stop:
            raise
        except HeadwaterError:
            # A cluster that does not answer is noticed by reading.
            if opening:
                raise

    def _begin(self, grown: Mapping[str, int]) -> None:
        known = self._builder.progress.offsets
        beginnings, ids = self._topics.beginnings(grown), self._topics.ids(grown)
        ends = self._topics.ends({topic: len(known[topic]) for topic in grown if topic in known})
        for topic in grown:
            before = known.get(topic, [])
            # Keys move when partitions are added: what the old ones hold of a row comes before what the new ones do.
            wanted = self._waiting.setdefault(topic, ends.get(topic, []))
            if any(offset < end for offset, end in zip(before, wanted, strict=False)):
                continue
            del self._waiting[topic]
            first = beginnings[topic][len(before) :]
            for partition, offset in enumerate(first, len(before)):
                self._builder.begin(topic, ids[topic], partition, offset)
                self._consumer.incremental_assign([TopicPartition(topic, partition, offset)])
