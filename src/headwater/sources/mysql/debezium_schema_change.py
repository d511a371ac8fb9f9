"""Changes of definitions as Debezium's schema-change events (topic: the prefix alone)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headwater.event import Column, TableSchema
from headwater.formats import names
from headwater.formats.connect import BOOLEAN, INT32, INT64, STRING, Schema, struct
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.debezium_records import Record, made_record
from headwater.sources.mysql.schema_change import TableChange
from headwater.sources.mysql.types import BINARIES, GEOMETRIES, TEXTS

_SCHEMA = "io.debezium.connector.schema"
_TEXTS = Schema("array", optional=True, items=STRING)
_COLUMN = struct(
    f"{_SCHEMA}.Column",
    [
        ("name", STRING),
        ("jdbcType", INT32),
        ("nativeType", INT32.as_optional()),
        ("typeName", STRING),
        ("typeExpression", STRING.as_optional()),
        ("charsetName", STRING.as_optional()),
        ("length", INT32.as_optional()),
        ("scale", INT32.as_optional()),
        ("position", INT32),
        ("optional", BOOLEAN.as_optional()),
        ("autoIncremented", BOOLEAN.as_optional()),
        ("generated", BOOLEAN.as_optional()),
        ("comment", STRING.as_optional()),
        ("defaultValueExpression", STRING.as_optional()),
        ("enumValues", _TEXTS),
    ],
    version=1,
)
_TABLE = struct(
    f"{_SCHEMA}.Table",
    [
        ("defaultCharsetName", STRING.as_optional()),
        ("primaryKeyColumnNames", _TEXTS),
        ("columns", Schema("array", items=_COLUMN)),
        ("comment", STRING.as_optional()),
    ],
    optional=True,
    version=1,
)
_CHANGE = struct(f"{_SCHEMA}.Change", [("type", STRING), ("id", STRING), ("table", _TABLE)], version=1)

# Numbers of java.sql.Types.
_JDBC = {
    **dict.fromkeys(("tinyint", "smallint"), 5),
    **dict.fromkeys(("mediumint", "int", "year"), 4),
    "bigint": -5,
    "decimal": 3,
    "float": 6,
    "double": 8,
    "bit": -7,
    "date": 91,
    "time": 92,
    "datetime": 93,
    "timestamp": 2014,
    "char": 1,
    "enum": 1,
    "set": 1,
    "binary": -2,
    "varbinary": -3,
    **dict.fromkeys(TEXTS - {"char"}, 12),
    **dict.fromkeys(BINARIES - {"binary", "varbinary"}, 2004),
    **dict.fromkeys(GEOMETRIES | {"json", "vector"}, 1111),
}


def schema_change_record(
    message: Mapping[str, str],
    changes: list[TableChange],
    options: DebeziumOptions,
    source: str,
    source_schema: Schema,
    now: int,
) -> Record:
    """The record of one change; `source` is its block as JSON, `now` is in milliseconds since the epoch."""
    connector = str(source_schema.name).rpartition(".")[0]
    key_schema = struct(f"{connector}.SchemaChangeKey", [("databaseName", STRING)], version=1)
    value_schema = struct(
        f"{connector}.SchemaChangeValue",
        [
            ("source", source_schema),
            ("ts_ms", INT64),
            ("databaseName", STRING.as_optional()),
            ("schemaName", STRING.as_optional()),
            ("ddl", STRING.as_optional()),
            ("tableChanges", Schema("array", items=_CHANGE)),
        ],
        version=1,
    )
    tables = [
        {
            "type": change.type,
            "id": _quoted(change.name),
            "table": None if change.table is None else _table(change.table),
        }
        for change in changes
    ]
    # The database of the tables, which need not be the one that was in use.
    database = changes[0].name[0] if changes else message["database"]
    rest = {
        "ts_ms": now,
        "databaseName": database,
        "schemaName": None,
        "ddl": message["ddl"],
        "tableChanges": tables,
    }
    value = f'{{"source":{source},{_json(rest)[1:]}'
    key = _json({"databaseName": database})
    topic = names.topic_name(options)
    return made_record(options, topic, (key_schema, key), (value_schema, value))


def _json(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def _quoted(name: tuple[str, str]) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in name)


def _table(table: TableSchema) -> dict[str, Any]:
    return {
        "defaultCharsetName": table.detail.get("charset") or None,
        "primaryKeyColumnNames": list(table.key),
        "columns": [_column(column, place) for place, column in enumerate(table.columns, 1)],
        "comment": None,
    }


def _column(column: Column, position: int) -> dict[str, Any]:
    facts = column.detail
    word = str(facts["type"]).upper() + (" UNSIGNED" if facts.get("unsigned") else "")
    labels = facts.get("labels")
    return {
        "name": column.name,
        "jdbcType": _JDBC.get(facts["type"], 1111),
        "nativeType": None,
        "typeName": word,
        "typeExpression": word,
        "charsetName": facts.get("charset"),
        "length": facts.get("length", facts.get("fraction") or None) if labels is None else 1,
        "scale": facts.get("scale"),
        "position": position,
        "optional": column.nullable,
        "autoIncremented": bool(facts.get("auto_increment")),
        # Debezium counts what the server numbers as generated too.
        "generated": column.generated or bool(facts.get("auto_increment")),
        "comment": facts.get("comment"),
        "defaultValueExpression": column.default,
        "enumValues": None if labels is None else ["'" + label.replace("'", "''") + "'" for label in labels],
    }
