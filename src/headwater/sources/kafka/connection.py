"""A cluster's topics: which there are, how far they reach, and whether they still have what we need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from headwater.errors import HeadwaterError, Retry, Stop, Usage
from headwater.kafka_cluster import GONE, TIMEOUT, Cluster
from headwater.sources.kafka.options import KafkaOptions
from headwater.sources.kafka.position import Progress

_ANEW = "To load the tables anew: remove the state folder and the tables in the lake, and run again"
Offsets = dict[str, list[int]]


class Topics(Cluster):
    """The topics that the options choose."""

    def __init__(self, options: KafkaOptions) -> None:
        options.refuse_without_topics()
        super().__init__("source", options.settings())
        self.options = options

    def chosen(self) -> dict[str, int]:
        """The topics to read, with their partitions."""
        return {name: count for name, count in sorted(self.topics().items()) if self.options.takes(name)}

    def refuse_none(self) -> dict[str, int]:
        """`chosen`; there has to be one."""
        found = self.chosen()
        if not found:
            wanted = f"topic.prefix {self.options.prefix!r}" if self.options.prefix else f"topics {self.options.topics}"
            raise Usage(
                f"{self.where}: no topic matches {wanted}",
                "Look at their names, e.g. with kafka-topics --list; the account must be allowed to describe them",
            )
        return found

    def ids(self, topics: Iterable[str]) -> dict[str, str]:
        """What the cluster calls each topic: another id is another topic, whatever its name. Raises Stop for one that
        is not there."""
        wanted, found = list(topics), {}
        if not wanted:
            return {}
        for name, future in self.admin.describe_topics(TopicCollection(wanted), request_timeout=TIMEOUT).items():
            try:
                found[name] = str(future.result().topic_id)
            except KafkaException as error:
                if error.args[0].code() in GONE:
                    raise gone(name) from error
                raise self.error(error, f"cannot describe the topic {name}") from error
        return found

    def beginnings(self, topics: Mapping[str, int]) -> Offsets:
        """The first offset that each partition still has."""
        return self._offsets(topics, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def ends(self, topics: Mapping[str, int]) -> Offsets:
        """Behind the last record of each partition that is committed."""
        return self._offsets(topics, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def _offsets(self, topics: Mapping[str, int], spec: Any) -> Offsets:
        found: Offsets = {topic: [0] * count for topic, count in topics.items()}
        wanted = {TopicPartition(topic, p): spec for topic, count in topics.items() for p in range(count)}
        if not wanted:
            return found
        try:
            asked = self.admin.list_offsets(
                wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT
            )
            for place, future in asked.items():
                found[place.topic][place.partition] = int(future.result().offset)
        except KafkaException as error:
            raise self.error(error, "cannot ask how far its topics reach") from error
        return found

    def beginning(self) -> Progress:
        """Before the first record of all topics."""
        chosen = self.refuse_none()
        return Progress(self.beginnings(chosen), self.ids(chosen))

    def end(self) -> Progress:
        """Behind the last record of all topics."""
        chosen = self.refuse_none()
        return Progress(self.ends(chosen), self.ids(chosen))

    def refuse_others(self, wanted: Progress) -> None:
        """Stop when a topic that we read is gone, or is another one of the same name."""
        for topic, now in self.ids(topic for topic in wanted.offsets if self.options.takes(topic)).items():
            if wanted.ids.get(topic) and now != wanted.ids[topic]:
                raise Stop(
                    f"the topic {topic} was deleted and made again since we read it",
                    _ANEW,
                    cause=f"it is {now} now; we have read {wanted.ids[topic]}",
                )

    def refuse_unreachable(self, wanted: Progress) -> None:
        """Stop when the topics cannot be read on from `wanted`: expired, deleted, made anew."""
        own = {topic: offsets for topic, offsets in wanted.offsets.items() if self.options.takes(topic)}
        self.refuse_others(Progress(own, wanted.ids))
        known = self.topics()
        if missing := [topic for topic in own if topic not in known]:
            # It is there, and has no leader at the moment.
            raise Retry(f"{self.where}: the topic {missing[0]} cannot be read now")
        counts = {topic: known[topic] for topic in own}
        begins, ends = self.beginnings(counts), self.ends(counts)
        for topic, offsets in own.items():
            for partition, offset in enumerate(offsets):
                if partition >= len(begins[topic]):
                    raise gone(f"{topic} [{partition}]")
                if offset < begins[topic][partition]:
                    raise expired(topic, partition, offset, begins[topic][partition])
                if offset > ends[topic][partition]:
                    raise Stop(
                        f"the topic {topic} [{partition}] ends at offset {ends[topic][partition]}; we have read up to"
                        f" {offset}",
                        _ANEW,
                        cause="It was emptied or restored from a backup, or this is another cluster",
                    )
            for partition in range(len(offsets), len(begins[topic])):
                if begins[topic][partition] > 0:
                    raise expired(topic, partition, 0, begins[topic][partition])

    def failure(self, found: KafkaError, topic: str, partition: int, offset: int) -> HeadwaterError:
        """An error that a consumer got instead of a record."""
        if found.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
            return expired(topic, partition, offset)
        if found.code() in GONE:
            return gone(topic)
        if found.code() in (KafkaError._BAD_MSG, KafkaError.INVALID_MSG):
            return Stop(f"the topic {topic} [{partition}] holds a record that is damaged", cause=found.str())
        raised = self.error(found, f"cannot read {topic} [{partition}]")
        return raised if isinstance(raised, Stop) else Retry(raised.what, cause=raised.cause)


def expired(topic: str, partition: int, offset: int, first: int | None = None) -> Stop:
    """What we need is gone."""
    has = f"; the first it still has is {first}" if first is not None else ""
    return Stop(
        f"the topic {topic} [{partition}] no longer has the record with offset {offset}, which comes next{has}",
        _ANEW,
        "Keep records longer: retention.ms and retention.bytes of the topic",
        cause="It expired, or was deleted or compacted away, before it was read; going on would leave out changes",
    )


def gone(topic: str) -> Stop:
    """Somebody deleted a topic that we were reading."""
    return Stop(
        f"the topic {topic} has disappeared",
        "To go on without it: take it out of source.topics",
        _ANEW,
        cause="It was read before, and the cluster does not know it any more, or does not show it to this account",
    )
