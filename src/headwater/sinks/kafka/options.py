"""Options of the Kafka sink. Every name that is librdkafka's own goes to librdkafka as it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from headwater.errors import Usage
from headwater.options import Secret, option
from headwater.sinks.base import SinkOptions

SECRET = re.compile(r"password|secret|token|credential|\bkey\.pem|jaas|user\.info|oauthbearer\.config")
REGISTRY = "schema.registry."
# What the sink's promises rest on.
OWN = {
    "transactional.id": "it is made from the names of pipeline and sink",
    "enable.idempotence": "a retried request must not be stored twice",
    "partitioner": "rows are partitioned by key, as Kafka's own clients do",
    "delivery.report.only.error": "the sink counts on it",
    "isolation.level": "positions are read as committed",
    "group.id": "positions are not kept in a consumer group",
}


@dataclass(frozen=True)
class KafkaOptions(SinkOptions):
    """Options of the Kafka sink."""

    bootstrap_servers: str = option(
        help="brokers to begin with, as host:port,host:port", aliases=["bootstrap.servers", "brokers"]
    )
    format: str = option(
        "debezium-json",
        help="debezium-json: Debezium's envelope (with its schema: schemas.enable); debezium-avro: the same in Avro"
        " (needs schema.registry.url); flat: a row and _ns_ columns",
        choices=["debezium-json", "debezium-avro", "flat"],
    )
    exactly_once: bool = option(
        True,
        help="each batch and its position in one Kafka transaction; without it, what is sent twice after a crash"
        " carries the same headwater.event.id header",
    )
    create_topics: bool = option(True, help="create topics that are missing")
    partitions: int = option(0, help="partitions of topics that are created, and that topics must have; 0: any")
    replication: int = option(0, help="replication factor of topics that are created; 0: the broker's default")
    topic_config: dict[str, str] = option({}, help="settings of topics that are created, e.g. cleanup.policy: compact")
    position_topic: str = option("__headwater-position.{name}", help="compacted topic that holds the sink's position")
    client: dict[str, Any] = option(
        {},
        help="librdkafka's own settings, e.g. security.protocol, sasl.username, sasl.password, linger.ms; and"
        " schema.registry.url, schema.registry.basic.auth.user.info, …",
        pattern=r"[a-z0-9_]+(\.[a-z0-9_]+)+|acks|debug|retries",
    )

    def __post_init__(self) -> None:
        for name, why in OWN.items():
            if name in self.client:
                raise Usage(f"sink kafka: {name} cannot be set: {why}")
        object.__setattr__(self, "client", {name: _setting(name, value) for name, value in self.client.items()})
        if (self.format == "debezium-avro") != (f"{REGISTRY}url" in self.client):
            raise Usage("sink kafka: format debezium-avro and schema.registry.url go together")

    def registry(self) -> dict[str, str]:
        """What a client of the schema registry is made with; holds secrets in the clear."""
        return {name.removeprefix(REGISTRY): text for name, text in self._clear().items() if name.startswith(REGISTRY)}

    def _clear(self) -> dict[str, str]:
        return {name: value.reveal() if isinstance(value, Secret) else value for name, value in self.client.items()}

    def settings(self, **more: Any) -> dict[str, Any]:
        """What a client of librdkafka is made with; holds secrets in the clear."""
        given = {name: text for name, text in self._clear().items() if not name.startswith(REGISTRY)}
        return {"bootstrap.servers": self.bootstrap_servers, **given, **more}


def _setting(name: str, value: Any) -> str | Secret:
    if isinstance(value, Secret) or SECRET.search(name):
        return value if isinstance(value, Secret) else Secret(str(value))
    # YAML's true, as librdkafka spells it.
    return str(value).lower() if str(value) in ("True", "False") else str(value)
