"""Debezium's records that are no row changes: transaction boundaries and heartbeats. A few a second, so plain code.

Logical messages exist in PostgreSQL only: `sources/postgres/debezium_message.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.formats import names
from headwater.formats.connect import INT64, STRING, Schema, quote, struct
from headwater.formats.debezium_options import DebeziumOptions

_COMMON = "io.debezium.connector.common"
_COLLECTION = struct(
    "event.collection", [("data_collection", STRING), ("event_count", INT64)], optional=True, version=1
)
TRANSACTION_KEY = struct(f"{_COMMON}.TransactionMetadataKey", [("id", STRING)], version=1)
TRANSACTION_VALUE = struct(
    f"{_COMMON}.TransactionMetadataValue",
    [
        ("status", STRING),
        ("id", STRING),
        ("event_count", INT64.as_optional()),
        ("data_collections", Schema("array", optional=True, items=_COLLECTION)),
        ("ts_ms", INT64),
    ],
    version=1,
)
HEARTBEAT_KEY = struct(f"{_COMMON}.ServerNameKey", [("serverName", STRING)], version=1)
HEARTBEAT_VALUE = struct(f"{_COMMON}.Heartbeat", [("ts_ms", INT64)], version=1)


@dataclass(frozen=True)
class Record:
    """One record of a topic as text, and the schemas of key and value."""

    topic: str
    key: str
    value: str
    key_schema: Schema
    value_schema: Schema


def begin_record(options: DebeziumOptions, id: str, committed: int) -> Record:
    """The record before a transaction's first event; `committed` is in milliseconds since the epoch."""
    name = quote(id)
    value = f'{{"status":"BEGIN","id":{name},"event_count":null,"data_collections":null,"ts_ms":{committed}}}'
    return _transaction(options, name, value)


def end_record(options: DebeziumOptions, id: str, committed: int, events: Mapping[str, int]) -> Record:
    """The record after a transaction's last event: how many there were, and of which tables."""
    name = quote(id)
    counts = ",".join(f'{{"data_collection":{quote(table)},"event_count":{count}}}' for table, count in events.items())
    value = (
        f'{{"status":"END","id":{name},"event_count":{sum(events.values())},'
        f'"data_collections":[{counts}],"ts_ms":{committed}}}'
    )
    return _transaction(options, name, value)


def _transaction(options: DebeziumOptions, name: str, value: str) -> Record:
    topic = names.topic_name(options, options.topic_transaction)
    return made_record(options, topic, (TRANSACTION_KEY, f'{{"id":{name}}}'), (TRANSACTION_VALUE, value))


def heartbeat_record(options: DebeziumOptions, now: int) -> Record:
    """A sign of life; `now` is in milliseconds since the epoch."""
    name = options.topic_heartbeat_name
    if not name:
        name = options.topic_delimiter.join((options.topic_heartbeat_prefix, options.topic_prefix))
    key = f'{{"serverName":{quote(options.topic_prefix)}}}'
    return made_record(options, names.sanitise(name), (HEARTBEAT_KEY, key), (HEARTBEAT_VALUE, f'{{"ts_ms":{now}}}'))


def made_record(options: DebeziumOptions, topic: str, key: tuple[Schema, str], value: tuple[Schema, str]) -> Record:
    """A record of two payloads, each with its schema."""
    return Record(topic, _with_schema(options, *key), _with_schema(options, *value), key[0], value[0])


def _with_schema(options: DebeziumOptions, schema: Schema, payload: str) -> str:
    """A payload as the converter writes it, alone or beside its schema."""
    return f'{{"schema":{schema.json()},"payload":{payload}}}' if options.schemas_enable else payload
