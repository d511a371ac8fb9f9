"""A journal in Kafka: `kafka://broker[,broker]/topic`.

TOPIC          one partition. A seal is one Kafka transaction: the records of its blocks, and a last one that says what
               the seal is. A block is a record, or several when it is larger than a record should be; it is found by
               the offset of its first one.
TOPIC.files    one partition, compacted: small files by name, the last one counts

Settings of librdkafka (SASL, TLS) come from the properties file that HEADWATER_JOURNAL_KAFKA names, on every machine:
none stands in a plan or a slice.
"""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headwater.errors import HeadwaterError, Retry, Stop, Usage
from headwater.event import Chunk, Position
from headwater.journal.block import PREFIX, Damaged, decode_block, decode_header, decode_prefix
from headwater.journal.remote import RemoteStorage
from headwater.journal.storage import BlockRef, Cursor
from headwater.journal.writer import JournalWriter, Limits

VARIABLE = "HEADWATER_JOURNAL_KAFKA"
SEAL, PIECES = "seal", "pieces"
# A record of this size fits into a topic with Kafka's own limit of 1 MB.
PIECE_BYTES = 900_000
TIMEOUT = 15.0
# Nothing expires by itself: what every sink holds is deleted by the tail.
BLOCKS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
FILES = {"cleanup.policy": "compact", "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}
MISSING = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
# Between two looks for new blocks.
POLL_SECONDS = 0.05
CONSUMER: dict[str, Any] = {
    "group.id": "headwater-journal",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    # What was deleted meanwhile is told by positions, which do not go on.
    "auto.offset.reset": "earliest",
    # A block is read for itself: not much behind it is wanted.
    "queued.max.messages.kbytes": 8 << 10,
    "fetch.wait.max.ms": 20,
}
REFUSED = {
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


@dataclass(frozen=True)
class SealRecord:
    """The last record of a seal."""

    # Behind it the next seal begins.
    offset: int
    writer: str
    end: Position
    last_frame: Position
    last: Position
    # All bytes that were ever stored before it, and with it.
    before: int
    total: int
    time: float


class KafkaStorage(RemoteStorage):
    """Two topics of one partition each."""

    def __init__(self, servers: str, topic: str) -> None:
        self.place = f"kafka://{servers}/{topic}"
        self.topic = topic
        self._servers = servers
        self._files: dict[str, str] = {}
        self._files_read = Reading(self, f"{topic}.files")
        self._files_written: Any = None
        self._lock = threading.Lock()
        # For blocks that are read one at a time: making a reading costs more than a block.
        self._idle: queue.SimpleQueue[Reading] = queue.SimpleQueue()

    def __reduce__(self) -> tuple[Any, ...]:
        return storage_at, (self.place,)

    # -- small files -------------------------------------------------------------------------------

    def read(self, name: str) -> str | None:
        if name.startswith("schemas/") and name in self._files:
            # Table definitions never change.
            return self._files[name]
        return self._current().get(name)

    def write(self, name: str, text: str, *, durable: bool = True) -> None:
        self._put(name, text.encode())

    def append(self, name: str, text: str) -> None:
        self.write(name, (self.read(name) or "") + text)

    def names(self, folder: str) -> list[str]:
        return sorted(name for name in self._current() if name.startswith(f"{folder}/") and name.endswith(".json"))

    def remove(self, name: str) -> None:
        self._put(name, None)

    def _put(self, name: str, value: bytes | None) -> None:
        failed: list[KafkaError] = []
        with self._lock, self.errors(f"{name} could not be written"):
            if self._files_written is None:
                self._create_topics()
                self._files_written = Producer(
                    self.settings(**{"enable.idempotence": True, "message.timeout.ms": int(TIMEOUT * 1000)})
                )
            self._files_written.produce(
                f"{self.topic}.files",
                value,
                name.encode(),
                0,
                on_delivery=lambda error, _message: failed.append(error) if error is not None else None,
            )
            if self._files_written.flush(TIMEOUT):
                self._files_written.purge()
                raise Retry(f"the journal in {self.place}: {name} could not be written", cause="nobody answers")
            if failed:
                raise KafkaException(failed[0])

    def _current(self) -> dict[str, str]:
        """All small files, as of now."""
        with self._lock, self.errors("its files could not be read"):
            for message in self._files_read.records():
                name, value = message.key().decode(), message.value()
                if value is None:
                    self._files.pop(name, None)
                else:
                    self._files[name] = value.decode()
            return dict(self._files)

    def _create_topics(self) -> None:
        admin = AdminClient(self.settings())
        wanted = {self.topic: BLOCKS, f"{self.topic}.files": FILES}
        topics = [NewTopic(name, 1, -1, config=config) for name, config in wanted.items()]
        for name, created in admin.create_topics(topics, operation_timeout=TIMEOUT, request_timeout=TIMEOUT).items():
            try:
                created.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
                partitions = admin.list_topics(name, timeout=TIMEOUT).topics[name].partitions
                if len(partitions) != 1:
                    raise Stop(
                        f"the topic {name} has {len(partitions)} partitions; a journal has one: it is in order",
                        "Name another topic (`journal:` in the pipeline's file)",
                    ) from error

    # -- blocks ------------------------------------------------------------------------------------

    def cursor(self) -> Cursor:
        return KafkaCursor(self)

    def block(self, segment: str, offset: int, size: int) -> Chunk:
        with self.errors(f"the block at {offset} could not be read"):
            try:
                reading = self._idle.get_nowait()
            except queue.Empty:
                reading = Reading(self, self.topic)
            reading.seek(offset)
            found, data = next(whole_blocks(reading.records()), (-1, b""))
            self._idle.put(reading)
        if found != offset:
            # Deleted, or never there: the broker gives the next one that it has.
            raise self.damaged(offset, "it is missing")
        try:
            return decode_block(data)
        except Damaged as error:
            raise self.damaged(offset, error.what) from error

    def writer(self, limits: Limits) -> JournalWriter:
        from headwater.journal.kafka_writer import KafkaWriter

        return KafkaWriter(self, limits)

    def size(self) -> int:
        first, last = self.first_seal(), self.last_seal()
        return last.total - first.before if first and last else 0

    def first_seal(self) -> SealRecord | None:
        """The oldest that is still there."""
        return next(self._seals(0), None)

    def last_seal(self) -> SealRecord | None:
        """What was stored last. The records of its blocks lie before it, and a marker of its transaction behind it."""
        with self.errors("it could not be read"):
            low, high = Reading(self, self.topic).ends()
        back = 2
        while low < high:
            found = list(self._seals(max(low, high - back)))
            if found or high - back <= low:
                return found[-1] if found else None
            back *= 4
        return None

    def _seals(self, offset: int) -> Iterator[SealRecord]:
        with self.errors("it could not be read"):
            yield from seals(Reading(self, self.topic, offset).records())

    def delete_before(self, offset: int) -> None:
        """Delete what lies before an offset."""
        with self.errors("what nobody needs could not be deleted"):
            place = TopicPartition(self.topic, 0, offset)
            # Held on to while it works: its thread ends with it.
            admin = AdminClient(self.settings())
            admin.delete_records([place], request_timeout=TIMEOUT)[place].result()

    def damaged(self, offset: int, why: str) -> Damaged:
        """The error for a record that is not what was written."""
        return Damaged(
            f"the journal is damaged: offset {offset} in {self.place}: {why}",
            "If every sink has passed this point: delete the topic; what is not confirmed comes again from the slot",
            "See that the topic keeps everything (retention.ms=-1, retention.bytes=-1): only the tail deletes there",
        )

    # -- Kafka -------------------------------------------------------------------------------------

    def settings(self, **more: Any) -> dict[str, Any]:
        """What a client is made with."""
        return {"bootstrap.servers": self._servers, "log_level": "0", **_from_file(), **more}

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Kafka's errors in our words."""
        try:
            yield
        except KafkaException as error:
            raise self.error(what, error) from error

    def error(self, what: str, error: KafkaException) -> HeadwaterError:
        """Refused for good, or away for a while."""
        found: KafkaError = error.args[0]
        text, cause = f"the journal in {self.place}: {what}", f"{found.name()}: {found.str()}"
        if found.code() in REFUSED:
            return Stop(text, f"See the settings in the file that {VARIABLE} names, and the broker's ACLs", cause=cause)
        return Retry(text, cause=cause)


class Reading:
    """A place in a topic, and a consumer that goes on from there."""

    def __init__(self, storage: KafkaStorage, topic: str, offset: int = 0) -> None:
        self._storage = storage
        self._topic = topic
        self.offset = offset
        self._consumer: Any = None

    def seek(self, offset: int) -> None:
        """Go on from another place."""
        self.offset = offset
        if self._consumer is not None:
            self._consumer.assign([TopicPartition(self._topic, 0, offset)])

    def ends(self) -> tuple[int, int]:
        """(the oldest offset, the one behind the last that is committed)."""
        if self._consumer is None:
            self._consumer = Consumer(self._storage.settings(**CONSUMER))
            self.seek(self.offset)
        try:
            low, high = self._consumer.get_watermark_offsets(
                TopicPartition(self._topic, 0), timeout=TIMEOUT, cached=False
            )
        except KafkaException as error:
            if error.args[0].code() in MISSING:
                return 0, 0
            raise
        return low, high

    def records(self) -> Iterator[Any]:
        """What is there now, and no waiting for more. Whoever stops in between goes on there the next time."""
        _low, high = self.ends()
        deadline = time.monotonic() + TIMEOUT
        while self.offset < high:
            message = self._consumer.poll(0.5)
            if message is None:
                if time.monotonic() > deadline:
                    raise Retry(f"the journal in {self._storage.place} does not answer")
                continue
            deadline = time.monotonic() + TIMEOUT
            error = message.error()
            if error is None:
                self.offset = message.offset() + 1
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                # Behind the last record there may be a transaction's marker.
                self.offset = message.offset()
            else:
                raise KafkaException(error)


class KafkaCursor(Cursor):
    """Reads every record once, and keeps what the blocks say about themselves."""

    def __init__(self, storage: KafkaStorage) -> None:
        self._storage = storage
        self._reading = Reading(storage, storage.topic)
        self._looked = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        # It travels with Spark's reader, to where nobody looks for new blocks.
        return KafkaCursor, (self._storage,)

    def new_blocks(self) -> list[BlockRef]:
        now = time.monotonic()
        if now - self._looked < POLL_SECONDS:
            return []
        self._looked = now
        before = self._reading.offset
        try:
            with self._storage.errors("it could not be read"):
                return self._read_on()
        except HeadwaterError:
            # What was read so far is read again.
            self._reading.seek(before)
            raise

    def _read_on(self) -> list[BlockRef]:
        found: list[BlockRef] = []
        for offset, data in whole_blocks(self._reading.records()):
            try:
                header_size, payload_size, crc, _payload_crc = decode_prefix(data)
                header = decode_header(data[PREFIX.size : PREFIX.size + header_size], payload_size, crc)
            except Damaged as error:
                raise self._storage.damaged(offset, error.what) from error
            found.append(BlockRef("", offset, len(data), header))
        return found


def whole_blocks(records: Iterator[Any]) -> Iterator[tuple[int, bytes]]:
    """Blocks with their offsets, put together again. Records of a block whose first ones were deleted are left out."""
    pieces: list[bytes] = []
    first = wanted = 0
    for message in records:
        headers = dict(message.headers() or ())
        if SEAL in headers:
            continue
        if PIECES in headers:
            first, wanted, pieces = message.offset(), int(headers[PIECES]), []
        pieces.append(message.value())
        if len(pieces) == wanted:
            yield first, b"".join(pieces)


def seals(records: Iterator[Any]) -> Iterator[SealRecord]:
    """What is said about every seal among the records."""
    for message in records:
        if said := dict(message.headers() or ()).get(SEAL):
            yield _seal(message.offset(), json.loads(said))


def encode_seal(seal: SealRecord) -> str:
    """What the last record of a seal carries."""
    fields = {**seal.__dict__, "end": _fields(seal.end), "last_frame": _fields(seal.last_frame)}
    return json.dumps({**fields, "last": _fields(seal.last)})


def _seal(offset: int, read: dict[str, Any]) -> SealRecord:
    positions = {name: Position(*read[name]) for name in ("end", "last_frame", "last")}
    return SealRecord(**{**read, **positions, "offset": offset})


def _fields(position: Position) -> list[Any]:
    return [position.commit, position.ordinal, position.resume]


def _from_file() -> dict[str, str]:
    path = os.environ.get(VARIABLE)
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except OSError as error:
        raise Usage(f"{VARIABLE} names {path}, which cannot be read: {error.strerror}") from error
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _equals, value in pairs}


@cache
def storage_at(url: str) -> KafkaStorage:
    """The storage at `kafka://broker/topic`, one for all of a process: connections are kept. Does no I/O."""
    servers, _slash, topic = url.removeprefix("kafka://").partition("/")
    return KafkaStorage(servers, topic)
