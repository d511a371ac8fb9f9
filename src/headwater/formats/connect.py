"""Kafka Connect schemas as plain data, and the JSON that Connect's JsonConverter writes for them.

Knows no database and no values: a source says which schema a column has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace


def quote(text: str) -> str:
    """A JSON string as Jackson writes it: non-ASCII as it is, control characters in upper-case hex."""
    quoted = json.dumps(text, ensure_ascii=False)
    if "\\u00" not in quoted:
        return quoted
    upper = {json.dumps(chr(n)): f'"\\u{n:04X}"' for n in range(32) if len(json.dumps(chr(n))) > 4}
    parts = [upper.get(json.dumps(char), json.dumps(char, ensure_ascii=False))[1:-1] for char in text]
    return '"' + "".join(parts) + '"'


@dataclass(frozen=True)
class Schema:
    """One node of a Connect schema. `default` is the default's JSON text, as it stands in a payload."""

    type: str
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    default: str | None = None
    fields: tuple[Field, ...] = ()
    items: Schema | None = None
    keys: Schema | None = None
    values: Schema | None = None

    def as_optional(self, optional: bool = True) -> Schema:
        return replace(self, optional=optional)

    def json(self, field: str | None = None) -> str:
        """The node in JsonConverter's attribute order; `field` is its name inside a struct."""
        parts = [f'"type":{quote(self.type)}']
        if self.items is not None:
            parts.append(f'"items":{self.items.json()}')
        if self.keys is not None and self.values is not None:
            parts.append(f'"keys":{self.keys.json()},"values":{self.values.json()}')
        if self.type == "struct":
            parts.append(f'"fields":[{",".join(part.schema.json(part.name) for part in self.fields)}]')
        parts.append(f'"optional":{"true" if self.optional else "false"}')
        if self.name is not None:
            parts.append(f'"name":{quote(self.name)}')
        if self.version is not None:
            parts.append(f'"version":{self.version}')
        if self.doc is not None:
            parts.append(f'"doc":{quote(self.doc)}')
        if self.parameters:
            pairs = ",".join(f"{quote(key)}:{quote(value)}" for key, value in self.parameters)
            parts.append(f'"parameters":{{{pairs}}}')
        if self.default is not None:
            parts.append(f'"default":{self.default}')
        if field is not None:
            parts.append(f'"field":{quote(field)}')
        return "{" + ",".join(parts) + "}"


@dataclass(frozen=True)
class Field:
    """A member of a struct."""

    name: str
    schema: Schema


def struct(
    name: str, fields: Iterable[tuple[str, Schema]], *, optional: bool = False, version: int | None = None
) -> Schema:
    """A struct schema from (field name, schema) pairs."""
    members = tuple(Field(field, schema) for field, schema in fields)
    return Schema("struct", optional=optional, name=name, version=version, fields=members)


STRING = Schema("string")
INT32 = Schema("int32")
INT64 = Schema("int64")
BOOLEAN = Schema("boolean")
FLOAT64 = Schema("double")
BYTES = Schema("bytes")
