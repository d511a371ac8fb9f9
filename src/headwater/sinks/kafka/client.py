"""A connection to the cluster: its topics, and librdkafka's errors in our words."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headwater.errors import HeadwaterError, Retry, Stop, Usage
from headwater.sinks.kafka.options import KafkaOptions

# Long enough for a broker that is being restarted on a slow machine, short enough that somebody who waits for an
# error sees it.
TIMEOUT = 15.0
# Nobody answers at all: whoever asked tries again by and by.
NOBODY_SECONDS = 3.0

REFUSED = {
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.ILLEGAL_SASL_STATE,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
GONE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}


class Client:
    """Settings of every client of one sink, what they complained about, and the cluster's topics."""

    def __init__(self, options: KafkaOptions) -> None:
        self.options = options
        # librdkafka tells a wrong password in a callback, and the call that waits only that time is up.
        self._refused: KafkaError | None = None
        self._nobody = False
        self._partitions: dict[str, int] = {}
        self._admin: AdminClient | None = None

    def settings(self, **more: Any) -> dict[str, Any]:
        """What a producer or consumer is made with."""
        # Nobody reads librdkafka's own lines on standard error; what matters comes back as an error.
        quiet = {"error_cb": self._complain, "log_level": self.options.client.get("log_level", "0")}
        return self.options.settings(**quiet, **more)

    def _complain(self, error: KafkaError) -> None:
        if error.code() in REFUSED:
            self._refused = error
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._nobody = True

    def made(self, kind: Any, **settings: Any) -> Any:
        """A producer, consumer or admin client; settings that librdkafka does not know are the user's mistake."""
        try:
            return kind(self.settings(**settings))
        except KafkaException as error:
            raise Usage("sink kafka: librdkafka does not take these settings", cause=error.args[0].str()) from error

    def error(self, raised: KafkaException | KafkaError, doing: str) -> HeadwaterError:
        """What happened, as one of ours."""
        found: KafkaError = raised.args[0] if isinstance(raised, KafkaException) else raised
        where = f"Kafka at {self.options.bootstrap_servers}"
        code = found.code()
        refused, self._refused = self._refused, None
        if code in REFUSED or (refused is not None and code in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT)):
            return Stop(
                f"{where} refuses us: {doing}",
                "check security.protocol, sasl.* and ssl.* of the sink, and the broker's ACLs",
                cause=(refused if code not in REFUSED and refused is not None else found).str(),
            )
        if code in FENCED:
            return Stop(
                f"{where}: another process writes for this sink now",
                "a second run of this pipeline has taken over: leave one of them running",
                cause=found.str(),
            )
        return Retry(f"{where}: {doing}", cause=f"{found.name()}: {found.str()}")

    # -- topics ------------------------------------------------------------------------------------

    @property
    def admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = self.made(AdminClient)
        return self._admin

    def topics(self) -> dict[str, int]:
        """Every topic of the cluster and how many partitions it has."""
        began, self._nobody = time.monotonic(), False
        while True:
            try:
                found = self.admin.list_topics(timeout=1.0).topics
                return {name: len(topic.partitions) for name, topic in found.items() if topic.error is None}
            except KafkaException as error:
                # This calls `_complain`.
                self.admin.poll(0)
                waited = time.monotonic() - began
                if self._refused or waited > TIMEOUT or (self._nobody and waited > NOBODY_SECONDS):
                    raise self.error(error, "cannot list its topics") from error

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
