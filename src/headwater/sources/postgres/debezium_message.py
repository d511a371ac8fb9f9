"""Logical messages (`pg_logical_emit_message`) as Debezium's events with op `m`."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.formats import names, plain
from headwater.formats.connect import BYTES, INT64, STRING, Schema, quote, struct
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.debezium_records import Record, made_record
from headwater.formats.envelope import TRANSACTION

_NAME = "io.debezium.connector.postgresql"
KEY = struct(f"{_NAME}.MessageKey", [("prefix", STRING.as_optional())], version=1)


@dataclass(frozen=True)
class Message:
    """One message of the log."""

    prefix: str
    content: bytes
    lsn: int
    # Microseconds since the epoch: the commit time; when we read it, for a message outside of transactions.
    time: int
    # None outside of transactions.
    xid: int | None = None
    # The end of the transaction before it in the log, when known.
    previous: int | None = None
    # (total order, order among the transaction's messages), for provide.transaction.metadata.
    order: tuple[int, int] | None = None


def message_record(message: Message, options: DebeziumOptions, database: str, source: Schema, now: int) -> Record:
    """The record of one message; `source` is the schema of its block, `now` is in milliseconds since the epoch."""
    key = f'{{"prefix":{quote(message.prefix)}}}'
    text = options.binary_handling_mode != "bytes"
    content = (STRING if text else BYTES).as_optional()
    body = struct(f"{_NAME}.Message", [("prefix", STRING.as_optional()), ("content", content)], version=1)
    schema = struct(
        f"{_NAME}.MessageValue",
        [
            ("op", STRING),
            ("ts_ms", INT64.as_optional()),
            ("source", source),
            ("transaction", TRANSACTION),
            ("message", body),
        ],
        version=1,
    )
    value = (
        f'{{"op":"m","ts_ms":{now},"source":{_source(message, options, database)},'
        f'"transaction":{_transaction(message)},'
        f'"message":{{"prefix":{quote(message.prefix)},"content":{_content(message.content, options)}}}}}'
    )
    topic = names.topic_name(options, "message")
    return made_record(options, topic, (KEY, key), (schema, value))


def _source(message: Message, options: DebeziumOptions, database: str) -> str:
    before = "null" if message.previous is None else f'"{message.previous}"'
    sequence = quote(f'[{before},"{message.lsn}"]')
    xid = "null" if message.xid is None else str(message.xid)
    return (
        f'{{"version":{quote(options.version)},"connector":"postgresql","name":{quote(options.topic_prefix)},'
        f'"ts_ms":{message.time // 1000},"snapshot":"false","db":{quote(database)},"sequence":{sequence},'
        f'"ts_us":{message.time},"ts_ns":{message.time * 1000},"schema":"","table":"","txId":{xid},'
        f'"lsn":{message.lsn},"xmin":null,"origin":null,"origin_lsn":null}}'
    )


def _transaction(message: Message) -> str:
    if message.order is None or message.xid is None:
        return "null"
    total, own = message.order
    return f'{{"id":"{message.xid}:{message.lsn}","total_order":{total},"data_collection_order":{own}}}'


def _content(content: bytes, options: DebeziumOptions) -> str:
    match options.binary_handling_mode:
        case "hex":
            return plain.hex_text(content)
        case "base64-url-safe":
            return plain.base64_text(content, url_safe=True)
    return plain.base64_text(content)
