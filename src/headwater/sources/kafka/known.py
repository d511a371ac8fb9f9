"""What another run has learned of tables: columns of events without a schema, and the key of every topic."""

from __future__ import annotations

import json
from pathlib import Path

from headwater.event import TableSchema
from headwater.journal.folder import read_json, write_atomically

_FILE = "tables.json"


class KnownTables:
    """The last table of every topic, kept in the journal's folder when there is one."""

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / _FILE if folder is not None else None
        read = (read_json(self._path) or {}) if self._path is not None else {}
        self._tables = {topic: TableSchema.from_json(json.dumps(text)) for topic, text in read.items()}

    def __call__(self, topic: str) -> TableSchema | None:
        return self._tables.get(topic)

    def remember(self, table: TableSchema) -> None:
        """This is how a topic's table looks from now on."""
        topic = str(table.detail["topic"])
        known = self._tables.get(topic)
        if known is not None and known.id == table.id:
            return
        self._tables[topic] = table
        if self._path is not None:
            whole = {name: json.loads(each.to_json()) for name, each in self._tables.items()}
            write_atomically(self._path, json.dumps(whole, ensure_ascii=False))
