"""Tables as statements have left them: `ddl.py`'s plain data, applied in the server's own order. No I/O.

A definition is a TableSchema as `catalog.describe` would give it; its `detail` has the character set of columns to
come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.event import Column, TableSchema
from headwater.sources.mysql import ddl
from headwater.sources.mysql.charset import is_wide
from headwater.sources.mysql.ddl import Action, Charset, ColumnText, Name, Statement
from headwater.sources.mysql.types import BINARIES, GEOMETRIES, INTEGERS, TEXTS, lake_type

_SYNONYM = {
    synonym: name
    for name, synonyms in {
        "tinyint": "int1 bool boolean",
        "smallint": "int2",
        "mediumint": "int3 middleint",
        "int": "int4 integer",
        "bigint": "int8 serial",
        "decimal": "dec numeric fixed",
        "float": "float4",
        "double": "float8 real",
        "char": "character nchar",
        "varchar": "nvarchar varcharacter",
        "geometrycollection": "geomcollection",
    }.items()
    for synonym in synonyms.split()
}
_AS_BINARY = {"char": "binary", "varchar": "varbinary"}
_TEXT_SIZES = (("tiny", 1 << 8), ("", 1 << 16), ("medium", 1 << 24), ("long", 1 << 32))
_NUMBERS = frozenset((*INTEGERS, "decimal", "float", "double"))
_TIMES = frozenset(("datetime", "timestamp", "time"))
_OTHERS = frozenset(("bit", "enum", "set", "date", "year", "json", "vector", "uuid", "inet4", "inet6"))
_KNOWN = _NUMBERS | _TIMES | TEXTS | BINARIES | GEOMETRIES | _OTHERS
# MariaDB writes how wide a number is shown, (signed, unsigned) when nobody said; MySQL leaves it out.
_WIDTH = {"tinyint": (4, 3), "smallint": (6, 5), "mediumint": (9, 8), "int": (11, 10), "bigint": (20, 20)}


class Impossible(Exception):
    """A statement that cannot have been run on the definitions we know."""


@dataclass(frozen=True)
class Flavour:
    """What decides how this server reads a definition."""

    mariadb: bool
    # As in comments that only some versions execute: 80033, 101105.
    version: int
    # Bytes of a letter in every character set.
    letters: Mapping[str, int]
    # Names of databases and tables are the same in upper and lower case.
    folds: bool = False

    def name(self, name: Name) -> Name:
        return (name[0].lower(), name[1].lower()) if self.folds else name

    def charset(self, said: Charset, otherwise: str) -> str:
        """The character set that a clause means."""
        if said.name:
            name = said.name
        else:
            # MariaDB has collations that fit several character sets, and do not begin with one's name.
            name = said.collation.partition("_")[0]
            name = name if name in self.letters or name == "utf8" else otherwise
        return "utf8mb3" if name == "utf8" and "utf8mb3" in self.letters else name


@dataclass
class Definitions:
    """Every table of the server, and the character set of every database."""

    flavour: Flavour
    tables: dict[Name, TableSchema] = field(default_factory=dict)
    databases: dict[str, str] = field(default_factory=dict)

    def find(self, name: Name) -> TableSchema | None:
        return self.tables.get(self.flavour.name(name))

    def apply(self, statement: Statement, database: str, default: str) -> list[Name]:
        """Do what a statement of a session in `database` did; the tables whose definition is another now. `default` is
        the server's own character set."""

        def full(name: Name) -> Name:
            return self.flavour.name((name[0] or database, name[1]))

        match statement:
            case ddl.CreateTable():
                return self._create(statement, full(statement.name), statement.like and full(statement.like), default)
            case ddl.AlterTable():
                return self._alter(full(statement.name), statement.actions, full)
            case ddl.RenameTables():
                return [name for old, new in statement.pairs for name in self._rename(full(old), full(new))]
            case ddl.DropTables():
                names = [full(name) for name in statement.names]
            case ddl.DropDatabase():
                own = self.flavour.name((statement.name, ""))[0]
                self.databases.pop(own, None)
                names = [name for name in self.tables if name[0] == own]
            case ddl.SetDatabase():
                own = self.flavour.name((statement.name or database, ""))[0]
                before = default if statement.create else self.databases.get(own, default)
                if not (statement.create and own in self.databases):
                    self.databases[own] = self.flavour.charset(statement.charset, before)
                return []
        return [name for name in names if self.tables.pop(name, None) is not None]

    # -- tables --

    def _create(self, statement: ddl.CreateTable, name: Name, like: Name | None, default: str) -> list[Name]:
        if statement.if_missing and name in self.tables:
            return []
        if like is not None:
            self.tables[name] = _named(self._need(like), name)
            return [name]
        charset = self.flavour.charset(statement.charset, self.databases.get(name[0], default))
        columns = tuple(column_of(text, charset, self.flavour) for text in statement.columns)
        self.tables[name] = _table(name, columns, statement.key, charset)
        return [name]

    def _rename(self, old: Name, new: Name) -> list[Name]:
        table = self._need(old)
        del self.tables[old]
        self.tables[new] = _named(table, new)
        return [old, new]

    def _alter(self, name: Name, actions: tuple[Action, ...], full: Any) -> list[Name]:
        if not actions:
            return []
        self.tables[name] = altered(self._need(name), actions, self.flavour)
        changed = [name]
        for action in actions:
            if isinstance(action, ddl.Rename):
                changed += self._rename(changed[-1], full(action.to))
        return changed

    def _need(self, name: Name) -> TableSchema:
        found = self.tables.get(name)
        if found is None:
            raise Impossible(f"the table {'.'.join(name)} is not known")
        return found


def _named(table: TableSchema, name: Name) -> TableSchema:
    return replace(table, schema=name[0], name=name[1])


def _table(name: Name, columns: tuple[Column, ...], key: tuple[str, ...], charset: str) -> TableSchema:
    own = {column.name.lower(): column.name for column in columns}
    try:
        found = tuple(own[part.lower()] for part in key)
    except KeyError as error:
        raise Impossible(f"{'.'.join(name)} has no column {error}") from None
    # A key's columns are never null, whatever was said.
    columns = tuple(replace(column, nullable=column.nullable and column.name not in found) for column in columns)
    every = tuple(column.name for column in columns)
    return TableSchema(*name, columns, found, identity=every, detail={"charset": charset})


def altered(table: TableSchema, actions: tuple[Action, ...], flavour: Flavour) -> TableSchema:
    """`table` behind an ALTER TABLE. All parts of it speak of the columns that were there before; places are found
    among those that come out."""
    there = {column.name.lower() for column in table.columns}
    charset, key, convert = str(table.detail["charset"]), None, False
    dropped: set[str] = set()
    changed: dict[str, ColumnText | str] = {}
    defaults: dict[str, str | None] = {}
    # New ones and ones that get another place, in the order of the statement.
    placed: list[ColumnText] = []
    for action in actions:
        match action:
            case ddl.DropColumn(name):
                dropped.add(name.lower())
            case ddl.ChangeColumn(old, text, if_there) if not if_there or old.lower() in there:
                changed[old.lower()] = text
                placed += [text] if text.after is not None else []
            case ddl.RenameColumn(old, new):
                changed[old.lower()] = new
            case ddl.AddColumn(text, if_missing) if not (if_missing and text.name.lower() in there - dropped):
                placed.append(text)
            case ddl.SetDefault(name, default):
                defaults[name.lower()] = default
            case ddl.SetKey(parts):
                key = parts
            case ddl.SetCharset(said, also_there):
                if sum(isinstance(other, ddl.SetCharset) for other in actions) > 1:
                    # The server takes one of them, by rules of its own.
                    raise Impossible(f"{table.table} gets two character sets")
                charset, convert = flavour.charset(said, charset), also_there
    if unknown := (changed.keys() | defaults.keys()) - there:
        raise Impossible(f"{table.table} has no column {min(unknown)!r}")
    columns: list[Column] = []
    renamed: dict[str, str] = {}
    for column in table.columns:
        own = column.name.lower()
        if own in dropped:
            continue
        match changed.get(own):
            case str() as new:
                column = replace(column, name=new)
            case ColumnText(after=None) as text:
                column = column_of(text, charset, flavour)
            case ColumnText() as text:
                renamed[own] = text.name
                continue
        if own in defaults:
            column = replace(column, default=_default(defaults[own], flavour))
        columns.append(_converted(column, charset, flavour) if convert else column)
        renamed[own] = column.name
    for text in placed:
        columns.insert(_place(text, columns, table.table), column_of(text, charset, flavour))
    if not columns:
        raise Impossible(f"{table.table} is left without columns")
    if key is None:
        key = tuple(renamed[part.lower()] for part in table.key if part.lower() in renamed)
    written = [text for text in (*placed, *changed.values()) if isinstance(text, ColumnText) and text.primary]
    key = key or tuple(dict.fromkeys(text.name for text in written))
    return _table((table.schema, table.name), tuple(columns), key, charset)


def _place(text: ColumnText, columns: list[Column], table: str) -> int:
    if text.after is None:
        return len(columns)
    if not text.after:
        return 0
    for place, column in enumerate(columns):
        if column.name.lower() == text.after.lower():
            return place + 1
    raise Impossible(f"{table} has no column {text.after!r}")


# -- columns ---------------------------------------------------------------------------------------


def column_of(text: ColumnText, charset: str, flavour: Flavour) -> Column:
    """A column from its definition, in a table whose character set is `charset`."""
    facts = _facts(text, charset, flavour)
    serial = text.type == "serial"
    return Column(
        text.name,
        _spelling(text, facts, flavour),
        lake_type(facts),
        nullable=not (text.nullable is False or text.primary or serial),
        default=_default(text.default, flavour),
        generated=text.generated,
        detail=facts | ({"comment": text.comment} if text.comment else {}),
    )


def _facts(text: ColumnText, charset: str, flavour: Flavour) -> dict[str, Any]:
    """As `catalog.column_facts`."""
    kind = _SYNONYM.get(text.type, text.type)
    own = flavour.charset(text.charset, charset)
    if text.type in ("nchar", "nvarchar"):
        own = flavour.charset(Charset("utf8"), charset)
    if kind == "json" and flavour.mariadb:
        kind, own = "longtext", "utf8mb4"
    if kind in ("text", "blob") and text.sizes:
        octets = text.sizes[0] * (flavour.letters.get(own, 1) if kind == "text" else 1)
        kind = next(size for size, limit in _TEXT_SIZES if octets < limit) + kind
    if kind in TEXTS and own == "binary":
        kind = _AS_BINARY.get(kind) or kind.replace("text", "blob")
    if kind not in _KNOWN:
        raise Impossible(f"column {text.name}: the type {text.type!r} is not known")
    facts: dict[str, Any] = {"type": kind}
    sizes = text.sizes
    match kind:
        case _ if kind in INTEGERS:
            pass
        case "decimal":
            facts |= {"length": (sizes and sizes[0]) or 10, "scale": sizes[1] if len(sizes) > 1 else 0}
        case "float" if len(sizes) == 1:
            facts["type"] = "float" if sizes[0] <= 24 else "double"
        case "float" | "double" if sizes:
            facts |= {"length": sizes[0], "scale": sizes[1] if len(sizes) > 1 else 0}
        case "bit":
            facts["length"] = sizes[0] if sizes else 1
        case "enum" | "set":
            facts |= {"labels": list(text.labels), "charset": own}
        case _ if kind in _TIMES:
            facts["fraction"] = sizes[0] if sizes else 0
        case "char" | "varchar" | "binary" | "varbinary":
            length = sizes[0] if sizes else 1
            letter = flavour.letters.get(own, 1) if kind in TEXTS else 1
            facts |= {"length": length, "octets": length * letter}
    if kind in TEXTS:
        facts["charset"] = own
    if text.auto_increment or text.type == "serial":
        facts["auto_increment"] = True
    if (text.unsigned or text.type == "serial") and facts["type"] in _NUMBERS:
        facts["unsigned"] = True
    return facts


def _converted(column: Column, charset: str, flavour: Flavour) -> Column:
    """Behind `convert to character set`: a text stays long enough for the letters it had room for."""
    facts = dict(column.detail)
    if facts["type"] not in TEXTS and facts["type"] not in ("enum", "set"):
        return column
    if facts["type"] in TEXTS and charset == "binary":
        raise Impossible(f"column {column.name} is converted to binary")
    if "labels" in facts and is_wide(charset) != is_wide(str(facts["charset"])):
        # MariaDB 10.11 garbles them.
        raise Impossible(f"the labels of column {column.name} are converted to {charset}")
    wider = flavour.letters.get(charset, 1) > flavour.letters.get(str(facts["charset"]), 1)
    if wider and facts["type"] in ("tinytext", "text", "mediumtext"):
        order = ("tinytext", "text", "mediumtext", "longtext")
        facts["type"] = order[order.index(facts["type"]) + 1]
    facts["charset"] = charset
    if "octets" in facts:
        facts["octets"] = facts["length"] * flavour.letters.get(charset, 1)
    spelling = facts["type"] if facts["type"].endswith("text") else column.type
    return replace(column, type=spelling, detail=facts, arrow=lake_type(facts))


def _default(text: str | None, flavour: Flavour) -> str | None:
    """As the catalog writes it: MySQL without quotes."""
    if text is None or flavour.mariadb or not text.startswith("'"):
        return text
    return text[1:-1].replace("''", "'")


def _spelling(text: ColumnText, facts: Mapping[str, Any], flavour: Flavour) -> str:
    """As the catalog writes it."""
    kind = str(facts["type"])
    unsigned = bool(facts.get("unsigned"))
    if kind in INTEGERS:
        width = text.sizes[0] if text.sizes else 1 if text.type in ("bool", "boolean") else 0
        if flavour.mariadb:
            kind += f"({width or _WIDTH[kind][unsigned]})"
        elif (kind, width, unsigned) == ("tinyint", 1, False):
            kind += "(1)"
    elif "labels" in facts:
        kind += "(" + ",".join("'" + label.replace("'", "''") + "'" for label in facts["labels"]) + ")"
    elif "scale" in facts:
        kind += f"({facts['length']},{facts['scale']})"
    elif "length" in facts:
        kind += f"({facts['length']})"
    elif facts.get("fraction"):
        kind += f"({facts['fraction']})"
    elif kind == "year" and flavour.mariadb:
        kind += "(4)"
    elif kind == "vector" and text.sizes:
        kind += f"({text.sizes[0]})"
    return kind + (" unsigned" if unsigned else "")
