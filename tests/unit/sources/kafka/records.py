"""Records through the parts of the source that need no broker: builder, journal's form, decoder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headwater.event import ChangeBatch, Chunk, TableSchema
from headwater.journal import Journal
from headwater.options import parse_options
from headwater.sources.kafka.decode import decode
from headwater.sources.kafka.frames import ChunkBuilder
from headwater.sources.kafka.known import KnownTables
from headwater.sources.kafka.options import KafkaOptions
from headwater.sources.kafka.position import Progress, at
from headwater.sources.kafka.shapes import Shapes
from headwater.sources.kafka.versions import Versions

TOPIC = "srv.public.orders"
SOURCE = {"version": "3", "connector": "postgresql", "name": "srv", "db": "shop", "schema": "public", "table": "orders"}
Record = tuple[str, bytes | None, bytes | None]


class Topics:
    """Records of some topics, gathered into chunks and decoded as from the journal."""

    def __init__(self, schemas_by_id: Any = None, folder: Path | None = None, **options: Any) -> None:
        given = {"brokers": "nowhere", "topic.prefix": "srv", **options}
        self.options = parse_options(KafkaOptions, given, where="source")
        self.schemas: dict[str, TableSchema] = {}
        self.known = KnownTables(Journal(folder).source if folder else None)
        shapes = Shapes(self.options, self.known, lambda _schema, _table: True)
        if schemas_by_id is not None:
            shapes.__dict__["registry"] = schemas_by_id
        progress = Progress()
        failure = self.options.processing_failure
        self.builder = ChunkBuilder(at(progress), progress, shapes, Versions(self.known), failure, self._remember)

    def _remember(self, table: TableSchema) -> None:
        # As from the journal: a schema is its JSON.
        self.schemas[table.id] = TableSchema.from_json(table.to_json())
        self.known.remember(table)

    def put(self, records: Iterable[Record], partition: int = 0) -> None:
        for topic, key, value in records:
            offsets = self.builder.progress.offsets
            while len(offsets.get(topic, [])) <= partition:
                self.builder.begin(topic, "id", len(offsets.get(topic, [])), 0)
            self.builder.add(topic, partition, offsets[topic][partition], key, value, 1_700_000_000_000)

    def chunks(self) -> list[Chunk]:
        found = []
        while (chunk := self.builder.take()) is not None:
            found.append(chunk)
        self.known.save()
        return found

    def batches(self, **how: Any) -> list[ChangeBatch]:
        return [batch for chunk in self.chunks() for batch in decode(chunk, self.schemas, **how)]

    def rows(self) -> list[dict[str, Any]]:
        return [row for batch in self.batches() for row in batch.records.to_pylist()]


def event(op: str = "c", before: Any = None, after: Any = None, **source: Any) -> bytes:
    """A value without a schema."""
    body = {"before": before, "after": after, "source": {**SOURCE, **source}, "op": op, "ts_ms": 1}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def plain(*rows: dict[str, Any]) -> list[Record]:
    """Inserts without a schema, keyed by id."""
    return [(TOPIC, json.dumps({"id": row["id"]}).encode(), event(after=row)) for row in rows]


def with_schema(columns: dict[str, dict[str, Any]], *rows: dict[str, Any], op: str = "c") -> list[Record]:
    """The same with the schema beside."""
    fields = [{"field": name, "optional": name != "id", **node} for name, node in columns.items()]
    row = {"type": "struct", "optional": True, "name": "srv.public.orders.Value", "fields": fields}
    some = {"type": "struct", "optional": False, "name": "s", "fields": []}
    schema = {
        "type": "struct",
        "name": "srv.public.orders.Envelope",
        "fields": [
            {**row, "field": "before"},
            {**row, "field": "after"},
            {**some, "field": "source"},
            {"type": "string", "field": "op"},
        ],
    }
    key = {"type": "struct", "fields": [{**columns["id"], "field": "id"}]}
    return [
        (
            TOPIC,
            _both(key, json.dumps({"id": each["id"]}).encode()),
            _both(schema, event(op, **{"before" if op == "d" else "after": each})),
        )
        for each in rows
    ]


def _both(schema: Any, payload: bytes) -> bytes:
    return b'{"schema":' + json.dumps(schema, separators=(",", ":")).encode() + b',"payload":' + payload + b"}"
