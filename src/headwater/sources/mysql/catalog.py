"""Tables as information_schema has them now."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headwater.event import Column, TableSchema
from headwater.sources.mysql.capture import SYSTEM
from headwater.sources.mysql.connection import Server
from headwater.sources.mysql.definitions import Definitions, Flavour
from headwater.sources.mysql.types import lake_type, with_cast

_LABEL = re.compile(r"'((?:[^']|'')*)'")
_DIGITS = re.compile(r"\((\d+)(?:,(\d+))?\)")
_SYNONYM = {"geomcollection": "geometrycollection", "integer": "int", "numeric": "decimal"}

_COLUMNS = """
select c.table_schema as db, c.table_name as tbl, c.column_name as name, c.data_type as type,
       c.column_type as spelling, c.is_nullable as nullable, c.column_default as preset, c.extra as extra,
       c.column_comment as comment, c.character_maximum_length as length, c.character_octet_length as octets,
       c.numeric_precision as digits, c.numeric_scale as scale, c.datetime_precision as fraction,
       c.character_set_name as charset
from information_schema.columns c join information_schema.tables t
  on t.table_schema = c.table_schema and t.table_name = c.table_name
where t.table_type in ('BASE TABLE', 'SYSTEM VERSIONED') and {where}
order by c.table_schema, c.table_name, c.ordinal_position
"""
_KEYS = """
select table_schema as db, table_name as tbl, column_name as name
from information_schema.statistics where index_name = 'PRIMARY' and {where}
order by table_schema, table_name, seq_in_index
"""
Captured = Callable[[str, str], bool]


def table_bytes(server: Server, tables: Sequence[TableSchema]) -> dict[str, int]:
    """How much there is of each table, as the server estimates it."""
    rows = server.dicts(
        "select table_schema as db, table_name as tbl, data_length as size from information_schema.tables"
    )
    wanted = {(table.schema, table.name): table.table for table in tables}
    return {wanted[row["db"], row["tbl"]]: int(row["size"] or 0) for row in rows if (row["db"], row["tbl"]) in wanted}


def describe(
    server: Server, captured: Captured, cast: Mapping[str, str], only: tuple[str, str] | None = None
) -> list[TableSchema]:
    """The captured tables with their columns and primary keys, or `only` this one."""
    quoted = ", ".join(f"'{name}'" for name in sorted(SYSTEM))
    where = "{0}table_schema not in (" + quoted + ")"
    if only is not None:
        where += " and {0}table_schema = {1} and {0}table_name = {2}"
    names = [server.connection.escape(name) for name in only or ("", "")]
    columns: dict[tuple[str, str], list[Column]] = defaultdict(list)
    for row in server.dicts(_COLUMNS.format(where=where.format("c.", *names))):
        if captured(row["db"], row["tbl"]):
            columns[row["db"], row["tbl"]].append(_column(row))
    keys: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in server.dicts(_KEYS.format(where=where.format("", *names))):
        keys[row["db"], row["tbl"]].append(row["name"])
    found = []
    for (database, name), own in columns.items():
        every = tuple(column.name for column in own)
        table = TableSchema(database, name, tuple(own), key=tuple(keys[database, name]), identity=every)
        found.append(with_cast(table, cast))
    return found


def definitions(server: Server) -> Definitions:
    """Every table that the account may see, and the databases."""
    found = Definitions(flavour(server))
    charset = {
        (row["db"], row["tbl"]): str(row["collation"] or "").partition("_")[0]
        for row in server.dicts(
            "select table_schema as db, table_name as tbl, table_collation as collation from information_schema.tables"
        )
    }
    for table in describe(server, lambda _database, _table: True, {}):
        detail = {"charset": charset.get((table.schema, table.name), "")}
        found.tables[found.flavour.name((table.schema, table.name))] = replace(table, detail=detail)
    for row in server.dicts(
        "select schema_name as db, default_character_set_name as charset from information_schema.schemata"
    ):
        found.databases[found.flavour.name((row["db"], ""))[0]] = str(row["charset"])
    return found


def flavour(server: Server) -> Flavour:
    """How this server reads definitions."""
    rows = server.dicts("select character_set_name as name, maxlen as bytes from information_schema.character_sets")
    return Flavour(
        server.mariadb,
        server.numeric_version,
        {str(row["name"]): int(row["bytes"]) for row in rows},
        folds=server.variable("lower_case_table_names") not in ("0", ""),
    )


def _column(row: Mapping[str, Any]) -> Column:
    facts = column_facts(row)
    extra = str(row["extra"] or "").lower()
    if "auto_increment" in extra:
        facts["auto_increment"] = True
    return Column(
        row["name"],
        _text(row["spelling"]),
        lake_type(facts),
        nullable=row["nullable"] == "YES",
        default=_default(row["preset"]),
        generated="generated" in extra and "default_generated" not in extra,
        detail=facts,
    )


def column_facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """What decides how a column's values are read and shown, as plain JSON values."""
    kind = _text(row["type"]).lower()
    spelling = _text(row["spelling"])
    facts: dict[str, Any] = {"type": _SYNONYM.get(kind, kind)}
    if "unsigned" in spelling.lower():
        facts["unsigned"] = True
    match facts["type"]:
        case "decimal":
            facts |= {"length": int(row["digits"]), "scale": int(row["scale"])}
        case "float" | "double" if found := _DIGITS.search(spelling):
            facts |= {"length": int(found[1]), "scale": int(found[2] or 0)}
        case "bit":
            facts["length"] = int(row["digits"])
        case "enum" | "set":
            facts |= {"labels": [label.replace("''", "'") for label in _LABEL.findall(spelling)]}
            facts["charset"] = row["charset"]
        case "datetime" | "timestamp" | "time":
            facts["fraction"] = int(row["fraction"] or 0)
        case "char" | "varchar" | "binary" | "varbinary":
            facts |= {"length": int(row["length"]), "octets": int(row["octets"])}
    if row["charset"] and facts["type"] not in ("enum", "set"):
        facts["charset"] = row["charset"]
    if row["comment"]:
        facts["comment"] = _text(row["comment"])
    return facts


def _text(value: Any) -> str:
    """MySQL 8 gives some columns of information_schema as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def charsets(server: Server) -> dict[int, str]:
    """Numbers of collations, as table maps name them, to character sets."""
    found = {}
    views = ["collations", "collation_character_set_applicability"] if server.mariadb else ["collations"]
    for view in views:
        for row in server.dicts(f"select * from information_schema.{view}"):  # noqa: S608
            if row.get("id") is not None and row.get("character_set_name"):
                found[int(row["id"])] = str(row["character_set_name"])
    return found


def _default(value: Any) -> str | None:
    """MariaDB writes the word NULL where MySQL has none."""
    return None if value is None or _text(value).upper() == "NULL" else _text(value)
