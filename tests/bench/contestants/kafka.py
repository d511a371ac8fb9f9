"""The backlog into Kafka: by Headwater as JSON and as Avro, and by Debezium in Kafka Connect, into the same broker."""

from __future__ import annotations

import time
import uuid
from functools import cache
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from headwater.errors import HeadwaterError, Usage
from headwater.testing.connect import ConnectWorker
from headwater.testing.debezium import connection_properties, jars
from headwater.testing.kafka import KafkaServer
from headwater.testing.registry import RegistryServer

from ..contestant import Contestant, NotAvailable, Run
from ..headwater import drive, pipeline_file, require_pipelines, source
from ..postgres_workload import PUBLICATION, PostgresWorkload

PATIENCE_SECONDS = 900


@cache
def broker() -> KafkaServer:
    """One for all rounds."""
    return KafkaServer().start()


@cache
def registry() -> RegistryServer:
    return RegistryServer().start()


class Topic:
    """How much is in a topic with one partition."""

    def __init__(self, name: str) -> None:
        settings = {"bootstrap.servers": broker().bootstrap, "group.id": uuid.uuid4().hex, "log_level": 0}
        self._consumer = Consumer(settings)
        self._place = TopicPartition(name, 0)

    def size(self) -> int:
        try:
            return int(self._consumer.get_watermark_offsets(self._place, timeout=10)[1])
        except KafkaException:
            # It does not exist yet.
            return 0

    def wait_for(self, count: int) -> tuple[float, int]:
        """(when, how many)."""
        deadline = time.perf_counter() + PATIENCE_SECONDS
        while (found := self.size()) < count:
            if time.perf_counter() > deadline:
                raise NotAvailable(f"only {found:,} of {count:,} events arrived")
            time.sleep(0.05)
        return time.perf_counter(), found


class StreamToKafka(Contestant[PostgresWorkload]):
    """`headwater run FILE --available-now`, exactly once, one partition."""

    workload = PostgresWorkload
    group = "kafka"

    def __init__(self, name: str, *, form: str) -> None:
        self.name = name
        self.form = form
        self.title = f"Headwater → Kafka, {form}"

    def run(self, workload: PostgresWorkload, directory: Path) -> Run:
        require_pipelines()
        try:
            sink = {"type": "kafka", "bootstrap.servers": broker().bootstrap, "partitions": 1, "format": self.form}
            if self.form == "debezium-avro":
                sink["schema.registry.url"] = registry().url
        except HeadwaterError as missing:
            raise NotAvailable(missing.what) from missing
        slot, prefix = workload.slot(), f"ours_{uuid.uuid4().hex[:8]}"
        file = pipeline_file(directory, source(workload, slot, **{"topic.prefix": prefix}), sink)
        measured = drive({"do": "pipeline", "file": str(file), "url": workload.url}, directory)
        workload.drop_slot(slot)
        Topic(f"{prefix}.public.orders").wait_for(workload.changes)
        return Run(measured["seconds"], workload.changes, measured)


class DebeziumConnect(Contestant[PostgresWorkload]):
    """In favour of Debezium: the clock starts with its first record in the topic, not with its JVM."""

    workload = PostgresWorkload
    name = "debezium-connect"
    title = "Debezium 3.6.3 in Kafka Connect → Kafka, JSON"
    group = "kafka"
    most_rounds = 2

    def run(self, workload: PostgresWorkload, directory: Path) -> Run:
        slot, prefix = workload.slot(), f"theirs_{uuid.uuid4().hex[:8]}"
        connector = {
            "name": prefix,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "slot.name": slot,
            "publication.name": PUBLICATION,
            "publication.autocreate.mode": "disabled",
            "table.include.list": "public.orders",
            "snapshot.mode": "no_data",
            "topic.prefix": prefix,
            **connection_properties(workload.url),
        }
        topic = Topic(f"{prefix}.public.orders")
        try:
            jars()
            with ConnectWorker(broker().bootstrap, connector):
                started, first = topic.wait_for(1)
                done, last = topic.wait_for(workload.changes)
        except Usage as missing:
            raise NotAvailable(missing.what) from missing
        workload.drop_slot(slot)
        return Run(done - started, last - first)
