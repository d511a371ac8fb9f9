"""Tables as the newest records of their topics show them: what a catalog is to a database."""

from __future__ import annotations

import time

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headwater.event import TableSchema
from headwater.sources.kafka.connection import Topics
from headwater.sources.kafka.relation import Foreign
from headwater.sources.kafka.shapes import Shapes

# The last records of a partition: a delete's tombstone is one of them, and rows may leave columns null.
NEWEST = 20
SECONDS = 20.0


def sampled_tables(topics: Topics, shapes: Shapes) -> list[TableSchema]:
    """The table of every topic that has records; of events without a schema, the columns that these name."""
    chosen = topics.refuse_none()
    begins, ends = topics.beginnings(chosen), topics.ends(chosen)
    places = [
        TopicPartition(topic, partition, max(begins[topic][partition], end - NEWEST))
        for topic, own in ends.items()
        for partition, end in enumerate(own)
        if end > begins[topic][partition]
    ]
    found: dict[str, TableSchema] = {}
    for topic, key, value in _newest(topics, places):
        try:
            shape = shapes.find(topic, key, value)
        except Foreign:
            # Whoever reads it in its place says what is wrong with it.
            continue
        if shape.inference is not None:
            data = np.frombuffer(value, dtype=np.uint8)
            shape.inference.widen(data, np.zeros(1, np.int64), np.full(1, data.size, np.int64))
        table = shape.inference.table if shape.inference is not None else shape.table
        if table is not None:
            found[topic] = table
    return [found[topic] for topic in sorted(found)]


def _newest(topics: Topics, places: list[TopicPartition]) -> list[tuple[str, bytes | None, bytes]]:
    """(topic, key, value) of the records from these places on."""
    consumer: Consumer = topics.made(
        Consumer,
        **{
            "group.id": "headwater",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        },
    )
    left = {(place.topic, place.partition) for place in places}
    records: list[tuple[str, bytes | None, bytes]] = []
    deadline = time.monotonic() + SECONDS
    try:
        consumer.assign(places)
        while left and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.2):
                error, topic, value = message.error(), message.topic() or "", message.value()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    left.discard((topic, message.partition() or 0))
                elif error is not None and not error.retriable():
                    raise topics.error(error, f"cannot read {topic}")
                elif error is None and value is not None:
                    records.append((topic, message.key(), value))
    except KafkaException as error:
        raise topics.error(error, "cannot read its topics") from error
    finally:
        consumer.close()
    return records
