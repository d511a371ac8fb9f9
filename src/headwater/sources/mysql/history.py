"""The definitions of tables at any position, for logs that do not name their columns (`binlog_row_metadata`).

They are taken from the catalog once, at a known position, and follow the log from there. Two files in the folder that
the journal has for its source:

definitions.jsonl   first all definitions as they were at one position, then a line for every statement that changed
                    some, on disk before any row that was written under it is handed on
definitions.json    how far the log has been looked through, and below which position nobody will ask again

What is found there is cut to the position that reading begins at: what follows comes again from the log.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from headwater.errors import Stop
from headwater.event import Position, TableSchema
from headwater.journal import SourceFiles
from headwater.sources.mysql.binlog import Query
from headwater.sources.mysql.charset import decode_text
from headwater.sources.mysql.ddl import Unreadable, tables_of
from headwater.sources.mysql.ddl_grammar import parse_ddl
from headwater.sources.mysql.definitions import Definitions, Flavour, Impossible
from headwater.sources.mysql.position import Progress, parse_progress
from headwater.sources.mysql.schema_change import SchemaChange, TableChange
from headwater.sources.mysql.statement import defines_tables

LOG = logging.getLogger("headwater.mysql")

LINES, MARK = "definitions.jsonl", "definitions.json"
# A log that is read on after a crash is looked through again from the last mark.
MARK_SECONDS = 10.0
_ANEW = "To load the tables anew: remove the state folder and the tables in the lake, and run again"
Name = tuple[str, str]


@dataclass
class History:
    """Definitions at the place where the log is read."""

    definitions: Definitions
    # Every statement up to here has been looked at.
    seen: Progress
    captured: Callable[[str, str], bool]
    # What keeps it; None: it lives as long as this process.
    files: SourceFiles | None = None
    # A statement that cannot be read changes nothing: somebody has said so.
    lenient: bool = False
    # The log names columns itself at present: what cannot be followed is forgotten.
    spare: bool = False
    # Nobody asks for positions before this one.
    floor: int = 0
    # Transactions that begin before this have been followed; looked through again, they are passed over.
    followed: int = 0
    _marked: float = 0.0

    # -- using it --

    def find(self, name: Name) -> TableSchema | None:
        """The table as it is at this place of the log."""
        return self.definitions.find(name)

    def define(self, query: Query, charsets: dict[int, str], commit: int, place: str) -> SchemaChange | None:
        """Follow a statement; what it changed. Raises Stop when it cannot be read and may change a captured table."""
        text = _decoded(query, charsets)
        if commit < self.followed or not defines_tables(text):
            return None
        before = self.definitions
        now = replace(
            self.definitions, tables=copy(self.definitions.tables), databases=copy(self.definitions.databases)
        )
        default = charsets.get(query.default, "utf8mb4")
        names = self._follow(now, query, text, default, place)
        if names or now.databases != self.definitions.databases:
            self.definitions, self.followed = now, commit + 1
            self._append(commit, text, query.database, sorted(set(names)))
        return SchemaChange(query.database, text, _changes(before, now, list(dict.fromkeys(names))))

    def read_up_to(self, progress: Progress, *, now: bool = False) -> None:
        """Everything before `progress` has been looked at."""
        self.seen = progress
        if self.files is not None and (now or time.monotonic() - self._marked >= MARK_SECONDS):
            self._marked = time.monotonic()
            self.files.write(MARK, json.dumps({"seen": progress.text(), "floor": self.floor}))

    def _follow(self, now: Definitions, query: Query, text: str, default: str, place: str) -> list[Name]:
        flavour = now.flavour
        touched: tuple[Name, ...] = ()
        try:
            statement = parse_ddl(text, query.sql_mode, flavour.version, mariadb=flavour.mariadb)
            if statement is None:
                return []
            touched = tables_of(statement)
            return now.apply(statement, query.database, default)
        except (Unreadable, Impossible) as error:
            why = f"not understood near {error.near!r}" if isinstance(error, Unreadable) else str(error)
            names = [(database or query.database, table) for database, table in getattr(error, "names", touched)]
        if self.lenient:
            LOG.warning("a statement at %s was passed over (%s): %s", place, why, text[:500])
            return []
        if self.spare or (names and not any(self.captured(*name) for name in names)):
            # Whoever needs such a definition, or makes it a captured table's by a RENAME, will be stopped then.
            lost = [flavour.name(name) for name in names] or list(now.tables)
            return [name for name in lost if now.tables.pop(name, None)]
        raise Stop(
            f"a statement at {place} changes definitions in a way that is not followed: {text[:500]}",
            "If it changes no column of a captured table: source.skip_unparseable_ddl: true, and run again",
            "Otherwise: set global binlog_row_metadata = 'FULL'; and load the tables anew",
            cause=f"{why[:1].upper()}{why[1:]}. The log does not name the columns of its rows (binlog_row_metadata), so"
            " every definition has to be followed",
        )

    # -- keeping it --

    def save(self, commit: int) -> None:
        """All definitions as they are now, at `commit`, instead of whatever was kept."""
        self.followed = commit
        if self.files is not None:
            base = {"commit": commit, "databases": self.definitions.databases}
            tables = [json.loads(table.to_json()) for table in self.definitions.tables.values()]
            self.files.write(LINES, _line(base | {"tables": tables}))
            self.read_up_to(self.seen, now=True)

    def _append(self, commit: int, text: str, database: str, names: list[Name]) -> None:
        if self.files is None:
            return
        tables = {name: self.definitions.tables.get(name) for name in names}
        entry = {
            "commit": commit,
            "database": database,
            "statement": text,
            "tables": [json.loads(table.to_json()) for table in tables.values() if table],
            "gone": [list(name) for name, table in tables.items() if table is None],
            "databases": self.definitions.databases,
        }
        self.files.append(LINES, _line(entry))


def _changes(before: Definitions, now: Definitions, names: list[Name]) -> tuple[TableChange, ...]:
    """What became of tables. One that was renamed has been altered, and has the new name only."""
    gone = [name for name in names if name not in now.tables]
    moved = len(gone) < len(names)
    found = []
    for name in names:
        if name in now.tables:
            kind = "ALTER" if name in before.tables or gone else "CREATE"
            found.append(TableChange(kind, name, now.tables[name]))
        elif not moved:
            found.append(TableChange("DROP", name, None))
    return tuple(found)


def load_history(
    files: SourceFiles, flavour: Flavour, captured: Callable[[str, str], bool], after: Position
) -> History | None:
    """What was kept, as of `after`; None when there is nothing."""
    mark, lines = files.read_json(MARK), files.read(LINES)
    if mark is None or lines is None:
        return None
    base, entries, torn = _read_lines(lines, files.where(LINES))
    if after.commit < base["commit"]:
        raise Stop(
            f"the definitions of tables are known from {base['commit']} on, not at our position {after.commit}",
            _ANEW,
            cause="The journal was restored from an older backup than its definitions",
        )
    floor = int(mark.get("floor", 0))
    found = History(Definitions(flavour), parse_progress(mark["seen"]), captured, files, floor=floor)
    _put(found.definitions, base)
    # The transaction that begins at `commit` lies behind a position with the same number.
    before = [entry for entry in entries if entry["commit"] < after.commit]
    kept = [entry for entry in before if entry["commit"] >= floor]
    for entry in before[: len(before) - len(kept)]:
        _put(found.definitions, entry)
        base = base | {"commit": entry["commit"] + 1}
    if len(kept) < len(entries) or torn:
        tables = [json.loads(table.to_json()) for table in found.definitions.tables.values()]
        base = {"commit": base["commit"], "databases": found.definitions.databases, "tables": tables}
        files.write(LINES, "".join(map(_line, [base, *kept])))
    for entry in kept:
        _put(found.definitions, entry)
    found.followed = kept[-1]["commit"] + 1 if kept else base["commit"]
    return found


def _put(definitions: Definitions, entry: dict[str, Any]) -> None:
    definitions.databases = dict(entry["databases"])
    for database, table in entry.get("gone", ()):
        definitions.tables.pop((database, table), None)
    for fields in entry["tables"]:
        table = TableSchema.from_json(json.dumps(fields))
        definitions.tables[table.schema, table.name] = table


def _read_lines(text: str, where: str) -> tuple[dict[str, Any], list[dict[str, Any]], bool]:
    """The first line, the others, and whether one was cut short: what it would have said comes again from the log."""
    *lines, rest = text.split("\n")
    try:
        base, *entries = map(json.loads, lines)
        return base, entries, bool(rest)
    except ValueError as error:
        raise Stop(f"{where} is damaged: it is not what was written there", _ANEW) from error


def _line(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False) + "\n"


def _decoded(query: Query, charsets: dict[int, str]) -> str:
    charset = charsets.get(query.client, "utf8mb4")
    try:
        return decode_text(query.raw, "utf8mb4" if charset == "binary" else charset)
    except UnicodeDecodeError:
        return query.text
