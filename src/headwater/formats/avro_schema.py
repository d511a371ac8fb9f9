"""Connect schemas as Avro schemas, the way Confluent's AvroConverter maps them.

(`AvroData` with its defaults: connect.meta.data on, enhanced support and name scrubbing off.)
"""

from __future__ import annotations

import base64
import json
import re
from functools import lru_cache
from typing import Any

from headwater.formats.connect import Schema

_PLAIN = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}
_CONNECT = "org.apache.kafka.connect.data."
_LOGICAL = {f"{_CONNECT}Date": "date", f"{_CONNECT}Time": "time-millis", f"{_CONNECT}Timestamp": "timestamp-millis"}
_DECIMAL = f"{_CONNECT}Decimal"
_MAP_ENTRY = "io.confluent.connect.avro.MapEntry"
# What the converter writes when the precision is not known.
_UNKNOWN_PRECISION = 64


@lru_cache(maxsize=4096)
def avro_text(schema: Schema) -> str:
    """The Avro schema as JSON text."""
    return json.dumps(avro_schema(schema), ensure_ascii=False, separators=(",", ":"))


def avro_schema(schema: Schema) -> Any:
    """The Avro schema as plain data."""
    return _Mapping().of(schema)


class _Mapping:
    """One schema's way; a record is spelled out where it comes first and named where it comes again.

    Namespaces are left out where the record around has the same, as Avro's own library writes them: a registry may
    compare texts when a reader asks for the version of what it read (Apicurio does)."""

    def __init__(self) -> None:
        self._spelled: set[str] = set()
        self._namespace = ""
        self._unnamed = 0

    def of(self, schema: Schema) -> Any:
        found = self._base(schema)
        if not schema.optional:
            return found
        return [found, "null"] if schema.default is not None else ["null", found]

    def _base(self, schema: Schema) -> Any:
        match schema.type:
            case "struct":
                return self._record(schema)
            case "array":
                assert schema.items is not None  # noqa: S101 - an array has items
                found: dict[str, Any] = {"type": "array", "items": self.of(schema.items)}
            case "map":
                found = self._map(schema)
            case _:
                found = {"type": _PLAIN[schema.type]}
        return _without_wrapping({**found, **_facts(schema)})

    def _record(self, schema: Schema) -> Any:
        name = _fitting(schema.name or self._connect_default())
        around = self._namespace
        namespace, _, short = name.rpartition(".")
        if name in self._spelled:
            return short if namespace == around else name
        self._spelled.add(name)
        found: dict[str, Any] = {"type": "record", "name": short}
        if namespace != around:
            found["namespace"] = namespace
        if schema.doc is not None:
            found["doc"] = schema.doc
        self._namespace = namespace
        found["fields"] = [self._field(part.name, part.schema) for part in schema.fields]
        self._namespace = around
        if schema.version is not None:
            found["connect.version"] = schema.version
        if schema.parameters:
            found["connect.parameters"] = dict(schema.parameters)
        if schema.name is not None:
            found["connect.name"] = schema.name
        return found

    def _field(self, name: str, schema: Schema) -> dict[str, Any]:
        found: dict[str, Any] = {"name": name, "type": self.of(schema)}
        if schema.default is not None:
            found["default"] = default_value(schema)
        elif schema.optional:
            found["default"] = None
        return found

    def _map(self, schema: Schema) -> dict[str, Any]:
        assert schema.keys is not None  # noqa: S101 - a map has both
        assert schema.values is not None  # noqa: S101
        if schema.keys.type == "string" and not schema.keys.optional:
            return {"type": "map", "values": self.of(schema.values)}
        if _MAP_ENTRY in self._spelled:
            return {"type": "array", "items": _MAP_ENTRY}
        self._spelled.add(_MAP_ENTRY)
        fields = [{"name": "key", "type": self.of(schema.keys)}, {"name": "value", "type": self.of(schema.values)}]
        namespace, _, short = _MAP_ENTRY.rpartition(".")
        entry = {"type": "record", "name": short, "namespace": namespace, "fields": fields}
        return {"type": "array", "items": entry}

    def _connect_default(self) -> str:
        self._unnamed += 1
        return "io.confluent.connect.avro.ConnectDefault" + ("" if self._unnamed == 1 else str(self._unnamed))


def _fitting(name: str) -> str:
    """Every part of a full name begins with a letter or `_`: a table may be called `a..b` or `2024.orders`."""
    return ".".join(part if re.match(r"[A-Za-z_]", part) else f"_{part}" for part in name.split("."))


def _facts(schema: Schema) -> dict[str, Any]:
    """What Connect knows and Avro does not, as properties of the type."""
    found: dict[str, Any] = {}
    if schema.type in ("int8", "int16"):
        found["connect.type"] = schema.type
    parameters = dict(schema.parameters)
    if schema.name == _DECIMAL:
        found["scale"] = int(parameters["scale"])
        found["precision"] = int(parameters.get("connect.decimal.precision", _UNKNOWN_PRECISION))
    if schema.doc is not None:
        found["connect.doc"] = schema.doc
    if schema.version is not None:
        found["connect.version"] = schema.version
    if parameters:
        found["connect.parameters"] = parameters
    if schema.default is not None:
        found["connect.default"] = default_value(schema)
    if schema.name is not None:
        found["connect.name"] = schema.name
    if schema.name == _DECIMAL:
        found["logicalType"] = "decimal"
    elif schema.name in _LOGICAL:
        found["logicalType"] = _LOGICAL[schema.name]
    return found


def _without_wrapping(found: dict[str, Any]) -> Any:
    """`{"type": "long"}` is written `"long"`."""
    return found["type"] if set(found) == {"type"} else found


def default_value(schema: Schema) -> Any:
    """A default in Avro's JSON: bytes are a string with one character a byte."""
    assert schema.default is not None  # noqa: S101 - only asked when there is one
    value = json.loads(schema.default)
    return base64.b64decode(value).decode("latin-1") if schema.type == "bytes" and value is not None else value
