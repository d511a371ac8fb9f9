"""What a logged statement does to definitions of tables: text in, plain data out. No I/O.

sqlglot's parser is not asked: it passes over clauses it does not know, and what is passed over here would be a column
read under another's name. The grammar has the statements that change columns and keys; whatever it does not expect
raises `Unreadable`.
"""

from __future__ import annotations

from dataclasses import replace

from headwater.sources.mysql.ddl import (
    Action,
    AddColumn,
    AlterTable,
    ChangeColumn,
    Charset,
    ColumnText,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropTables,
    Rename,
    RenameColumn,
    RenameTables,
    SetCharset,
    SetDatabase,
    SetDefault,
    SetKey,
    Statement,
)
from headwater.sources.mysql.ddl_columns import Columns
from headwater.sources.mysql.ddl_words import executed, words_of

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


def parse_ddl(text: str, sql_mode: int = 0, version: int = 0, *, mariadb: bool = False) -> Statement | None:
    """What a statement does to definitions; None: nothing. `version` decides which comments the server has executed."""
    return _Grammar(words_of(executed(text, version, mariadb), sql_mode)).statement()


class _Grammar(Columns):
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
                found = found.also(clause)
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
                found = found.also(clause)
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
                return [SetCharset(charset.also(self.charset()), convert=True)]
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
                found = found.also(clause)
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
