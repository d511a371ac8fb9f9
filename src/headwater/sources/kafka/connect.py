"""Connect schemas as records carry them: beside a JSON payload, or as an Avro schema from a registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.errors import Stop
from headwater.formats.connect import Field, Schema

_PLAIN = {"int": "int32", "long": "int64", "float": "float", "double": "double", "boolean": "boolean"}
_PLAIN |= {"string": "string", "bytes": "bytes"}
_CONNECT = "org.apache.kafka.connect.data."
# What other producers than Connect say of the same types.
_LOGICAL = {
    "decimal": f"{_CONNECT}Decimal",
    "date": f"{_CONNECT}Date",
    "time-millis": f"{_CONNECT}Time",
    "timestamp-millis": f"{_CONNECT}Timestamp",
    "uuid": "io.debezium.data.Uuid",
}


def schema_from_json(node: Mapping[str, Any]) -> Schema:
    """What JsonConverter writes beside a payload."""
    return Schema(
        type=str(node["type"]),
        optional=bool(node.get("optional", False)),
        name=node.get("name"),
        parameters=tuple((str(name), str(value)) for name, value in (node.get("parameters") or {}).items()),
        fields=tuple(Field(str(part["field"]), schema_from_json(part)) for part in node.get("fields") or ()),
        items=schema_from_json(node["items"]) if "items" in node else None,
        keys=schema_from_json(node["keys"]) if "keys" in node else None,
        values=schema_from_json(node["values"]) if "values" in node else None,
    )


def schema_to_json(schema: Schema) -> dict[str, Any]:
    """The same again, as far as values depend on it."""
    found: dict[str, Any] = {"type": schema.type}
    if schema.optional:
        found["optional"] = True
    if schema.name is not None:
        found["name"] = schema.name
    if schema.parameters:
        found["parameters"] = dict(schema.parameters)
    if schema.fields:
        found["fields"] = [{**schema_to_json(part.schema), "field": part.name} for part in schema.fields]
    for name in ("items", "keys", "values"):
        if (inner := getattr(schema, name)) is not None:
            found[name] = schema_to_json(inner)
    return found


def schema_from_avro(node: Any) -> Schema:
    """The Connect schema that AvroConverter made this Avro schema of."""
    return _Avro().of(node)


class _Avro:
    """One schema's way; a record that was spelled out is named afterwards."""

    def __init__(self) -> None:
        self._spelled: dict[str, Schema] = {}

    def of(self, node: Any, namespace: str = "") -> Schema:
        match node:
            case list():
                return self._union(node, namespace)
            case str():
                return self._named(node, namespace)
            case {"type": "record"}:
                return self._record(node, namespace)
            case {"type": "array"}:
                return self._with_facts(node, Schema("array", items=self.of(node["items"], namespace)))
            case {"type": "map"}:
                values = self.of(node["values"], namespace)
                return self._with_facts(node, Schema("map", keys=Schema("string"), values=values))
            case {"type": "enum"}:
                found = self._with_facts(node, Schema("string"))
                self._spelled[_full_name(node, namespace)] = found
                return found
            case {"type": "fixed"}:
                found = self._with_facts(node, Schema("bytes"))
                self._spelled[_full_name(node, namespace)] = found
                return found
            case {"type": inner}:
                return self._with_facts(node, self.of(inner, namespace))
        raise Stop(f"an Avro schema with a type that Connect does not know: {str(node)[:60]}")

    def _union(self, branches: list[Any], namespace: str) -> Schema:
        values = [branch for branch in branches if branch != "null"]
        if len(values) != 1:
            raise Stop("an Avro schema with a union of several types: AvroConverter writes none for Debezium's events")
        return self.of(values[0], namespace).as_optional(len(values) < len(branches))

    def _named(self, name: str, namespace: str) -> Schema:
        if name in _PLAIN:
            return Schema(_PLAIN[name])
        found = self._spelled.get(name) or self._spelled.get(f"{namespace}.{name}")
        if found is None:
            raise Stop(f"an Avro schema that names {name!r} and does not say what that is")
        return found.as_optional(False)

    def _record(self, node: Mapping[str, Any], namespace: str) -> Schema:
        name = _full_name(node, namespace)
        own = name.rpartition(".")[0]
        fields = tuple(Field(str(part["name"]), self.of(part["type"], own)) for part in node["fields"])
        found = Schema("struct", name=node.get("connect.name", name), fields=fields)
        self._spelled[name] = found
        return found

    def _with_facts(self, node: Mapping[str, Any], schema: Schema) -> Schema:
        parameters = {str(k): str(v) for k, v in (node.get("connect.parameters") or {}).items()}
        name = node.get("connect.name") or _LOGICAL.get(str(node.get("logicalType")))
        if node.get("logicalType") == "decimal":
            parameters.setdefault("scale", str(node.get("scale", 0)))
            # AvroConverter writes 64 for "not known".
            if 0 < int(node.get("precision", 64)) < 64:
                parameters.setdefault("connect.decimal.precision", str(node["precision"]))
        return Schema(
            type=str(node.get("connect.type", schema.type)),
            name=name,
            parameters=tuple(parameters.items()),
            items=schema.items,
            keys=schema.keys,
            values=schema.values,
            fields=schema.fields,
        )


def _full_name(node: Mapping[str, Any], namespace: str) -> str:
    name = str(node["name"])
    if "." in name:
        return name
    own = node.get("namespace", namespace)
    return f"{own}.{name}" if own else name


def without_logical_types(node: Any) -> Any:
    """An Avro schema that gives numbers, texts and bytes as they are: what they mean is Connect's to say."""
    match node:
        case dict():
            return {
                key: without_logical_types(value)
                for key, value in node.items()
                if key not in ("logicalType", "default")
            }
        case list():
            return [without_logical_types(part) for part in node]
    return node
