"""Names in events: topics from tables, and schema and field names that Avro accepts."""

from __future__ import annotations

import re

from headwater.errors import Usage
from headwater.formats.debezium_options import DebeziumOptions

MAX_TOPIC = 249


def topic_name(options: DebeziumOptions, *parts: str) -> str:
    """`<prefix>.<part>.<part>`, with what Kafka does not allow replaced by `_`."""
    joined = options.topic_delimiter.join(part for part in (options.topic_prefix, *parts) if part.strip())
    return sanitise(joined)


def sanitise(topic: str) -> str:
    """A topic name that Kafka accepts."""
    if topic in (".", ".."):
        return "_" * len(topic)
    return re.sub(r"[^A-Za-z0-9._-]", "_", topic)[:MAX_TOPIC]


def adjust(name: str, mode: str, *, field: bool = False) -> str:
    """A name under schema.name.adjustment.mode or field.name.adjustment.mode."""
    match mode:
        case "avro":
            return _avro(name, "" if field else ".")
        case "avro_unicode":
            return _avro_unicode(name, "" if field else ".")
    return name


def _avro(name: str, also: str) -> str:
    fitted = re.sub(rf"[^A-Za-z0-9_{re.escape(also)}]", "_", name)
    return "_" + fitted if fitted[:1].isdigit() else fitted


def _avro_unicode(name: str, also: str) -> str:
    parts = []
    for place, char in enumerate(name):
        fits = char.isascii() and (char.isalpha() or (char.isdigit() and place > 0) or char in also)
        units = char.encode("utf-16-be")
        escaped = "".join(f"_u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
        parts.append(char if fits else escaped)
    return "".join(parts)


def key_columns(options: DebeziumOptions, table: str, columns: list[str], key: tuple[str, ...]) -> tuple[str, ...]:
    """The event key's columns: message.key.columns when an entry matches the table, else the table's key."""
    for entry in filter(None, (part.strip() for part in options.message_key_columns.split(";"))):
        pattern, colon, listed = entry.rpartition(":")
        if not colon:
            raise Usage(f"message.key.columns: {entry!r} has no colon", "write schema.table:column,column")
        if not re.fullmatch(pattern.strip(), table, re.IGNORECASE):
            continue
        names = tuple(name.strip() for name in listed.split(","))
        unknown = [name for name in names if name not in columns]
        if unknown:
            raise Usage(f"message.key.columns: {table} has no column {unknown[0]!r}", "it has: " + ", ".join(columns))
        return names
    return key
