"""Topics that Debezium wrote, read as it would be read itself."""

from headwater.sources.kafka.source import Kafka

__all__ = ["Kafka"]
