"""The captured tables as they were last seen, kept with the journal.

When the log says that a table was dropped, the catalog does not have it any more; and a tail that has just begun has
read nothing of it yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from headwater.event import TableSchema
from headwater.journal import SourceFiles

_FILE = "tables.json"


class KnownTables:
    """By database and name. Without a journal they are forgotten with this object."""

    def __init__(self, files: SourceFiles | None, now: Iterable[TableSchema]) -> None:
        self._files = files
        stored = (files.read_json(_FILE) or {}) if files is not None else {}
        read = [TableSchema.from_json(json.dumps(table)) for table in stored.get("tables", [])]
        self._tables = {(table.schema, table.name): table for table in read}
        self._learn(now)

    def find(self, database: str, table: str) -> TableSchema | None:
        return self._tables.get((database, table))

    def of_database(self, database: str) -> list[TableSchema]:
        return [table for (own, _name), table in self._tables.items() if own == database]

    def remember(self, table: TableSchema) -> None:
        """This is how a table looks from now on."""
        self._learn([table])

    def _learn(self, tables: Iterable[TableSchema]) -> None:
        changed = False
        for table in tables:
            before = self._tables.get((table.schema, table.name))
            self._tables[table.schema, table.name] = table
            changed = changed or before is None or _shape(before) != _shape(table)
        if changed and self._files is not None:
            whole = {"tables": [json.loads(table.to_json()) for table in self._tables.values()]}
            self._files.write(_FILE, json.dumps(whole, ensure_ascii=False))


def _shape(table: TableSchema) -> list[tuple[str, str]]:
    return [(column.name, str(column.arrow)) for column in table.columns]
