"""Kafka: one topic per table, events in Debezium's shape or flat, each batch and its position in one transaction."""

from headwater.sinks.kafka.options import KafkaOptions
from headwater.sinks.kafka.sink import Kafka

__all__ = ["Kafka", "KafkaOptions"]
