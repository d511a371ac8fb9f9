"""Appending to a journal in Kafka: a seal is a transaction, and whoever begins to write fences all who did before."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from headwater.errors import Retry
from headwater.event import Position
from headwater.journal.kafka import (
    PIECE_BYTES,
    PIECES,
    SEAL,
    TIMEOUT,
    KafkaStorage,
    Reading,
    SealRecord,
    encode_seal,
    seals,
)
from headwater.journal.sealing import Seal, SealingWriter
from headwater.journal.writer import Limits

FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
# Seals that retention looks at together.
AHEAD = 100
SETTINGS: dict[str, Any] = {
    "enable.idempotence": True,
    "transaction.timeout.ms": 60_000,
    "linger.ms": 0,
    "compression.type": "lz4",
    "queue.buffering.max.kbytes": 1 << 20,
}


class KafkaWriter(SealingWriter):
    """Its transactional id is the journal's: the broker refuses everybody who had it before."""

    def __init__(self, storage: KafkaStorage, limits: Limits) -> None:
        super().__init__(storage.place, limits)
        self._storage = storage
        # The oldest seals, as far as retention has looked at them.
        self._seals: deque[SealRecord] = deque()
        self._reading = Reading(storage, storage.topic)
        # All bytes that were ever stored, and of those what was deleted.
        self._total = self._deleted = 0
        storage.refuse_two()
        self._producer = self._begin()
        first, last = storage.first_seal(), storage.last_seal()
        if first is not None and last is not None:
            self._found(last.end, last.last_frame)
            self._deleted, self._total = first.before, last.total
        # A seal that holds nothing: from here on the last one is ours.
        self._store(Seal((), self.synced, self._whole_frame, self.synced))()
        self._go_on()

    def _begin(self) -> Any:
        with self._storage.errors("it cannot be written"):
            producer = Producer(self._storage.settings(**SETTINGS, **{"transactional.id": self._storage.topic}))
            producer.init_transactions(TIMEOUT)
            return producer

    def _store(self, seal: Seal) -> Callable[[], None]:
        record = SealRecord(
            0, self._writer, seal.end, seal.last_frame, seal.last, self._total, self._total + seal.size, time.time()
        )

        def store() -> None:
            try:
                self._producer.begin_transaction()
                for _header, block in seal.blocks:
                    pieces = range(0, len(block), PIECE_BYTES)
                    for start in pieces:
                        headers = [(PIECES, str(len(pieces)))] if not start else None
                        self._produce(block[start : start + PIECE_BYTES], headers)
                self._produce(b"", [(SEAL, encode_seal(record))])
                self._producer.commit_transaction(TIMEOUT)
            except KafkaException as error:
                if error.args[0].code() in FENCED:
                    raise self._storage.busy() from error
                raise self._storage.error("a seal could not be stored", error) from error

        self._total = record.total
        return store

    def _produce(self, value: bytes, headers: Any) -> None:
        while True:
            try:
                self._producer.produce(self._storage.topic, value, None, 0, headers=headers)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _stored(self, seal: Seal) -> None:
        """Retention finds it by itself."""

    def _look(self) -> None:
        last = self._storage.last_seal()
        if last is None or last.writer != self._writer:
            raise self._storage.busy()
        # What was under way is committed or void from here on.
        self._producer = self._begin()
        last = self._storage.last_seal()
        if last is None or last.writer != self._writer:
            raise self._storage.busy()
        self._total = last.total
        self._found(last.end, last.last_frame)

    # -- retention ---------------------------------------------------------------------------------

    def forget(self, upto: Position, *, young: bool = False) -> None:
        old = time.time() - self.limits.keep_seconds
        done = None
        try:
            while (seal := self._oldest()) is not None and seal.last <= upto and (young or seal.time <= old):
                done = self._seals.popleft()
            if done is not None:
                self._storage.delete_before(done.offset + 1)
                self._deleted = done.total
        except Retry:
            # Another time: what was deleted in vain is deleted with what follows.
            pass

    def _oldest(self) -> SealRecord | None:
        """The oldest seal that was not forgotten; the last one never is."""
        if len(self._seals) < 2:
            with self._storage.errors("it could not be read"):
                self._seals.extend(islice(seals(self._reading.records()), AHEAD))
        return self._seals[0] if len(self._seals) > 1 else None

    @property
    def size(self) -> int:
        return self._total - self._deleted + self._gathered
