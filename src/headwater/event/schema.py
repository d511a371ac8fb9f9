"""The shape of a table at one moment: its columns, their types, its key.

A TableSchema is stored beside the raw frames that were written under it and read back when they are
decoded, so it is plain data with a JSON form and a content id.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Column:
    """One column. `arrow` is the type its values have in a ChangeBatch."""

    name: str
    # The source's own spelling, e.g. "numeric(10,2)"; for people and for errors.
    type: str
    arrow: pa.DataType
    nullable: bool = True
    # The source's default expression, as text; None when there is none.
    default: str | None = None
    generated: bool = False
    # What the source's decoder and Debezium's mapping need to know again (PostgreSQL: oid, typmod, enum
    # labels, …); plain JSON values only.
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TableSchema:
    """A table's columns under one version of its definition."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    # Primary key columns in key order; empty when the table has none.
    key: tuple[str, ...] = ()
    # Columns the log carries to identify an old row (PostgreSQL replica identity).
    identity: tuple[str, ...] = ()
    # As for Column.detail (PostgreSQL: relation oid, replica identity letter).
    detail: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def table(self) -> str:
        """`schema.table`, by which a table is known everywhere; see `qualified`."""
        return qualified(self.schema, self.name)

    @property
    def unquoted(self) -> str:
        """`schema.table`, as Debezium writes it and as options name it; two tables may have the same."""
        return unquoted(self.table)

    @property
    def origin(self) -> int | None:
        """Which table of this name it is (PostgreSQL: relation oid): one that is dropped and made anew, or renamed into
        another's place, is another. None when the source cannot tell."""
        return self.detail.get("oid")

    @property
    def message(self) -> bool:
        """Whether this is no table: its changes are messages of the log (op `m`)."""
        return bool(self.detail.get("message", False))

    @property
    def event_key(self) -> tuple[str, ...]:
        """What an event names its row by: the primary key; without one, the unique index that the source found fit,
        as far as its columns are captured."""
        unique = tuple(self.detail.get("unique_key", ()))
        return self.key or (unique if {column.name for column in self.columns}.issuperset(unique) else ())

    @cached_property
    def id(self) -> str:
        """A content id: equal shapes have equal ids, in every process."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    @cached_property
    def arrow(self) -> pa.StructType:
        """A row as an Arrow struct; every field nullable, because `before` may hold the key only."""
        return pa.struct([pa.field(column.name, column.arrow) for column in self.columns])

    def to_json(self) -> str:
        return json.dumps(
            {
                "schema": self.schema,
                "name": self.name,
                "key": self.key,
                "identity": self.identity,
                "detail": dict(self.detail),
                "columns": [
                    {
                        "name": column.name,
                        "type": column.type,
                        "arrow": arrow_to_text(column.arrow),
                        "nullable": column.nullable,
                        "default": column.default,
                        "generated": column.generated,
                        "detail": dict(column.detail),
                    }
                    for column in self.columns
                ],
            },
            ensure_ascii=False,
            sort_keys=True,
        )

    @staticmethod
    def from_json(text: str | bytes) -> TableSchema:
        read = json.loads(text)
        return TableSchema(
            schema=read["schema"],
            name=read["name"],
            key=tuple(read["key"]),
            identity=tuple(read["identity"]),
            detail=read["detail"],
            columns=tuple(
                Column(**{**column, "arrow": arrow_from_text(column["arrow"])}) for column in read["columns"]
            ),
        )


def qualified(schema: str, name: str) -> str:
    """`schema.table`, as people write it. A part that has a dot in it, or begins with a quote, is quoted as in SQL: the
    tables `"a.b".c` and `a."b.c"` are two."""
    return ".".join(_quoted(part) if "." in part or part.startswith('"') else part for part in (schema, name) if part)


def unquoted(table: str) -> str:
    """What `qualified` made, without its quotes."""
    return _QUOTED.sub(lambda part: part[1].replace('""', '"'), table)


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"'


# A whole part in quotes; quotes inside a part mean nothing.
_QUOTED = re.compile(r'(?:^|(?<=\.))"((?:[^"]|"")*)"(?=\.|$)')

_PLAIN: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "map": pa.map_(pa.string(), pa.string()),
}
_PLAIN_NAME = {kind: name for name, kind in _PLAIN.items()}


def arrow_to_text(kind: pa.DataType) -> str:
    """A lake type as a word: int64, decimal(10,2), array<string>, …"""
    if kind in _PLAIN_NAME:
        return _PLAIN_NAME[kind]
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{arrow_to_text(kind.value_type)}>"
    raise TypeError(f"{kind} is not a lake type")


def arrow_from_text(text: str) -> pa.DataType:
    """What `arrow_to_text` wrote."""
    if text in _PLAIN:
        return _PLAIN[text]
    if text.startswith("decimal("):
        precision, scale = text[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    if text.startswith("array<"):
        return pa.list_(arrow_from_text(text[6:-1]))
    raise TypeError(f"{text!r} is not a lake type")
