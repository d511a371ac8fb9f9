"""Golden recordings: what a run gave, as a small file, and read back exactly as it was.

A value with its schema is ten kilobytes of which the schema is nine, so schemas are stored once per file.
Texts are kept byte for byte: joining schema and payload again gives the converter's own text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.testing.debezium import DebeziumEvent

_SCHEMA = '{"schema":'
_PAYLOAD = ',"payload":'


@dataclass(frozen=True)
class Recording:
    """Events of one run, with what produced them."""

    case: str
    properties: Mapping[str, str]
    versions: Mapping[str, str]
    events: tuple[DebeziumEvent, ...]


def save(recording: Recording, path: Path) -> None:
    schemas: dict[str, str] = {}
    written = {
        "case": recording.case,
        "properties": dict(recording.properties),
        "versions": dict(recording.versions),
        "events": [_pack_event(event, schemas) for event in recording.events],
        "schemas": {f"s{number}": schema for schema, number in _numbered(schemas).items()},
    }
    # One event or schema per line, so that a change of one shows as one line.
    path.write_text(_lines(written), encoding="utf-8")


def load(path: Path) -> Recording:
    read = json.loads(path.read_text(encoding="utf-8"))
    schemas = read["schemas"]
    return Recording(
        case=read["case"],
        properties=read["properties"],
        versions=read["versions"],
        events=tuple(_unpack_event(packed, schemas) for packed in read["events"]),
    )


def split_schema(text: str) -> tuple[str | None, str]:
    """A converter's text as (schema text, payload text); the schema is None when it was not sent along."""
    if not text.startswith(_SCHEMA):
        return None, text
    _, end = json.JSONDecoder().raw_decode(text, len(_SCHEMA))
    if not text.startswith(_PAYLOAD, end):
        return None, text
    return text[len(_SCHEMA) : end], text[end + len(_PAYLOAD) : -1]


def _numbered(schemas: Mapping[str, str]) -> dict[str, int]:
    return {schema: number for number, schema in enumerate(schemas)}


def _pack(text: str | None, schemas: dict[str, str]) -> Any:
    if text is None:
        return None
    schema, payload = split_schema(text)
    if schema is None:
        return {"payload": payload}
    schemas.setdefault(schema, schema)
    return {"schema": f"s{list(schemas).index(schema)}", "payload": payload}


def _unpack(packed: Mapping[str, str] | None, schemas: Mapping[str, str]) -> str | None:
    if packed is None:
        return None
    if "schema" not in packed:
        return packed["payload"]
    return f"{_SCHEMA}{schemas[packed['schema']]}{_PAYLOAD}{packed['payload']}}}"


def _pack_event(event: DebeziumEvent, schemas: dict[str, str]) -> dict[str, Any]:
    return {
        "topic": event.topic,
        "key": _pack(event.key, schemas),
        "value": _pack(event.value, schemas),
        "headers": [[name, _pack(text, schemas)] for name, text in event.headers],
    }


def _unpack_event(packed: Mapping[str, Any], schemas: Mapping[str, str]) -> DebeziumEvent:
    return DebeziumEvent(
        topic=packed["topic"],
        key=_unpack(packed["key"], schemas),
        value=_unpack(packed["value"], schemas),
        headers=tuple((name, _unpack(text, schemas)) for name, text in packed["headers"]),
    )


def _lines(written: Mapping[str, Any]) -> str:
    def dump(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    def rows(values: Sequence[str]) -> str:
        return ",\n    ".join(values)

    events = rows([dump(event) for event in written["events"]])
    schemas = rows([f"{dump(name)}: {dump(schema)}" for name, schema in written["schemas"].items()])
    head = ",\n  ".join(f"{dump(name)}: {dump(written[name])}" for name in ("case", "properties", "versions"))
    return f'{{\n  {head},\n  "events": [\n    {events}\n  ],\n  "schemas": {{\n    {schemas}\n  }}\n}}\n'
