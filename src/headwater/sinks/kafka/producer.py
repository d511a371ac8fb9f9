"""One producer: records by columns into topics, and facts about them with or right behind them.

Transactional or idempotent. What it promises: when `batch` has ended without an error, records and facts are stored;
when it ended with one, no reader of committed records sees any of them (transactional), or no fact is stored
(idempotent: the records may come again).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as Librdkafka

from headwater.errors import HeadwaterError, Rejected, Retry
from headwater.failpoints import failpoint
from headwater.formats.text import bytes_of
from headwater.sinks.kafka.client import FENCED, GONE, TIMEOUT, TOO_LARGE, Client, gone
from headwater.sinks.kafka.kernels import key_partitions
from headwater.sinks.kafka.position import Fact

SETTINGS: dict[str, Any] = {
    "enable.idempotence": True,
    "delivery.report.only.error": True,
    # Batches worth a request, at most this much later. A micro-batch is flushed at its end anyway.
    "linger.ms": 5,
    "batch.size": 1 << 20,
    # What may wait in memory. More would only hide a slow broker.
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 256 << 10,
    # Half of what it would be without; the broker stores what it gets.
    "compression.type": "lz4",
}
# A transaction may be open this long: a broker that restarts for a minute must not end it.
TRANSACTION_MS = 300_000
COMMIT_SECONDS = 60.0
GIVEN_UP = frozenset((KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT))
EVENT_ID = "headwater.event.id"

# (commit, ordinal) of a change.
Place = tuple[int, int]
Failed = tuple[KafkaError, str, Place | None]
Header = list[tuple[str, str | bytes | None]]


class Producer:
    """Use it from one thread."""

    def __init__(
        self, client: Client, position_topic: str, transactional_id: str | None, *, one_by_one: bool = False
    ) -> None:
        self.client = client
        self.position_topic = position_topic
        self._transactional = transactional_id is not None
        # Every record alone in its request: what the broker refuses is then exactly what does not fit.
        self._one_by_one = one_by_one
        # What was not stored: why, in which topic, and of which change where that is known.
        self._failed: Failed | None = None
        self._headers = Headers()
        # What the user set goes before our defaults.
        more = {name: value for name, value in SETTINGS.items() if name not in client.options.client}
        if transactional_id is not None:
            more["transactional.id"] = transactional_id
            if "transaction.timeout.ms" not in client.options.client:
                more["transaction.timeout.ms"] = TRANSACTION_MS
        if one_by_one:
            more["batch.num.messages"] = 1
        self._kafka: Librdkafka = client.made(Librdkafka, on_delivery=self._undelivered, **more)
        if self._transactional:
            self._call(self._kafka.init_transactions, TIMEOUT, doing="cannot begin to write")

    def _undelivered(self, error: KafkaError, message: Any, place: Place | None = None) -> None:
        # What was given up with its transaction does not say why; the reports come in no order.
        if error is not None and (self._failed is None or self._failed[0].code() in GIVEN_UP):
            self._failed = error, str(message.topic()), place

    # -- a batch -----------------------------------------------------------------------------------

    @contextmanager
    def batch(self, facts: list[Fact]) -> Iterator[None]:
        """Everything sent inside, then `facts`: stored together. `facts` may grow until the end."""
        self._failed = None
        if self._transactional:
            self._call(self._kafka.begin_transaction, doing="cannot begin a transaction")
        try:
            yield
            self._flush_before(facts)
            for key, value in facts:
                self._produce(self.position_topic, value, key, 0, None)
            failpoint("kafka.before_commit")
            # Before the commit, which would wait in vain for what is queued behind a record that was refused.
            self._flush()
            if self._transactional:
                self._call(self._kafka.commit_transaction, COMMIT_SECONDS, doing="cannot commit a transaction")
            failpoint("kafka.after_commit")
        except BaseException:
            self._abort()
            raise

    def _flush_before(self, facts: Sequence[Fact]) -> None:
        """Without a transaction a fact must not be stored before what it is about."""
        if facts and not self._transactional:
            self._flush()
        if self._failed is not None:
            raise self._failure(*self._failed)

    def _flush(self) -> None:
        fewest, since = len(self._kafka) + 1, time.monotonic()
        while (left := self._unsent(0.1)) and self._failed is None:
            if left < fewest:
                fewest, since = left, time.monotonic()
            elif time.monotonic() - since > COMMIT_SECONDS:
                where = self.client.options.bootstrap_servers
                raise Retry(f"Kafka at {where} has taken no record for {COMMIT_SECONDS:.0f} s", cause=f"{left} wait")
        if self._failed is None or (self._transactional and self._failed[0].code() not in TOO_LARGE | GONE):
            # Why a transaction as a whole fails, its commit says better: that it was fenced, say.
            return
        raise self._failure(*self._failed)

    def _unsent(self, seconds: float) -> int:
        """How many records still wait after this long."""
        try:
            return self._kafka.flush(seconds)
        except KafkaException as error:
            # Fatal: another instance has taken over, say.
            raise self.client.error(error, "cannot send records") from error

    def _abort(self) -> None:
        """Best effort: whoever caught the error makes a new producer, which ends what this one left open."""
        try:
            if self._transactional:
                self._kafka.abort_transaction(TIMEOUT)
            else:
                self._kafka.purge()
                self._kafka.flush(1.0)
        except KafkaException:
            pass

    def _call(self, function: Any, *arguments: Any, doing: str) -> None:
        try:
            function(*arguments)
        except KafkaException as error:
            if self._failed is not None and error.args[0].code() not in FENCED:
                raise self._failure(*self._failed) from error
            raise self.client.error(error, doing) from error

    def _failure(self, error: KafkaError, topic: str, place: Place | None) -> HeadwaterError:
        """Why a record was not stored."""
        if error.code() in TOO_LARGE:
            refused = self._too_large(topic, error.str())
            refused.places = () if place is None else (place,)
            return refused
        if error.code() in GONE:
            return gone(topic, error.str())
        if error.code() in GIVEN_UP:
            return Retry(f"records for {topic} were given up with their transaction", cause=error.str())
        return self.client.error(error, f"a record for {topic} was not stored")

    @staticmethod
    def _too_large(topic: str, cause: str) -> Rejected:
        return Rejected(
            f"a record for {topic} is larger than Kafka takes",
            "raise max.message.bytes of the topic (message.max.bytes of the broker) and the sink's message.max.bytes",
            "or leave the column out: column.exclude.list, column.truncate.to.<n>.chars",
            cause=cause,
        )

    # -- records -----------------------------------------------------------------------------------

    def send(self, records: pa.RecordBatch, ids: pa.Array | None, place: Callable[[int], Place]) -> None:
        """Records of one topic in their order; `ids` go into a header of each. `place` says of which change the n-th
        is."""
        topic = records.column("topic")[0].as_py()
        keys, values = (records.column(name).cast(pa.binary()) for name in ("key", "value"))
        headers = self._headers.of(records.column("headers"))
        if ids is not None:
            headers = [[*common, (EVENT_ID, event)] for common, event in zip(headers, ids.to_pylist(), strict=True)]
        produce = self._kafka.produce
        rows = zip(values.to_pylist(), keys.to_pylist(), self._partitions(topic, keys, records), headers, strict=True)
        told = None
        for number, (value, key, partition, header) in enumerate(rows):
            if self._one_by_one:
                told = partial(self._undelivered, place=place(number))
            try:
                produce(topic, value, key, partition, told, None, 0, header)
            except BufferError:
                self._produce(topic, value, key, partition, header, told)
            except KafkaException as error:
                raise self._failure(error.args[0], topic, place(number)) from error
        if self._failed is not None:
            raise self._failure(*self._failed)

    def _produce(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int, headers: Any, told: Any = None
    ) -> None:
        """One record; waits while the queue is full."""
        while True:
            try:
                self._kafka.produce(topic, value, key, partition, told, None, 0, headers)
                return
            except BufferError:
                self._kafka.poll(0.05)
                if self._failed is not None:
                    raise self._failure(*self._failed) from None
            except KafkaException as error:
                raise self._failure(error.args[0], topic, None) from error

    def _partitions(self, topic: str, keys: pa.Array, records: pa.RecordBatch) -> list[int]:
        """By key, over the count the topic had when we first saw it; -1 (any) without a key."""
        found = np.empty(len(keys), dtype=np.int32)
        data, offsets = bytes_of(keys)
        key_partitions(data, offsets, self.client.partitions(topic), found)
        if keys.null_count:
            found[pc.is_null(keys).to_numpy(zero_copy_only=False)] = -1
        if "partition" in records.schema.names:
            chosen = pc.fill_null(records.column("partition"), -1).to_numpy()
            found = np.where(chosen >= 0, chosen, found)
        partitions: list[int] = found.tolist()
        return partitions


class Headers:
    """Header lists as librdkafka takes them; what most records have in common is made once."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, str | bytes | None], ...], Header] = {}

    def of(self, column: pa.Array) -> list[Header]:
        """One list per record."""
        rows = len(column)
        if not rows or column.null_count == rows:
            return [[]] * rows
        first = self._list(column[0])
        if not column.null_count and _repeats(column):
            return [first] * rows
        return [self._list(headers) for headers in column]

    def _list(self, headers: pa.Scalar) -> Header:
        pairs = tuple((pair["key"], pair["value"]) for pair in headers.as_py() or ())
        return self._known.setdefault(pairs, list(pairs)) if len(self._known) < 1000 else list(pairs)


def _repeats(column: pa.ListArray) -> bool:
    """Whether every row is the same list; looks at the buffers, not at the values."""
    offsets = column.offsets.to_numpy()
    pairs = column.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    count = int(offsets[1] - offsets[0])
    if not count or not (np.diff(offsets) == count).all():
        return not count and int(offsets[-1]) == int(offsets[0])
    for i in range(2):
        part = pairs.field(i)
        if part.null_count:
            return False
        data, places = bytes_of(part)
        sizes = np.diff(places).reshape(-1, count)
        if not (sizes == sizes[0]).all():
            return False
        texts = data[places[0] : places[-1]].reshape(len(column), -1)
        if not (texts == texts[0]).all():
            return False
    return True
