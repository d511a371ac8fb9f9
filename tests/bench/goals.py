"""What each measure is compared with, and the numbers we set ourselves. Printed, never asserted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """Ours divided by another contestant's rate, in the same run."""

    measure: str
    ours: str
    over: str
    reach: float
    aim: float


@dataclass(frozen=True)
class Rate:
    """Changes or rows per second, on the two-core class of machine that the published numbers come from."""

    measure: str
    ours: str
    reach: int
    aim: int


@dataclass(frozen=True)
class Latency:
    """Milliseconds at p50 and p99."""

    measure: str
    ours: str
    reach: tuple[int, int]
    aim: tuple[int, int]


RATIOS = (
    Ratio("stream → Spark noop, typed, ÷ pg_recvlogical", "stream-noop", "limit", 0.80, 0.95),
    Ratio("stream → Spark noop, typed, ÷ Debezium engine", "stream-noop", "debezium", 4.0, 5.0),
    Ratio("stream → Debezium JSON in Spark ÷ pg_recvlogical", "stream-json", "limit", 0.5, 0.8),
    Ratio("stream → Delta append ÷ pg_recvlogical", "stream-append", "limit", 0.6, 0.8),
    Ratio("stream → Delta upsert ÷ pg_recvlogical", "stream-upsert", "limit", 0.4, 0.8),
    Ratio("stream → Kafka, Debezium JSON, ÷ pg_recvlogical", "kafka-json", "limit", 0.3, 0.6),
    Ratio("stream → Kafka, Avro, ÷ pg_recvlogical", "kafka-avro", "limit", 0.3, 0.6),
    Ratio("stream → Kafka, JSON, ÷ Debezium in Kafka Connect", "kafka-json", "debezium-connect", 2.0, 4.0),
    Ratio("snapshot → Delta ÷ parallel COPY", "snapshot-delta", "copy", 0.4, 0.7),
    Ratio("MariaDB: stream → Spark noop, typed, ÷ raw binlog dump", "mysql-stream-noop", "mysql-limit", 0.02, 0.05),
    Ratio("MariaDB: the same ÷ python-mysql-replication", "mysql-stream-noop", "mysql-replication", 10.0, 20.0),
    Ratio("MariaDB: the same ÷ Debezium engine", "mysql-stream-noop", "mysql-debezium", 4.0, 10.0),
    Ratio("MariaDB: snapshot → Delta ÷ Debezium", "mysql-snapshot-delta", "mysql-debezium-snapshot", 5.0, 10.0),
)
RATES = (Rate("MariaDB: stream → Spark noop, typed", "mysql-stream-noop", 300_000, 600_000),)
LATENCIES = (
    Latency("commit → readable in Delta, append", "latency-append", (350, 800), (200, 350)),
    Latency("commit → readable in Delta, upsert", "latency-upsert", (350, 800), (200, 350)),
    Latency("commit → seen by foreachBatch", "latency-foreachbatch", (300, 700), (200, 450)),
)
