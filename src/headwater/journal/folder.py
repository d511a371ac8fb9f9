"""The journal's folder: what lies where, whose journal it is, who reads it and how far they are.

journal.json         whose log this is, and the format's version
segments/N.hwj       blocks, in order
schemas/ID.json      table definitions that blocks name
consumers/ID.json    the durable position of everybody who reads: confirmation follows the slowest
source/              what the source keeps for its next run
tail.json            what the tail says about itself
tail.lock            held by the one process that writes
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headwater.errors import Stop
from headwater.event import Position, TableSchema

FORMAT_VERSION = 1


class Journal:
    """Paths and small files of one journal. Any process may have one; only the tail writes segments."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.segments = self.path / "segments"
        self.schemas = self.path / "schemas"
        self.consumers = self.path / "consumers"
        self.source = self.path / "source"

    def create(self, source_type: str, identity: str, facts: Mapping[str, str]) -> None:
        """Make the folder for this log, or check that it is this log's."""
        for folder in (self.segments, self.schemas, self.consumers, self.source):
            folder.mkdir(parents=True, exist_ok=True)
        known = self.about()
        if known is None:
            self._write_file(
                self.path / "journal.json",
                {"format": FORMAT_VERSION, "source": source_type, "identity": identity, "facts": dict(facts)},
            )
        elif known["identity"] != identity:
            raise Stop(
                f"the journal in {self.path} belongs to another log: {known['identity']}, not {identity}",
                "Give this pipeline a state folder of its own (`state:` in its file)",
                "If the server was rebuilt or restored: its history is another one now; remove the state folder"
                " and the tables in the lake to load everything anew",
            )

    def about(self) -> Mapping[str, Any] | None:
        """Whose journal this is; None before the first use."""
        read = read_json(self.path / "journal.json")
        if read is not None and read.get("format") != FORMAT_VERSION:
            raise Stop(
                f"the journal in {self.path} has format {read.get('format')}; this version reads {FORMAT_VERSION}",
                "Upgrade headwater, or give this pipeline another state folder",
            )
        return read

    # -- schemas -----------------------------------------------------------------------------------

    def store_schema(self, table: TableSchema) -> None:
        """Keep a definition; before the first block that names it."""
        path = self.schemas / f"{table.id}.json"
        if not path.exists():
            write_atomically(path, table.to_json())
            sync_folder(self.schemas)

    def schema(self, schema: str) -> TableSchema:
        try:
            return TableSchema.from_json((self.schemas / f"{schema}.json").read_bytes())
        except FileNotFoundError as error:
            raise Stop(f"the journal in {self.path} lacks the table definition {schema}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise Stop(f"the table definition {schema} in the journal in {self.path} is damaged") from error

    # -- consumers ---------------------------------------------------------------------------------

    def set_consumer(self, name: str, position: Position | None) -> None:
        """`name` holds everything up to `position` durably; None: it reads, but holds nothing yet."""
        self._write_file(
            self.consumers / f"{quote(name, safe='')}.json",
            {"name": name, "position": None if position is None else json.loads(position.to_json())},
        )

    def remove_consumer(self, name: str) -> None:
        """`name` does not read any more: nothing is kept for it."""
        (self.consumers / f"{quote(name, safe='')}.json").unlink(missing_ok=True)

    def consumer_positions(self) -> dict[str, Position | None]:
        """Everybody who reads, and how far each is durable."""
        found: dict[str, Position | None] = {}
        for path in sorted(self.consumers.glob("*.json")):
            read = read_json(path)
            if read is not None:
                stored = read["position"]
                found[read["name"]] = None if stored is None else Position.from_json(json.dumps(stored))
        return found

    def durable(self) -> Position | None:
        """What every consumer holds; None when there is none, or one that holds nothing."""
        positions = self.consumer_positions().values()
        held = [position for position in positions if position is not None]
        return min(held) if held and len(held) == len(positions) else None

    # -- the tail's word ---------------------------------------------------------------------------

    def set_status(self, status: Mapping[str, Any]) -> None:
        """Written by the tail, a few times a second at most; not worth an fsync."""
        write_atomically(self.path / "tail.json", json.dumps(status), sync=False)

    def status(self) -> Mapping[str, Any]:
        return read_json(self.path / "tail.json") or {}

    def _write_file(self, path: Path, fields: Mapping[str, Any]) -> None:
        write_atomically(path, json.dumps(fields, ensure_ascii=False))


def write_atomically(path: Path, text: str, *, sync: bool = True) -> None:
    """The file has the old content or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: Path) -> dict[str, Any] | None:
    """A small JSON file; None when it does not exist. Damage is an error, never an empty answer."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        read = json.loads(text)
        if not isinstance(read, dict):
            raise TypeError
    except (ValueError, TypeError) as error:
        raise Stop(
            f"{path} is damaged: it is not the JSON that was written there",
            "Restore it from a backup, or remove the state folder and the tables in the lake to load everything anew",
        ) from error
    return read
