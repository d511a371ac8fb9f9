"""What the records of one topic look like: JSON with its schema, JSON without, or Avro; and the table that makes.

Looked at once per record, so what was seen before is recognised by its first bytes: a schema stands in front of every
payload, 9 KB of it, and is the same from record to record.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headwater.errors import Usage
from headwater.event import TableSchema
from headwater.formats.connect import Schema
from headwater.sources.kafka.avro import HEADER_BYTES, Registry, read_records
from headwater.sources.kafka.connect import schema_from_avro, schema_from_json, without_logical_types
from headwater.sources.kafka.inference import Inference
from headwater.sources.kafka.options import KafkaOptions
from headwater.sources.kafka.relation import described, foreign, is_event, row_of, table_name

_SCHEMA, _PAYLOAD = b'{"schema":', ',"payload":'

# The table of a topic that another run has known.
Known = Callable[[str], TableSchema | None]


@dataclass(frozen=True)
class Written:
    """One side of a record: the bytes that tell its form, where its payload begins and what stands behind it."""

    mark: bytes
    begin: int = 0
    end: int = 0
    # The schema that stands in front, or the id of one.
    schema: Any = None
    avro: int | None = None


def written(data: bytes) -> Written:
    """The form of a key or value."""
    if data[:1] == b"\0" and len(data) >= HEADER_BYTES:
        return Written(data[:HEADER_BYTES], HEADER_BYTES, avro=int.from_bytes(data[1:HEADER_BYTES], "big"))
    if data.startswith(_SCHEMA):
        text = data.decode()
        schema, end = json.JSONDecoder().raw_decode(text, len(_SCHEMA))
        if text.startswith(_PAYLOAD, end) and text.endswith("}"):
            mark = text[: end + len(_PAYLOAD)].encode()
            return Written(mark, len(mark), 1, schema=schema)
    return Written(b"")


@dataclass(frozen=True)
class Shape:
    """How to take records apart that begin with these bytes, and the table they are of."""

    value_mark: bytes
    # None: described by a record without a key.
    key_mark: bytes | None
    begin: int
    end: int
    key_begin: int
    key_end: int
    # None: what Debezium writes beside its tables; or the columns are still being learned.
    table: TableSchema | None
    inference: Inference | None = None

    def fits(self, key: bytes | None, value: bytes) -> bool:
        """Whether a record is one of these."""
        if not self.value_mark and value.startswith((_SCHEMA, b"\0")):
            return False
        if not value.startswith(self.value_mark):
            return False
        return key is None or (self.key_mark is not None and key.startswith(self.key_mark))


class Shapes:
    """The shapes of all topics, and who describes new ones."""

    def __init__(self, options: KafkaOptions, known: Known, captured: Callable[[str, str], bool]) -> None:
        self._options = options
        self._known = known
        self._captured = captured
        # The last one first.
        self._shapes: dict[str, list[Shape]] = {}
        self._owners: dict[str, str] = {}

    @cached_property
    def registry(self) -> Registry:
        if not self._options.registry:
            raise Usage(
                "source kafka: the records are Avro with a schema's id, and no registry is named",
                "registry: http://host:8081",
            )
        return Registry(self._options.registry_settings())

    def find(self, topic: str, key: bytes | None, value: bytes) -> Shape:
        """The record's shape. Raises Foreign for what is no event of Debezium's."""
        shapes = self._shapes.setdefault(topic, [])
        for place, shape in enumerate(shapes):
            if shape.fits(key, value):
                if place:
                    shapes.insert(0, shapes.pop(place))
                return shape
        shapes.insert(0, self._describe(topic, key, value))
        return shapes[0]

    def _describe(self, topic: str, key: bytes | None, value: bytes) -> Shape:
        try:
            own = written(value)
            other = Written(b"") if key is None else written(key)
            table, inference = self._table(topic, own, value, self._key(topic, other, key))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # Neither JSON nor Avro, or without what every schema has.
            raise foreign([]) from error
        found = inference.table if inference is not None else table
        if found is not None and (owner := self._owners.setdefault(found.table, topic)) != topic:
            raise Usage(
                f"the topics {owner} and {topic} are both of a table {found.table}",
                "Read them in two pipelines: source.topics; their rows would go into one table of the lake",
            )
        mark = None if key is None else other.mark
        return Shape(own.mark, mark, own.begin, own.end, other.begin, other.end, table, inference)

    def _table(
        self, topic: str, own: Written, value: bytes, key: tuple[str, ...]
    ) -> tuple[TableSchema | None, Inference | None]:
        payload = value[own.begin : len(value) - own.end]
        if own.avro is not None:
            avro = self.registry.schema(own.avro)
            writer = without_logical_types(avro)
            (event,) = read_records(writer, [payload])
            form = {"form": "avro", "writer": writer}
            return self._with_schema(topic, schema_from_avro(avro), event, key, form), None
        event = json.loads(payload)
        if not isinstance(event, dict):
            raise foreign([])
        if own.schema is not None:
            return self._with_schema(topic, schema_from_json(own.schema), event, key, {"form": "json"}), None
        if not is_event(event):
            return None, None
        name = table_name(topic, event.get("source") or {})
        if not self._captured(*name):
            return None, None
        return None, Inference(topic, name, key, self._options, self._known(topic))

    def _with_schema(
        self, topic: str, schema: Schema, event: dict[str, Any], key: tuple[str, ...], form: dict[str, Any]
    ) -> TableSchema | None:
        row = row_of(schema)
        if row is None:
            return None
        name = table_name(topic, event.get("source") or {})
        return described(topic, name, row, key, form, self._options) if self._captured(*name) else None

    def _key(self, topic: str, own: Written, key: bytes | None) -> tuple[str, ...]:
        """The names of the key's fields, if it has any; of a record without a key (a TRUNCATE), those that the topic
        had."""
        if key is None:
            known = self._known(topic)
            return known.key if known is not None else ()
        if own.avro is not None:
            schema = schema_from_avro(self.registry.schema(own.avro))
        elif own.schema is not None:
            schema = schema_from_json(own.schema)
        else:
            with suppress(ValueError):
                fields = json.loads(key)
                return tuple(fields) if isinstance(fields, dict) else ()
            return ()
        return tuple(part.name for part in schema.fields)
