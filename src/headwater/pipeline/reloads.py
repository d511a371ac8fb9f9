"""Tables that a person wants to have loaded anew (`headwater snapshot`); kept in the state folder until they are."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path

from headwater.journal.files import read_json, write_atomically

_FILE = "snapshot.json"


class Reloads:
    """By sink. A table that was loaded and not crossed off yet is loaded once more: that has no second effect."""

    def __init__(self, state: Path) -> None:
        self._path = state / _FILE
        self._lock = threading.Lock()

    def of(self, sink: str) -> set[str]:
        """The tables that this sink is to get anew."""
        return set(self._read().get(sink, []))

    def add(self, sink: str, tables: Iterable[str]) -> None:
        self._change(sink, self.of(sink) | set(tables))

    def done(self, sink: str, table: str) -> None:
        """It is loaded."""
        if table in (wanted := self.of(sink)):
            self._change(sink, wanted - {table})

    def _change(self, sink: str, tables: set[str]) -> None:
        with self._lock:
            whole = {**self._read(), sink: sorted(tables)}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path, json.dumps({name: names for name, names in whole.items() if names}))

    def _read(self) -> dict[str, list[str]]:
        return read_json(self._path) or {}
