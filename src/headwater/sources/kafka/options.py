"""Options of the Kafka source. Every name that is librdkafka's own goes to librdkafka as it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from headwater.errors import Usage
from headwater.kafka_cluster import REGISTRY, SETTINGS, clear_settings, masked_settings
from headwater.options import Secret, option
from headwater.sources.base import SourceOptions

# What the source's promises rest on.
OWN = {
    "enable.auto.commit": "offsets are committed when every sink holds what lies before them: group.id",
    "enable.auto.offset.store": "positions are kept with the data",
    "auto.offset.reset": "a position that is gone stops the pipeline; a new one begins at the beginning",
    "isolation.level": "what a transaction gave up is never read",
    "enable.partition.eof": "the source counts on it",
    "partition.assignment.strategy": "partitions are not shared out in a group",
}
_URL = re.compile(r"kafka://(?:([^:@/]*)(?::([^@/]*))?@)?([^@/]+)(?:/([^/]*))?/?")


@dataclass(frozen=True)
class KafkaOptions(SourceOptions):
    """What a user may say about topics with Debezium's events."""

    url: Secret = option(Secret(""), help="kafka://host:port,host:port/topic-prefix; or bootstrap.servers and topics")
    bootstrap_servers: str = option(
        "", help="brokers to begin with, as host:port,host:port", aliases=["bootstrap.servers", "brokers"]
    )
    topics: list[str] = option([], help="topics to read: regular expressions that match the whole name")
    topic_prefix: str = option(
        "", help="topics to read: those that begin with it and a dot, as Debezium names them", aliases=["topic.prefix"]
    )
    registry: str = option("", help="URL of the schema registry, for Avro", aliases=[f"{REGISTRY}url"])
    group: str = option(
        "", help="consumer group that gets the offsets which every sink holds, for others to see", aliases=["group.id"]
    )
    cast: dict[str, str] = option(
        {},
        help="schema.table.column: type. string keeps the event's own text; events without a schema may be told any of"
        " int16, int32, int64, float, double, boolean, string, bytes, decimal(p,s), date, time, timestamp, timestamptz",
    )
    unavailable_value_placeholder: str = option(
        "__debezium_unavailable_value",
        help="what the events have instead of a value that did not change",
        aliases=["unavailable.value.placeholder"],
    )
    processing_failure: str = option(
        "fail",
        help="a record that is no event of Debezium's: fail, or leave it out (warn says so in the log)",
        aliases=["event.processing.failure.handling.mode"],
        choices=["fail", "warn", "skip", "ignore"],
    )
    snapshot: str = option(
        "no_data",
        help="there is none: topics are read from their beginning, and hold what Debezium's snapshot wrote",
        aliases=["snapshot.mode"],
        choices=["no_data"],
    )
    client: dict[str, Any] = option(
        {},
        help="librdkafka's own settings, e.g. security.protocol, sasl.username, sasl.password; and"
        " schema.registry.basic.auth.user.info, …",
        pattern=SETTINGS,
    )

    def __post_init__(self) -> None:
        for name, why in OWN.items():
            if name in self.client:
                raise Usage(f"source kafka: {name} cannot be set: {why}")
        object.__setattr__(self, "client", masked_settings(self.client))
        for pattern in self.topics:
            try:
                re.compile(pattern)
            except re.error as error:
                raise Usage(f"source.topics: {pattern!r} is not a regular expression: {error}") from error

    def settings(self) -> dict[str, Any]:
        """What a client of librdkafka is made with; holds secrets in the clear."""
        user, password, hosts, _prefix = self._parts()
        login = {"sasl.username": user, "sasl.password": password} if user else {}
        return {"bootstrap.servers": hosts, **login, **clear_settings(self.client, registry=False)}

    def registry_settings(self) -> dict[str, str]:
        """What a client of the schema registry is made with; holds secrets in the clear."""
        return {"url": self.registry, **clear_settings(self.client, registry=True)}

    def takes(self, topic: str) -> bool:
        """Whether a topic is to be read. Those that begin with two underscores are Kafka's own, or heartbeats."""
        if topic.startswith("__"):
            return False
        prefix = self.prefix
        return any(re.fullmatch(pattern, topic) for pattern in self.topics) or (
            bool(prefix) and topic.startswith(f"{prefix}.")
        )

    @property
    def prefix(self) -> str:
        return self.topic_prefix or self._parts()[3]

    def _parts(self) -> tuple[str, str, str, str]:
        """(user, password, brokers, topic prefix)"""
        if not self.url:
            if not self.bootstrap_servers:
                raise Usage("source kafka: say where the brokers are: bootstrap.servers: host:port")
            return "", "", self.bootstrap_servers, ""
        found = _URL.fullmatch(self.url.reveal())
        if found is None:
            # Not shown: it may hold a password.
            raise Usage("source kafka: this URL is not understood", "Write it as kafka://host:port/topic-prefix")
        user, password, hosts, prefix = (unquote(part or "") for part in found.groups())
        return user, password, self.bootstrap_servers or hosts, prefix

    def refuse_without_topics(self) -> None:
        """Reading all topics of a cluster is nothing that anybody wants by default."""
        if not self.topics and not self.prefix:
            raise Usage(
                "source kafka: say which topics to read",
                "topic.prefix: <the prefix of your Debezium connector>, or topics: [a regular expression]",
            )
