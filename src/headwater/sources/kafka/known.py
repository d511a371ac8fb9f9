"""What another run has learned of topics: the columns and keys of their tables, since when partitions have them."""

from __future__ import annotations

import json
from pathlib import Path

from headwater.event import TableSchema
from headwater.journal.folder import read_json, write_atomically

_FILE = "tables.json"
# Column → the first offset of a record that had it.
Since = dict[str, int]


class KnownTables:
    """The last table of every topic, kept in the journal's folder when there is one."""

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / _FILE if folder is not None else None
        read = (read_json(self._path) or {}) if self._path is not None else {}
        self._tables = {topic: TableSchema.from_json(json.dumps(told["table"])) for topic, told in read.items()}
        self._since: dict[str, dict[int, Since]] = {
            topic: {int(partition): since for partition, since in told["since"].items()} for topic, told in read.items()
        }
        self._written = json.dumps(read)

    def __call__(self, topic: str) -> TableSchema | None:
        return self._tables.get(topic)

    def since(self, topic: str, partition: int) -> Since:
        """Changed by whoever asks."""
        return self._since.setdefault(topic, {}).setdefault(partition, {})

    def remember(self, table: TableSchema) -> None:
        """This is how a topic's table looks from now on."""
        self._tables[str(table.detail["topic"])] = table

    def save(self) -> None:
        """Write what has changed."""
        if self._path is None:
            return
        whole = {
            topic: {"table": json.loads(table.to_json()), "since": self._since.get(topic, {})}
            for topic, table in self._tables.items()
        }
        text = json.dumps(whole, ensure_ascii=False)
        if text != self._written:
            write_atomically(self._path, text)
            self._written = text
