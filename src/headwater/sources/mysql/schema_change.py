"""Changes of definitions as changes of a table that does not exist, so that they keep their place among the rows.

`TableSchema.message` tells them from tables: a sink that mirrors tables never sees them. Debezium's form of them is in
`debezium_schema_change.py`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa

from headwater.event import Column, TableSchema

# The table id that no table has.
RELATION = 0
SCHEMA_CHANGES = TableSchema(
    schema="",
    name="SCHEMA_CHANGES",
    columns=tuple(Column(name, "text", pa.string(), nullable=False) for name in ("database", "ddl", "changes")),
    detail={"message": True},
)


@dataclass(frozen=True)
class TableChange:
    """What became of one table."""

    # Debezium's word: CREATE, ALTER, DROP.
    type: str
    name: tuple[str, str]
    # As it is now; None: it is gone.
    table: TableSchema | None


@dataclass(frozen=True)
class SchemaChange:
    """A statement, and what it did."""

    database: str
    ddl: str
    tables: tuple[TableChange, ...]

    def to_json(self) -> str:
        changes = [
            {"type": c.type, "id": list(c.name), "table": None if c.table is None else json.loads(c.table.to_json())}
            for c in self.tables
        ]
        return json.dumps({"database": self.database, "ddl": self.ddl, "changes": changes}, ensure_ascii=False)


def messages(frames: list[bytes]) -> pa.StructArray:
    """`after` of the changes that `SchemaChange.to_json` wrote."""
    read = [json.loads(frame) for frame in frames]
    fields = [[one["database"] for one in read], [one["ddl"] for one in read]]
    fields.append([json.dumps(one["changes"], ensure_ascii=False) for one in read])
    return pa.StructArray.from_arrays(
        [pa.array(field, pa.string()) for field in fields], fields=list(SCHEMA_CHANGES.arrow)
    )


def table_changes(text: str) -> list[TableChange]:
    """The column `changes` of a message."""
    return [
        TableChange(
            one["type"],
            (one["id"][0], one["id"][1]),
            None if one["table"] is None else TableSchema.from_json(json.dumps(one["table"])),
        )
        for one in json.loads(text)
    ]
