"""What statements say about tables and databases, as plain data: `ddl_grammar.py` reads, `definitions.py` does it."""

from __future__ import annotations

from dataclasses import dataclass

# (database, table); the database is empty when the statement leaves it to its session.
Name = tuple[str, str]


class Unreadable(Exception):
    """A statement that this grammar does not know; `names` are the tables it had named so far."""

    def __init__(self, near: str, names: tuple[Name, ...]) -> None:
        super().__init__(near)
        self.near = near
        self.names = names


@dataclass(frozen=True)
class Charset:
    """What a clause says about characters; either may be missing."""

    name: str = ""
    collation: str = ""

    def __bool__(self) -> bool:
        return bool(self.name or self.collation)

    def also(self, other: Charset) -> Charset:
        """Both clauses; the later one wins."""
        return Charset(other.name or self.name, other.collation or self.collation)


@dataclass(frozen=True)
class ColumnText:
    """A column as a statement defines it."""

    name: str
    # In lower case; several words are one: `character varying` is a varchar.
    type: str
    sizes: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    unsigned: bool = False
    charset: Charset = Charset()
    nullable: bool | None = None
    default: str | None = None
    generated: bool = False
    auto_increment: bool = False
    comment: str = ""
    primary: bool = False
    # Behind this column, "" = before all others, None = behind them.
    after: str | None = None


@dataclass(frozen=True)
class AddColumn:
    """`add column`."""

    column: ColumnText
    if_missing: bool = False


@dataclass(frozen=True)
class ChangeColumn:
    """`change column`, and `modify column`, where the name stays."""

    old: str
    column: ColumnText
    if_there: bool = False


@dataclass(frozen=True)
class DropColumn:
    """`drop column`."""

    name: str


@dataclass(frozen=True)
class RenameColumn:
    """`rename column`."""

    old: str
    new: str


@dataclass(frozen=True)
class SetDefault:
    """`alter column … set default` and `drop default`."""

    name: str
    default: str | None


@dataclass(frozen=True)
class SetKey:
    """The primary key; of no columns: it is dropped."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class SetCharset:
    """The default of columns to come; `convert`: and of those that are there."""

    charset: Charset
    convert: bool = False


@dataclass(frozen=True)
class Rename:
    """`alter table … rename`."""

    to: Name


Action = AddColumn | ChangeColumn | DropColumn | RenameColumn | SetDefault | SetKey | SetCharset | Rename


@dataclass(frozen=True)
class CreateTable:
    """`create table`; `like`: as that one is."""

    name: Name
    columns: tuple[ColumnText, ...] = ()
    key: tuple[str, ...] = ()
    charset: Charset = Charset()
    like: Name | None = None
    if_missing: bool = False


@dataclass(frozen=True)
class AlterTable:
    """`alter table`, as far as it changes columns, key or name."""

    name: Name
    actions: tuple[Action, ...]


@dataclass(frozen=True)
class RenameTables:
    """`rename table a to b, c to a`: one behind the other."""

    pairs: tuple[tuple[Name, Name], ...]


@dataclass(frozen=True)
class DropTables:
    """`drop table`."""

    names: tuple[Name, ...]


@dataclass(frozen=True)
class SetDatabase:
    """`create database` and `alter database`; the name is empty when it is the session's."""

    name: str
    charset: Charset
    create: bool


@dataclass(frozen=True)
class DropDatabase:
    """`drop database`."""

    name: str


Statement = CreateTable | AlterTable | RenameTables | DropTables | SetDatabase | DropDatabase


def tables_of(statement: Statement) -> tuple[Name, ...]:
    """The tables that a statement names."""
    match statement:
        case RenameTables(pairs):
            return tuple(name for pair in pairs for name in pair)
        case DropTables(names):
            return names
        case AlterTable(name, actions):
            return (name, *(action.to for action in actions if isinstance(action, Rename)))
        case CreateTable(name):
            return (name,)
    return ()
