"""Who is measured: the server's own limits, Debezium, and Headwater in each of its ways."""

from .copy import ParallelCopy
from .debezium import DebeziumEngine
from .kafka import DebeziumConnect, StreamToKafka
from .latency import DeltaLatency, ForeachBatchLatency
from .many_tables import ManyTables
from .mysql_snapshot import DebeziumSnapshot, MySqlSnapshotToDelta
from .mysql_stream import BinlogDump, DebeziumBinlog, MySqlStreamToNoop, PythonMysqlReplication
from .recvlogical import Recvlogical
from .snapshot import SnapshotToDelta
from .stream import StreamToDelta, StreamToNoop
from .upsert_curve import UpsertCurve

CONTESTANTS = (
    Recvlogical(),
    DebeziumEngine("debezium", schemas=False),
    DebeziumEngine("debezium-schemas", schemas=True),
    StreamToNoop("stream-noop", typed=True),
    StreamToNoop("stream-json", typed=False),
    StreamToDelta("stream-append", mode="append"),
    StreamToDelta("stream-upsert", mode="upsert"),
    StreamToKafka("kafka-json", form="debezium-json"),
    StreamToKafka("kafka-avro", form="debezium-avro"),
    DebeziumConnect(),
    ParallelCopy(),
    SnapshotToDelta(),
    DeltaLatency("latency-append", mode="append"),
    DeltaLatency("latency-upsert", mode="upsert"),
    ForeachBatchLatency(),
    ManyTables(),
    UpsertCurve(),
    BinlogDump(),
    PythonMysqlReplication(),
    DebeziumBinlog(),
    MySqlStreamToNoop(),
    DebeziumSnapshot(),
    MySqlSnapshotToDelta(),
)
