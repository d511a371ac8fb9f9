"""The sink's connection to the cluster: its topics, made when they are missing."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import NewTopic

from headwater.errors import HeadwaterError, Retry, Stop, Usage
from headwater.kafka_cluster import GONE, TIMEOUT, Cluster
from headwater.sinks.kafka.options import KafkaOptions

__all__ = ["FENCED", "GONE", "TIMEOUT", "TOO_LARGE", "Client", "gone"]

FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}


class Client(Cluster):
    """What one sink knows of its cluster; makes the topics it lacks."""

    def __init__(self, options: KafkaOptions) -> None:
        super().__init__("sink", options.settings())
        self.options = options
        self._partitions: dict[str, int] = {}

    def error(self, raised: KafkaException | KafkaError, doing: str) -> HeadwaterError:
        found: KafkaError = raised.args[0] if isinstance(raised, KafkaException) else raised
        if found.code() in FENCED:
            return Stop(
                f"{self.where}: another process writes for this sink now",
                "a second run of this pipeline has taken over: leave one of them running",
                cause=found.str(),
            )
        return super().error(raised, doing)

    # -- topics ------------------------------------------------------------------------------------

    def partitions(self, topic: str, *, existed: bool = False) -> int:
        """How many partitions a topic has; it is created when it is missing, unless it has `existed` before. Looked
        up once."""
        if topic not in self._partitions:
            wanted = self.options.partitions
            known = self.topics()
            if topic not in known:
                if existed:
                    raise gone(topic, "it was written before, and the cluster does not know it any more")
                if not self.options.create_topics:
                    raise Stop(f"the topic {topic} does not exist", "create it, or set create_topics: true")
                known = self.create(topic, wanted or -1, self.options.topic_config)
            if wanted and known[topic] != wanted:
                raise Stop(
                    f"the topic {topic} has {known[topic]} partitions; the sink's option partitions says {wanted}",
                    f"set partitions: {known[topic]}, or recreate the topic",
                    cause="with another count, rows would go to other partitions, and the order per key would be lost",
                )
            self._partitions[topic] = known[topic]
        return self._partitions[topic]

    def forget_topics(self) -> None:
        """Look again: something went wrong, and topics may have been deleted or changed since."""
        self._partitions.clear()

    def create(self, topic: str, partitions: int, config: dict[str, str]) -> dict[str, int]:
        """Create a topic, unless somebody else was first, and wait until it shows among the `topics`."""
        new = NewTopic(topic, partitions, self.options.replication or -1, config=config)
        try:
            self.admin.create_topics([new], operation_timeout=TIMEOUT, request_timeout=TIMEOUT)[topic].result()
        except KafkaException as error:
            code = error.args[0].code()
            if code in (KafkaError.INVALID_CONFIG, KafkaError.INVALID_REPLICATION_FACTOR):
                raise Usage(f"sink kafka: the topic {topic} cannot be created", cause=error.args[0].str()) from error
            if code != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self.error(error, f"cannot create the topic {topic}") from error
        deadline = time.monotonic() + TIMEOUT
        while not (known := self.topics()).get(topic):
            if time.monotonic() > deadline:
                raise Retry(f"the topic {topic} was created, but the cluster does not show it")
            time.sleep(0.02)
        return known


def gone(topic: str, cause: str) -> Stop:
    """Somebody deleted a topic: what it held cannot be sent again unasked."""
    return Stop(
        f"the topic {topic} has disappeared",
        "to go on without what it held: create it again",
        "to send the tables anew: give the sink another name, which begins with a snapshot",
        cause=cause,
    )
