"""A journal: whose log it is, the table definitions that its blocks name, who reads it and how far they are.

journal.json         whose log this is, and the format's version
begin.json           where the log begins, as the run has found or made it
segments/N.hwj       blocks, in order
schemas/ID.json      table definitions that blocks name
consumers/ID.json    the durable position of everybody who reads: confirmation follows the slowest
source/              what the source keeps for its next run
tail.json            what the tail says about itself
tail.lock            in a folder: held by the one process that writes
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from headwater.errors import Retry, Stop, Usage
from headwater.event import Position, TableSchema
from headwater.journal.files import parse_json
from headwater.journal.folder import FolderStorage
from headwater.journal.storage import Storage
from headwater.journal.writer import JournalWriter, Limits

FORMAT_VERSION = 1
_S3 = re.compile(r"s3://[a-z0-9][a-z0-9.-]+(/[^?#@]*)?")
_KAFKA = re.compile(r"kafka://[A-Za-z0-9.:,_\[\]-]+/[A-Za-z0-9._-]{1,240}")


class Journal:
    """One journal, wherever it lies: a folder, `s3://bucket/prefix`, `kafka://broker/topic`."""

    def __init__(self, place: str | os.PathLike[str] | Storage) -> None:
        self.storage = place if isinstance(place, Storage) else open_storage(os.fspath(place))
        self.source = SourceFiles(self.storage)
        self._about: Mapping[str, Any] | None = None

    @property
    def place(self) -> str:
        """The folder or URL, for messages and for opening it elsewhere."""
        return self.storage.place

    def writer(self, limits: Limits) -> JournalWriter:
        """Take it for writing: one process at a time."""
        return self.storage.writer(limits)

    def create(self, source_type: str, identity: str, facts: Mapping[str, str]) -> None:
        """Make it this log's, or check that it is."""
        self._about = None
        known = self.about()
        if known is None:
            self._write(
                "journal.json",
                {"format": FORMAT_VERSION, "source": source_type, "identity": identity, "facts": dict(facts)},
            )
        elif known["identity"] != identity:
            raise Stop(
                f"the journal in {self.place} belongs to another log: {known['identity']}, not {identity}",
                "Give this pipeline a state folder of its own (`state:` in its file), and a journal (`journal:`)",
                "If the server was rebuilt or restored: its history is another one now; remove the state folder"
                " and the tables in the lake to load everything anew",
            )

    def about(self) -> Mapping[str, Any] | None:
        """Whose journal this is; None before the first use."""
        if self._about is None:
            read = self._read("journal.json")
            if read is not None and read.get("format") != FORMAT_VERSION:
                raise Stop(
                    f"the journal in {self.place} has format {read.get('format')}; this version reads {FORMAT_VERSION}",
                    "Upgrade headwater, or give this pipeline another state folder",
                )
            self._about = read
        return self._about

    def set_begin(self, position: Position) -> None:
        """The log begins here: said by whoever has prepared it, before the first tail."""
        self._write("begin.json", {"position": json.loads(position.to_json())})

    def begin(self) -> Position | None:
        """Where the log begins; None before it was prepared."""
        read = self._read("begin.json")
        return None if read is None else Position.from_json(json.dumps(read["position"]))

    # -- schemas -----------------------------------------------------------------------------------

    def store_schema(self, table: TableSchema) -> None:
        """Keep a definition; before the first block that names it."""
        name = f"schemas/{table.id}.json"
        if self.storage.read(name) is None:
            self.storage.write(name, table.to_json())

    def schema(self, schema: str) -> TableSchema:
        text = self.storage.read(f"schemas/{schema}.json")
        if text is None:
            raise Stop(f"the journal in {self.place} lacks the table definition {schema}")
        try:
            return TableSchema.from_json(text)
        except (ValueError, KeyError, TypeError) as error:
            raise Stop(f"the table definition {schema} in the journal in {self.place} is damaged") from error

    # -- consumers ---------------------------------------------------------------------------------

    def set_consumer(self, name: str, position: Position | None) -> None:
        """`name` holds everything up to `position` durably; None: it reads, but holds nothing yet."""
        self._write(
            _consumer(name), {"name": name, "position": None if position is None else json.loads(position.to_json())}
        )

    def remove_consumer(self, name: str) -> None:
        """`name` does not read any more: nothing is kept for it."""
        self.storage.remove(_consumer(name))

    def consumer_positions(self) -> dict[str, Position | None]:
        """Everybody who reads, and how far each is durable."""
        found: dict[str, Position | None] = {}
        for name in self.storage.names("consumers"):
            read = self._read(name)
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
        self.storage.write("tail.json", json.dumps(status), durable=False)

    def status(self) -> Mapping[str, Any]:
        """What the tail said last; nothing when it never spoke, or cannot be heard now."""
        try:
            return self._read("tail.json") or {}
        except Retry:
            return {}

    def _read(self, name: str) -> dict[str, Any] | None:
        text = self.storage.read(name)
        return None if text is None else parse_json(text, f"{self.place}/{name}")

    def _write(self, name: str, fields: Mapping[str, Any]) -> None:
        self.storage.write(name, json.dumps(fields, ensure_ascii=False))


class SourceFiles:
    """What a source keeps for its next run, on whatever machine that is."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def where(self, name: str) -> str:
        """The file as a person finds it."""
        return f"{self._storage.place}/source/{name}"

    def read(self, name: str) -> str | None:
        return self._storage.read(f"source/{name}")

    def read_json(self, name: str) -> dict[str, Any] | None:
        """Damage is an error, never an empty answer."""
        text = self.read(name)
        return None if text is None else parse_json(text, self.where(name))

    def write(self, name: str, text: str) -> None:
        """Replace it as a whole, durably."""
        self._storage.write(f"source/{name}", text)

    def append(self, name: str, text: str) -> None:
        """Add to it, durably."""
        self._storage.append(f"source/{name}", text)


def open_storage(place: str) -> Storage:
    """What a journal's folder or URL means. Does no I/O."""
    scheme, separator, _rest = place.partition("://")
    if not separator:
        return FolderStorage(place)
    if scheme == "s3":
        if not _S3.fullmatch(place):
            # Not shown: it may hold a password.
            raise Usage("journal: this is not s3://bucket/prefix", "Credentials come from the environment: AWS_…")
        try:
            from headwater.journal.objects import storage_at
        except ImportError as error:
            raise Usage(f"a journal at {place} needs obstore", "pip install 'headwater[s3]'") from error
        return storage_at(place.rstrip("/"))
    if scheme == "kafka":
        if not _KAFKA.fullmatch(place):
            raise Usage("journal: this is not kafka://broker:port/topic", "Settings come from HEADWATER_JOURNAL_KAFKA")
        try:
            from headwater.journal.kafka import storage_at as topic_at
        except ImportError as error:
            raise Usage(f"a journal at {place} needs confluent-kafka", "pip install 'headwater[kafka]'") from error
        return topic_at(place)
    raise Usage(
        f"a journal cannot lie at {scheme}://",
        "journal: s3://bucket/prefix, kafka://broker/topic, or leave it out: a local folder",
    )


def _consumer(name: str) -> str:
    return f"consumers/{quote(name, safe='')}.json"
