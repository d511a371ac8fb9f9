"""Tables as their events describe them: columns from the schema of a row, the key from the record's key."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from headwater.errors import Stop, Usage
from headwater.event import Column, TableSchema
from headwater.formats.connect import Schema
from headwater.sources.kafka.connect import schema_from_json, schema_to_json
from headwater.sources.kafka.logical import DECIMAL, lake_type
from headwater.sources.kafka.options import KafkaOptions

# What Debezium writes beside the changes of tables, by the ends of its schemas' names.
_BESIDE = re.compile(
    r".*\.(Heartbeat|TransactionMetadataValue|TransactionMetadataKey|SchemaChangeValue|SchemaChangeKey|MessageValue"
    r"|MessageKey)"
)
# The same, where no schema comes along: names of fields that say it.
_BESIDE_FIELDS = (
    {"status", "id", "event_count"},
    {"databaseName", "tableChanges"},
    {"databaseName", "ddl"},
    {"message"},
)
_UNFIT = re.compile(r"[^A-Za-z0-9._-]")
_DECLARED: dict[str, dict[str, Any]] = {
    **{kind: {"type": kind} for kind in ("int16", "int32", "int64", "float", "double", "boolean", "string", "bytes")},
    "date": {"type": "int32", "name": "io.debezium.time.Date"},
    "time": {"type": "int64", "name": "io.debezium.time.MicroTime"},
    "timestamp": {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    "timestamptz": {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
}


class Foreign(Stop):
    """A record that is no event of Debezium's."""


def row_of(value: Schema) -> Schema | None:
    """The schema of a row in an event's; None for what is no table's. Raises Foreign."""
    if _BESIDE.fullmatch(value.name or ""):
        return None
    fields = {part.name: part.schema for part in value.fields}
    after = fields.get("after")
    if value.type == "struct" and after is not None and "op" in fields:
        if after.type != "struct":
            raise Foreign(
                "its `after` is no row with columns",
                "Events of databases without columns (MongoDB) cannot be read yet",
            )
        return after
    raise foreign(list(fields))


def is_event(value: Mapping[str, Any]) -> bool:
    """Whether a value without a schema is a table's event; False for what Debezium writes beside. Raises Foreign."""
    if "op" in value and ("after" in value or "before" in value):
        return bool(value["op"] != "m")
    if set(value) == {"ts_ms"} or any(names <= set(value) for names in _BESIDE_FIELDS):
        return False
    raise foreign(list(value))


def foreign(fields: Sequence[str]) -> Foreign:
    """The error for a record without the envelope, by the fields it has instead."""
    if fields:
        return Foreign(
            "it has no before, after and op: it looks like a row that ExtractNewRecordState flattened",
            "Remove that transform (`unwrap`) from the connector: the envelope is needed to tell inserts, updates and"
            " deletes apart, and headwater's sinks write rows by themselves",
            "Or leave the topic out: source.topics",
        )
    return Foreign("it is no JSON object and no Avro record", "Leave the topic out: source.topics")


def table_name(topic: str, source: Mapping[str, Any]) -> tuple[str, str]:
    """(schema, table) of a topic's records. What the event's `source` says, when the topic has its name from there;
    the topic's own last parts when it was routed."""
    prefix, table = str(source.get("name") or ""), str(source.get("table") or source.get("collection") or "")
    schema = str(source.get("schema") or source.get("db") or "")
    for parts in ((prefix, schema, table), (prefix, str(source.get("db") or ""), schema, table)):
        if table and _UNFIT.sub("_", ".".join(parts)) == topic:
            return schema, table
    rest = topic.removeprefix(f"{prefix}.") if prefix else topic
    own, _, name = rest.rpartition(".")
    return own, name


def described(
    topic: str, name: tuple[str, str], row: Schema, key: Sequence[str], form: Mapping[str, Any], options: KafkaOptions
) -> TableSchema:
    """The table whose rows have this schema. `form` says how its records are written."""
    table = ".".join(filter(None, name))
    columns = tuple(_column(part.name, part.schema, options.cast.get(f"{table}.{part.name}")) for part in row.fields)
    return made_table(topic, name, columns, key, form, options)


def made_table(
    topic: str,
    name: tuple[str, str],
    columns: tuple[Column, ...],
    key: Sequence[str],
    form: Mapping[str, Any],
    options: KafkaOptions,
) -> TableSchema:
    """A table of these columns. A key that is not among them (a router adds fields) is none."""
    known = {column.name for column in columns}
    own = tuple(key) if known.issuperset(key) else ()
    detail = {"topic": topic, "placeholder": options.unavailable_value_placeholder, **form}
    return TableSchema(name[0], name[1], columns, key=own, identity=own, detail=detail)


def _column(name: str, schema: Schema, cast: str | None) -> Column:
    if cast not in (None, "string"):
        raise Usage(
            f"source.cast: {name} cannot be cast to {cast!r}", "The events have a schema: only string is possible"
        )
    detail: dict[str, Any] = {"connect": schema_to_json(schema)}
    if cast:
        return Column(name, spelled(schema), pa.string(), schema.optional, detail={**detail, "cast": cast})
    return Column(name, spelled(schema), lake_type(schema), schema.optional, detail=detail)


def declared(name: str, kind: str) -> Schema:
    """The schema of a column that the user says the type of (`source.cast`)."""
    if found := re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", kind):
        facts = {"scale": found[2], "connect.decimal.precision": found[1]}
        return schema_from_json({"type": "bytes", "name": DECIMAL, "parameters": facts, "optional": True})
    if kind not in _DECLARED:
        raise Usage(f"source.cast: {name}: unknown type {kind!r}", "one of: decimal(p,s), " + ", ".join(_DECLARED))
    return schema_from_json({**_DECLARED[kind], "optional": True})


def spelled(schema: Schema) -> str:
    """A schema in a few words, for people and for errors."""
    if schema.name == DECIMAL:
        facts = dict(schema.parameters)
        return f"Decimal({facts.get('connect.decimal.precision', '?')},{facts.get('scale', '?')})"
    return schema.name or (f"{schema.items.type}[]" if schema.items is not None else schema.type)
