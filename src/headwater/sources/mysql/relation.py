"""A table map and the catalog, put together: the schema that logged rows were written under.

The map says which columns there were, in which order, and how their values look; only the catalog knows spelling,
defaults and comments, and it knows them as of now. Where the two disagree the map wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headwater.errors import Stop
from headwater.event import Column, TableSchema
from headwater.sources.mysql import table_map as t
from headwater.sources.mysql.charset import decode_text
from headwater.sources.mysql.table_map import MapColumn, TableMap
from headwater.sources.mysql.types import GEOMETRIES, lake_type, with_cast

_INTEGERS = {t.TINY: "tinyint", t.SHORT: "smallint", t.INT24: "mediumint", t.LONG: "int", t.LONGLONG: "bigint"}
_BLOBS = {1: "tiny", 2: "", 3: "medium", 4: "long"}
_PLAIN = {
    t.FLOAT: "float",
    t.DOUBLE: "double",
    t.DATE: "date",
    t.NEWDATE: "date",
    t.YEAR: "year",
    t.JSON: "json",
    t.GEOMETRY: "geometry",
    t.VECTOR: "vector",
    t.TIMESTAMP: "timestamp",
    t.DATETIME: "datetime",
    t.TIME: "time",
}
_TIMES = {t.TIMESTAMP2: "timestamp", t.DATETIME2: "datetime", t.TIME2: "time"}
# Types that are others in the log: what the catalog calls them there.
_DISGUISED = {"uuid": ("binary", 16), "inet6": ("binary", 16), "inet4": ("binary", 4)}
_BYTES_OF_LETTER = {"utf8mb4": 4, "utf8mb3": 3, "utf8": 3, "utf16": 4, "utf32": 4, "ucs2": 2, "utf16le": 4}


def relation_schema(
    found: TableMap, described: TableSchema | None, charsets: Mapping[int, str], cast: Mapping[str, str]
) -> TableSchema:
    """The schema of the rows that follow `found` in the log."""
    known = {column.name: column for column in described.columns} if described else {}
    columns = tuple(_column(column, known.get(column.name or ""), charsets) for column in found.columns)
    names = tuple(column.name for column in columns)
    key = tuple(names[place] for place in found.key or ())
    return with_cast(TableSchema(found.schema, found.name, columns, key, identity=names), cast)


def followed_schema(
    found: TableMap, known: TableSchema, charsets: Mapping[int, str], cast: Mapping[str, str]
) -> TableSchema:
    """The same for a map that does not name its columns: `known` does. Stop when the two cannot be of one table."""
    name, count = f"{found.schema}.{found.name}", len(found.columns)
    if count != len(known.columns):
        raise _disagree(f"{name}: its rows have {count} columns, its definition has {len(known.columns)}")
    numbers = {charset: number for number, charset in charsets.items()}
    columns = []
    for logged, column in zip(found.columns, known.columns, strict=True):
        facts = column.detail
        unsigned = facts.get("unsigned", False) if logged.unsigned is None else logged.unsigned
        collation = logged.collation or numbers.get(facts.get("charset", ""))
        says = map_facts(replace(logged, name=column.name, unsigned=unsigned, collation=collation), charsets)
        if "labels" in says:
            # A map without names has no labels either.
            says["labels"] = facts.get("labels")
        if not _same(says, facts):
            raise _disagree(f"{name}.{column.name}: its rows have {_spelling(says)}, its definition has {column.type}")
        columns.append(_as_logged(column, logged))
    names = tuple(column.name for column in columns)
    return with_cast(TableSchema(found.schema, found.name, tuple(columns), known.key, identity=names), cast)


def _disagree(what: str) -> Stop:
    return Stop(
        what,
        "set global binlog_row_metadata = 'FULL';   -- and in the server's configuration file",
        "Rows that were written before cannot be read: load the tables anew then",
        cause="The log does not name the columns of its rows, and a statement has changed the definition in a way that"
        " was not followed",
    )


def _column(column: MapColumn, known: Column | None, charsets: Mapping[int, str]) -> Column:
    facts = map_facts(column, charsets)
    if known is not None and _same(facts, known.detail):
        return _as_logged(known, column)
    facts |= {"log": [column.type, column.meta]}
    return Column(column.name or "", _spelling(facts), lake_type(facts), column.nullable, detail=facts)


def _as_logged(known: Column, logged: MapColumn) -> Column:
    return replace(known, nullable=logged.nullable, detail={**known.detail, "log": [logged.type, logged.meta]})


def _same(logged: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether the catalog speaks of the same type. It may know more: a UUID is 16 bytes in the log."""
    if known["type"] in _DISGUISED:
        return (logged["type"], logged.get("octets")) == _DISGUISED[known["type"]]
    if logged["type"] == "geometry":
        return known["type"] in GEOMETRIES
    if logged["type"] != known["type"]:
        return False
    words = ["unsigned", "labels", "charset", "octets", "fraction"]
    if logged["type"] in ("decimal", "bit"):
        words += ["length", "scale"]
    return all(logged.get(word) == known.get(word) for word in words)


def map_facts(column: MapColumn, charsets: Mapping[int, str]) -> dict[str, Any]:
    """The facts of a column as far as a table map has them; see `catalog.column_facts`."""
    charset = charsets.get(column.collation or 0, "") if column.collation else ""
    if column.collation and not charset:
        raise Stop(f"column {column.name} has the collation {column.collation}, which the server does not list")
    facts: dict[str, Any] = {}
    if column.unsigned and column.type != t.YEAR:
        facts["unsigned"] = True
    match column.type:
        case kind if kind in _INTEGERS:
            return facts | {"type": _INTEGERS[kind]}
        case kind if kind in _TIMES:
            return {"type": _TIMES[kind], "fraction": column.meta}
        case kind if kind in _PLAIN:
            return facts | {"type": _PLAIN[kind]}
        case t.NEWDECIMAL:
            return facts | {"type": "decimal", "length": column.meta >> 8, "scale": column.meta & 0xFF}
        case t.BIT:
            return {"type": "bit", "length": (column.meta >> 8) * 8 + (column.meta & 0xFF)}
        case t.ENUM | t.SET:
            labels = [_label(label, charset) for label in column.labels or ()]
            return {"type": "enum" if column.type == t.ENUM else "set", "labels": labels, "charset": charset}
        case t.BLOB:
            size = _BLOBS.get(column.meta, "")
            return {"type": f"{size}blob"} if charset in ("binary", "") else {"type": f"{size}text", "charset": charset}
        case t.STRING | t.VARCHAR | t.VAR_STRING:
            prefix = "" if column.type == t.STRING else "var"
            if charset in ("binary", ""):
                return {"type": f"{prefix}binary", "length": column.meta, "octets": column.meta}
            letters = column.meta // _BYTES_OF_LETTER.get(charset, 1)
            return {"type": f"{prefix}char", "length": letters, "octets": column.meta, "charset": charset}
    return {"type": f"type {column.type}"}


def _label(label: str, charset: str) -> str:
    return decode_text(label.encode("utf-8", "surrogateescape"), charset or "utf8mb4")


def _spelling(facts: Mapping[str, Any]) -> str:
    """What the catalog would say, near enough for people."""
    text = str(facts["type"])
    if "scale" in facts:
        text += f"({facts['length']},{facts['scale']})"
    elif "length" in facts:
        text += f"({facts['length']})"
    elif facts.get("fraction"):
        text += f"({facts['fraction']})"
    elif "labels" in facts:
        text += "(" + ",".join("'" + label.replace("'", "''") + "'" for label in facts["labels"]) + ")"
    return text + (" unsigned" if facts.get("unsigned") else "")
