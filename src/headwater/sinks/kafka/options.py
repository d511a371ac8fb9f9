"""Options of the Kafka sink. Every name that is librdkafka's own goes to librdkafka as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headwater.errors import Usage
from headwater.kafka_cluster import REGISTRY, SETTINGS, clear_settings, masked_settings
from headwater.options import option
from headwater.sinks.base import SinkOptions

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
        pattern=SETTINGS,
    )

    def __post_init__(self) -> None:
        for name, why in OWN.items():
            if name in self.client:
                raise Usage(f"sink kafka: {name} cannot be set: {why}")
        object.__setattr__(self, "client", masked_settings(self.client))
        if (self.format == "debezium-avro") != (f"{REGISTRY}url" in self.client):
            raise Usage("sink kafka: format debezium-avro and schema.registry.url go together")

    def registry(self) -> dict[str, str]:
        """What a client of the schema registry is made with; holds secrets in the clear."""
        return clear_settings(self.client, registry=True)

    def settings(self, **more: Any) -> dict[str, Any]:
        """What a client of librdkafka is made with; holds secrets in the clear."""
        given = clear_settings(self.client, registry=False)
        return {"bootstrap.servers": self.bootstrap_servers, **given, **more}
