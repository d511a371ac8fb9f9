"""What a logged statement does to definitions of tables: text in, plain data out. No I/O.

sqlglot's MySQL tokenizer knows quotes, escapes and comments. Its parser is not asked: it passes over clauses it does
not know, and what is passed over here would be a column read under another's name. The grammar below has the
statements that change columns and keys; whatever it does not expect raises `Unreadable`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar

# (database, table); the database is empty when the statement leaves it to its session.
Name = tuple[str, str]

# Bits of sql_mode that change how a text is read.
ANSI_QUOTES = 1 << 2
NO_BACKSLASH_ESCAPES = 1 << 20


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


def parse_ddl(text: str, sql_mode: int = 0, version: int = 0, *, mariadb: bool = False) -> Statement | None:
    """What a statement does to definitions; None: nothing. `version` decides which comments the server has executed."""
    return _Grammar(_words(_executed(text, version, mariadb), sql_mode)).statement()


# -- words -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Word:
    # What it says, without quotes.
    text: str
    # In upper case; empty when it was quoted, so that nothing quoted is taken for a keyword.
    keyword: str = ""
    quoted: bool = False
    string: bool = False
    number: bool = False
    # As the statement has it.
    source: str = ""


# Strings and names are passed over; what is left are comments, and of those the ones with an exclamation mark.
_COMMENT = re.compile(
    r"""('(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|(?:--\s|\#)[^\n]*|/\*(?!M?!).*?\*/)"""
    r"""|/\*(M?)!(\d{5,6})?(.*?)\*/""",
    re.DOTALL,
)


def _executed(text: str, version: int, mariadb: bool) -> str:
    """The statement with the comments that this server executes, and without those it does not."""

    def decide(found: re.Match[str]) -> str:
        if found[1] is not None:
            return found[1]
        wanted = int(found[3] or 0)
        runs = wanted <= version and (mariadb or not found[2])
        if mariadb and not found[2] and 50700 <= wanted < 100000:
            # Versions that MySQL has and MariaDB never had.
            runs = False
        return f" {found[4]} " if runs else " "

    return _COMMENT.sub(decide, text)


@cache
def _tokenizer(ansi_quotes: bool, plain_backslash: bool) -> Any:
    # Half a second of imports, that only logs with definitions to follow need.
    from sqlglot.dialects.mysql import MySQL

    class Words(MySQL.Tokenizer):
        # A statement that begins with one of these would come as one token.
        COMMANDS: ClassVar[set[Any]] = set()
        QUOTES = ["'"] if ansi_quotes else ["'", '"']
        IDENTIFIERS = ["`", '"'] if ansi_quotes else ["`"]
        STRING_ESCAPES = ["'"] if plain_backslash else ["'", '"', "\\"]

    return Words


def _words(text: str, sql_mode: int) -> list[_Word]:
    tokenizer = _tokenizer(bool(sql_mode & ANSI_QUOTES), bool(sql_mode & NO_BACKSLASH_ESCAPES))
    from sqlglot.errors import SqlglotError

    try:
        tokens = tokenizer(dialect="mysql").tokenize(text)
    except SqlglotError as error:
        raise Unreadable(str(error).partition("\n")[0][:80], ()) from error
    words = []
    for token in tokens:
        source = text[token.start : token.end + 1]
        match token.token_type.name:
            case "IDENTIFIER":
                words.append(_Word(token.text, quoted=True, source=source))
            case "STRING" | "NATIONAL_STRING":
                words.append(_Word(token.text, string=True, source=source))
            case "NUMBER" | "BIT_STRING" | "HEX_STRING":
                words.append(_Word(token.text, number=True, source=source))
            case _:
                # Some keywords come in one token: PRIMARY KEY.
                words += [_Word(word, word.upper(), source=word) for word in source.split()]
    return words


# -- grammar ---------------------------------------------------------------------------------------

_END = _Word("")
_TWO_WORD_TYPES = {
    ("double", "precision"): "double",
    ("char", "varying"): "varchar",
    ("character", "varying"): "varchar",
    ("char", "byte"): "binary",
    ("national", "char"): "nchar",
    ("national", "character"): "nchar",
    ("national", "varchar"): "nvarchar",
    ("nchar", "varying"): "nvarchar",
    ("nchar", "varchar"): "nvarchar",
    ("nvarchar", "varying"): "nvarchar",
    ("long", "varchar"): "mediumtext",
    ("long", "varbinary"): "mediumblob",
    ("long", "varying"): "mediumtext",
    ("long", "char"): "mediumtext",
}
# Parts of a `create table` or `add` that are no columns, and of a `drop`.
_INDEXES = frozenset(("INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "FOREIGN", "CHECK", "PERIOD"))
_DROPPED = frozenset(("INDEX", "KEY", "FOREIGN", "CHECK", "CONSTRAINT", "PARTITION", "PERIOD"))
# Words that begin a part of `alter table` without a meaning for columns: options of the table, and how to work.
_PASSED = frozenset(
    """
    ENGINE AUTO_INCREMENT AVG_ROW_LENGTH CHECKSUM TABLE_CHECKSUM COMMENT COMPRESSION CONNECTION DATA DELAY_KEY_WRITE
    ENCRYPTION ENCRYPTED ENCRYPTION_KEY_ID IETF_QUOTES INSERT_METHOD KEY_BLOCK_SIZE MAX_ROWS MIN_ROWS PACK_KEYS
    PAGE_CHECKSUM PAGE_COMPRESSED PAGE_COMPRESSION_LEVEL PASSWORD ROW_FORMAT SEQUENCE STATS_AUTO_RECALC
    STATS_PERSISTENT STATS_SAMPLE_PAGES TABLESPACE TRANSACTIONAL UNION AUTOEXTEND_SIZE ENGINE_ATTRIBUTE
    SECONDARY_ENGINE SECONDARY_ENGINE_ATTRIBUTE START STORAGE ALGORITHM LOCK FORCE ENABLE DISABLE DISCARD IMPORT
    WITHOUT CHECK REPAIR OPTIMIZE ANALYZE REBUILD COALESCE REORGANIZE REMOVE EXCHANGE TRUNCATE SECONDARY_LOAD
    SECONDARY_UNLOAD PARTITION NOWAIT WAIT
    """.split()  # noqa: SIM905
)


@dataclass
class _Grammar:
    words: list[_Word]
    at: int = 0
    # Tables named so far, for whoever asks what an unreadable statement touches.
    names: list[Name] = field(default_factory=list)

    # -- moving over words --

    @property
    def here(self) -> _Word:
        return self.words[self.at] if self.at < len(self.words) else _END

    def sees(self, *keywords: str) -> bool:
        """Whether these come next, one behind the other."""
        return [word.keyword for word in self.words[self.at : self.at + len(keywords)]] == list(keywords)

    def takes(self, *keywords: str) -> bool:
        if self.sees(*keywords):
            self.at += len(keywords)
            return True
        return False

    def one_of(self, *keywords: str) -> str:
        """The next word if it is one of these, else nothing."""
        keyword = self.here.keyword
        if keyword and keyword in keywords:
            self.at += 1
            return keyword
        return ""

    def need(self, *keywords: str) -> None:
        if not self.takes(*keywords):
            raise self.unreadable()

    def next(self) -> _Word:
        word = self.here
        if word is _END:
            raise self.unreadable()
        self.at += 1
        return word

    def unreadable(self) -> Unreadable:
        near = " ".join(word.source for word in self.words[self.at : self.at + 5]) or "its end"
        return Unreadable(near, tuple(self.names))

    @property
    def ended(self) -> bool:
        return self.here is _END or self.here.keyword == ";"

    def name(self) -> str:
        word = self.next()
        if word.string or word.number or not re.search(r"\w", word.text):
            raise self.unreadable()
        return word.text

    def string(self) -> str:
        word = self.next()
        if not word.string:
            raise self.unreadable()
        return word.text

    def table(self) -> Name:
        first = self.name()
        name = (first, self.name()) if self.takes(".") else ("", first)
        self.names.append(name)
        return name

    def names_in_parentheses(self) -> tuple[str, ...]:
        """`(a, b(10) desc)`: the columns of a key."""
        self.need("(")
        found = []
        while True:
            found.append(self.name())
            if self.sees("("):
                self.group()
            self.one_of("ASC", "DESC")
            if self.takes(")"):
                return tuple(found)
            self.need(",")

    def group(self) -> str:
        """Everything from one parenthesis to its partner."""
        self.need("(")
        begin, depth = self.at, 1
        while depth:
            depth += {"(": 1, ")": -1}.get(self.next().keyword, 0)
        return " ".join(word.source for word in self.words[begin : self.at - 1])

    def pass_part(self) -> None:
        """Up to the comma or parenthesis that ends this part of a list."""
        while not self.ended and self.here.keyword not in (",", ")"):
            if self.sees("("):
                self.group()
            else:
                self.at += 1

    # -- statements --

    def statement(self) -> Statement | None:
        match self.one_of("CREATE", "ALTER", "RENAME", "DROP"):
            case "CREATE":
                return self.create()
            case "ALTER":
                while self.one_of("ONLINE", "OFFLINE", "IGNORE"):
                    pass
                if self.one_of("DATABASE", "SCHEMA"):
                    return self.database(create=False)
                return self.alter() if self.takes("TABLE") else None
            case "RENAME":
                return self.rename() if self.one_of("TABLE", "TABLES") else None
            case "DROP":
                return self.drop()
        return None

    def create(self) -> Statement | None:
        self.takes("OR", "REPLACE")
        if self.one_of("DATABASE", "SCHEMA"):
            self.takes("IF", "NOT", "EXISTS")
            return self.database(create=True)
        if not self.takes("TABLE"):
            # Temporary tables, views, indexes, routines, accounts.
            return None
        if_missing = self.takes("IF", "NOT", "EXISTS")
        made = CreateTable(self.table(), if_missing=if_missing)
        parenthesis = self.takes("(")
        if self.takes("LIKE"):
            return replace(made, like=self.table())
        if not parenthesis:
            # create table … select: in a log of rows it comes with its columns.
            raise self.unreadable()
        columns: list[ColumnText] = []
        key: tuple[str, ...] = ()
        while True:
            if (found := self.key_or_index()) is not None:
                key = found or key
            else:
                columns.append(self.column())
            if self.takes(")"):
                break
            self.need(",")
        key = key or tuple(column.name for column in columns if column.primary)
        return replace(made, columns=tuple(columns), key=key, charset=self.options())

    def options(self) -> Charset:
        """The charset among a new table's options."""
        found = Charset()
        while not self.ended and not self.sees("PARTITION"):
            if self.here.keyword in ("SELECT", "AS", "WITH", "VALUES", "IGNORE", "REPLACE"):
                # Rows of a query bring columns of their own, and system versioning hidden ones.
                raise self.unreadable()
            if clause := self.charset():
                found = _and(found, clause)
            elif self.sees("("):
                self.group()
            else:
                self.at += 1
        return found

    def key_or_index(self) -> tuple[str, ...] | None:
        """A part that is no column: the primary key's columns, or nothing of an index; None when it is a column."""
        begin = self.at
        if self.takes("CONSTRAINT") and self.here.keyword not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
            self.name()
        if self.takes("PRIMARY", "KEY"):
            if self.here.keyword not in ("(", "USING"):
                self.name()
            if self.takes("USING"):
                self.next()
            found = self.names_in_parentheses()
            self.pass_part()
            return found
        if self.here.keyword in _INDEXES and not self._names_a_column():
            self.pass_part()
            return ()
        if self.at != begin:
            raise self.unreadable()
        return None

    def _names_a_column(self) -> bool:
        """`period int`: some of those words may be names."""
        following = self.words[self.at + 1].keyword if self.at + 1 < len(self.words) else ""
        return self.here.keyword in ("PERIOD", "VECTOR") and following not in ("FOR", "INDEX", "KEY")

    def database(self, *, create: bool) -> SetDatabase:
        named = self.here.quoted or (
            not self.ended and self.here.keyword not in ("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "CHAR")
        )
        name = self.name() if named else ""
        found = Charset()
        while not self.ended:
            if clause := self.charset():
                found = _and(found, clause)
            else:
                self.at += 1
        return SetDatabase(name, found, create)

    def rename(self) -> RenameTables:
        self.takes("IF", "EXISTS")
        pairs = []
        while True:
            old = self.table()
            self.waits()
            self.need("TO")
            pairs.append((old, self.table()))
            if not self.takes(","):
                return RenameTables(tuple(pairs))

    def drop(self) -> Statement | None:
        if self.one_of("DATABASE", "SCHEMA"):
            self.takes("IF", "EXISTS")
            return DropDatabase(self.name())
        if not self.one_of("TABLE", "TABLES"):
            return None
        self.takes("IF", "EXISTS")
        names = [self.table()]
        while self.takes(","):
            names.append(self.table())
        return DropTables(tuple(names))

    def waits(self) -> None:
        if self.takes("WAIT"):
            self.next()
        self.takes("NOWAIT")

    # -- alter table --

    def alter(self) -> AlterTable:
        self.takes("IF", "EXISTS")
        name = self.table()
        self.waits()
        actions: list[Action] = []
        while not self.ended:
            actions += self.part()
            if self.sees("PARTITION") or self.sees("REMOVE"):
                # Stands at the end, without a comma.
                self.at = len(self.words)
            if not self.ended:
                self.need(",")
        return AlterTable(name, tuple(actions))

    def part(self) -> list[Action]:
        match self.here.keyword:
            case "ADD":
                self.at += 1
                return self.add()
            case "DROP":
                self.at += 1
                return self.drop_part()
            case "MODIFY" | "CHANGE" as verb:
                self.at += 1
                self.takes("COLUMN")
                if_there = self.takes("IF", "EXISTS")
                old = self.words[self.at].text if verb == "MODIFY" and not self.ended else self.name()
                return [ChangeColumn(old, self.column(), if_there)]
            case "ALTER":
                self.at += 1
                return self.alter_column()
            case "RENAME":
                self.at += 1
                return self.rename_part()
            case "CONVERT":
                self.at += 1
                self.need("TO")
                charset = self.charset()
                if not charset:
                    raise self.unreadable()
                return [SetCharset(_and(charset, self.charset()), convert=True)]
            case "ORDER":
                # Its commas are its own.
                self.at = len(self.words)
                return []
            case keyword if keyword in _PASSED or keyword in ("DEFAULT", "CHARACTER", "CHARSET", "COLLATE"):
                return self.table_options()
        raise self.unreadable()

    def table_options(self) -> list[Action]:
        found = Charset()
        while not self.ended and not self.sees(","):
            if clause := self.charset():
                found = _and(found, clause)
            elif self.sees("("):
                self.group()
            else:
                self.at += 1
        return [SetCharset(found)] if found else []

    def add(self) -> list[Action]:
        if self.takes("PARTITION"):
            self.at = len(self.words)
            return []
        if (key := self.key_or_index()) is not None:
            return [SetKey(key)] if key else []
        if self.sees("SYSTEM", "VERSIONING"):
            raise self.unreadable()
        self.takes("COLUMN")
        if_missing = self.takes("IF", "NOT", "EXISTS")
        if not self.takes("("):
            return [AddColumn(self.column(), if_missing)]
        actions: list[Action] = []
        while True:
            if (key := self.key_or_index()) is not None:
                actions += [SetKey(key)] if key else []
            else:
                actions.append(AddColumn(self.column(), if_missing))
            if self.takes(")"):
                return actions
            self.need(",")

    def drop_part(self) -> list[Action]:
        if self.takes("PRIMARY", "KEY"):
            return [SetKey(())]
        if self.sees("SYSTEM", "VERSIONING"):
            raise self.unreadable()
        if self.here.keyword in _DROPPED:
            if self.sees("PARTITION"):
                self.at = len(self.words)
            self.pass_part()
            return []
        self.takes("COLUMN")
        self.takes("IF", "EXISTS")
        name = self.name()
        self.one_of("RESTRICT", "CASCADE")
        return [DropColumn(name)]

    def alter_column(self) -> list[Action]:
        if self.here.keyword in ("INDEX", "KEY", "CHECK", "CONSTRAINT"):
            self.pass_part()
            return []
        self.takes("COLUMN")
        self.takes("IF", "EXISTS")
        name = self.name()
        if self.takes("DROP", "DEFAULT"):
            return [SetDefault(name, None)]
        self.need("SET")
        if self.one_of("VISIBLE", "INVISIBLE"):
            return []
        self.need("DEFAULT")
        return [SetDefault(name, self.default())]

    def rename_part(self) -> list[Action]:
        if self.one_of("INDEX", "KEY"):
            self.pass_part()
            return []
        if self.takes("COLUMN"):
            self.takes("IF", "EXISTS")
            old = self.name()
            self.need("TO")
            return [RenameColumn(old, self.name())]
        if not self.one_of("TO", "AS"):
            self.takes("=")
        return [Rename(self.table())]

    # -- columns --

    def column(self) -> ColumnText:
        found = ColumnText(self.name(), self.type())
        if found.type in ("enum", "set"):
            self.need("(")
            labels = [self.string()]
            while self.takes(","):
                labels.append(self.string())
            self.need(")")
            # The server takes spaces off the ends of labels.
            found = replace(found, labels=tuple(label.rstrip(" ") for label in labels))
        elif self.takes("("):
            sizes = [self.size()]
            while self.takes(","):
                sizes.append(self.size())
            self.need(")")
            found = replace(found, sizes=tuple(sizes))
        while not self.ended and self.here.keyword not in (",", ")", "PARTITION", "REMOVE"):
            found = self.attribute(found)
        return found

    def type(self) -> str:
        first = self.name().lower()
        joined = _TWO_WORD_TYPES.get((first, self.here.keyword.lower()))
        if joined is None:
            return "mediumtext" if first == "long" else first
        self.at += 1
        if joined in ("nchar", "binary") and self.takes("VARYING"):
            return "nvarchar"
        return joined

    def size(self) -> int:
        word = self.next()
        if not word.number or not word.text.isdigit():
            raise self.unreadable()
        return int(word.text)

    def attribute(self, found: ColumnText) -> ColumnText:
        """One thing more that is said of a column."""
        if charset := self.charset():
            return replace(found, charset=_and(found.charset, charset))
        match self.next().keyword:
            case "UNSIGNED" | "ZEROFILL":
                return replace(found, unsigned=True)
            case "AUTO_INCREMENT":
                return replace(found, auto_increment=True)
            case "SIGNED" | "VIRTUAL" | "STORED" | "PERSISTENT" | "VISIBLE" | "INVISIBLE" | "BINARY":
                return found
            case "ASCII":
                return replace(found, charset=Charset("latin1"))
            case "UNICODE":
                return replace(found, charset=Charset("ucs2"))
            case "NOT":
                if self.takes("ENFORCED"):
                    return found
                self.need("NULL")
                return replace(found, nullable=False)
            case "NULL":
                return replace(found, nullable=True)
            case "DEFAULT":
                return replace(found, default=self.default())
            case "ON":
                self.need("UPDATE")
                self.default()
                return found
            case "UNIQUE":
                self.takes("KEY")
                return found
            case "PRIMARY":
                self.takes("KEY")
                return replace(found, primary=True)
            case "KEY":
                return replace(found, primary=True)
            case "COMMENT":
                return replace(found, comment=self.string())
            case "GENERATED":
                self.need("ALWAYS")
                return found
            case "AS":
                if self.one_of("ROW"):
                    raise self.unreadable()
                self.group()
                return replace(found, generated=True)
            case "CHECK":
                self.group()
                return found
            case "CONSTRAINT":
                if not self.sees("CHECK"):
                    self.name()
                return found
            case "REFERENCES":
                self.references()
                return found
            case "COLUMN_FORMAT" | "STORAGE":
                self.next()
                return found
            case "SRID" | "REF_SYSTEM_ID" | "ENGINE_ATTRIBUTE" | "SECONDARY_ENGINE_ATTRIBUTE":
                self.takes("=")
                self.next()
                return found
            case "SERIAL":
                self.need("DEFAULT", "VALUE")
                return replace(found, nullable=False, auto_increment=True)
            case "WITH" | "WITHOUT":
                self.need("SYSTEM", "VERSIONING")
                return found
            case "FIRST":
                return replace(found, after="")
            case "AFTER":
                return replace(found, after=self.name())
        self.at -= 1
        raise self.unreadable()

    def references(self) -> None:
        self.table()
        self.names.pop()
        if self.sees("("):
            self.group()
        if self.takes("MATCH"):
            self.next()
        while self.sees("ON", "DELETE") or self.sees("ON", "UPDATE"):
            self.at += 2
            if not (self.takes("SET", "NULL") or self.takes("SET", "DEFAULT") or self.takes("NO", "ACTION")):
                self.next()

    def default(self) -> str | None:
        """A default's text, a string in plain quotes; None for NULL."""
        if self.takes("NULL"):
            return None
        if self.sees("("):
            return f"({self.group()})"
        sign = self.one_of("-", "+")
        if self.takes("."):
            sign += "."
        if self.here.keyword.startswith("_"):
            self.at += 1
        word = self.next()
        text = sign + word.source
        if word.string:
            text = "'" + word.text.replace("'", "''") + "'"
        if self.takes("NEXT", "VALUE", "FOR") or (word.keyword == "NEXT" and self.takes("VALUE", "FOR")):
            self.table()
            self.names.pop()
        elif self.sees("("):
            inner = self.group()
            text += f"({inner})"
        return text

    def charset(self) -> Charset:
        """`[default] character set [=] x` or `collate [=] x`; nothing moves when neither comes."""
        begin = self.at
        self.takes("DEFAULT")
        kind = ""
        if self.takes("CHARACTER", "SET") or self.takes("CHAR", "SET") or self.takes("CHARSET"):
            kind = "charset"
        elif self.takes("COLLATE"):
            kind = "collation"
        if not kind:
            self.at = begin
            return Charset()
        self.takes("=")
        word = self.next()
        text = word.text.lower()
        if kind == "charset":
            return Charset() if word.keyword == "DEFAULT" else Charset(text)
        return Charset(collation=text)


def _and(one: Charset, other: Charset) -> Charset:
    return Charset(other.name or one.name, other.collation or one.collation)
