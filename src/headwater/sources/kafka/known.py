"""What another run has learned of topics: the columns and keys of their tables, since when partitions have them."""

from __future__ import annotations

import json

from headwater.event import TableSchema
from headwater.journal import SourceFiles

_FILE = "tables.json"
# Column → the first offset of a record that had it.
Since = dict[str, int]


class KnownTables:
    """The last table of every topic, kept in the journal when there is one."""

    def __init__(self, files: SourceFiles | None) -> None:
        self._files = files
        read = (files.read_json(_FILE) or {}) if files is not None else {}
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
        if self._files is None:
            return
        whole = {
            topic: {"table": json.loads(table.to_json()), "since": self._since.get(topic, {})}
            for topic, table in self._tables.items()
        }
        text = json.dumps(whole, ensure_ascii=False)
        if text != self._written:
            self._files.write(_FILE, text)
            self._written = text
