"""Where things lie under a lake's root: a table's folder, a file, the pipeline's position file.

Knows names and storage and nothing of Delta; local folders and object stores look alike from here.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.fs as pafs

from headwater.errors import Usage
from headwater.event import TableSchema

# Folder names with a meaning of their own under the root or inside a Delta table.
RESERVED = frozenset({"_headwater", "_delta_log"})

_PLAIN = re.compile(r"[A-Za-z0-9_.-]")


def encode_name(name: str) -> str:
    """An identifier as one path part: what is not a plain letter is `~XX` per UTF-8 byte, reversibly.

    Percent-encoding with `~` for `%`, because delta-rs decodes a `%2F` in a local path into a folder
    (seen with 1.6.6) and Hadoop does the like in URLs; `~` means nothing to either."""
    hide_first = name.startswith(".") or name in RESERVED
    parts = []
    for at, letter in enumerate(name):
        if _PLAIN.fullmatch(letter) and not (at == 0 and hide_first):
            parts.append(letter)
        else:
            parts.extend(f"~{byte:02X}" for byte in letter.encode())
    return "".join(parts)


def decode_name(part: str) -> str:
    """What `encode_name` was given."""
    return unquote(part.replace("~", "%"))


@dataclass(frozen=True)
class Lake:
    """The root of all tables: a local folder or an object-store URL."""

    # An absolute folder, or a URL with a scheme.
    root: str
    storage_options: Mapping[str, str]

    @staticmethod
    def at(path: str, storage_options: Mapping[str, str]) -> Lake:
        """The lake that a user's `path` names. Does no I/O."""
        if "%" in path:
            raise Usage(
                f"sink delta: the path {path!r} contains '%', which the Delta writer would decode",
                "choose a path without percent signs",
            )
        if path.startswith("file://"):
            path = path.removeprefix("file://")
        if "://" not in path:
            path = os.path.abspath(os.path.expanduser(path))
        return Lake(path.rstrip("/") or "/", dict(storage_options))

    @property
    def local(self) -> bool:
        return "://" not in self.root

    def table_uri(self, table: TableSchema) -> str:
        """The folder of one table: <root>/<schema>/<table>, each part encoded."""
        return "/".join([self.root, *(encode_name(part) for part in (table.schema, table.name) if part)])

    def folder(self, uri: str) -> Folder:
        return Folder(uri, self.storage_options)

    def position_file(self, pipeline: str) -> tuple[Folder, str]:
        """The folder and the name of the file that holds the pipeline's own position."""
        return self.folder(f"{self.root}/_headwater"), f"{encode_name(pipeline)}.json"

    def writable(self) -> str:
        """Why nothing can be written here, or "" when it can. Leaves nothing behind."""
        if self.local:
            folder = Path(self.root)
            while not folder.exists():
                folder = folder.parent
            if not folder.is_dir():
                return f"{folder} is not a folder"
            return "" if os.access(folder, os.W_OK | os.X_OK) else f"no permission to write in {folder}"
        try:
            folder_here = self.folder(f"{self.root}/_headwater")
            folder_here.put("probe", b"")
            folder_here.delete("probe")
        except Exception as error:  # whatever the object store says is the finding
            return f"{type(error).__name__}: {error}"
        return ""


@dataclass(frozen=True)
class Folder:
    """One folder of files, local or in an object store."""

    uri: str
    storage_options: Mapping[str, str]

    @property
    def local(self) -> bool:
        return "://" not in self.uri

    @cached_property
    def files(self) -> pafs.FileSystem:
        """A pyarrow filesystem whose root is this folder."""
        if self.local:
            return pafs.SubTreeFileSystem(self.uri, pafs.LocalFileSystem())
        from deltalake.fs import DeltaStorageHandler

        return pafs.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.storage_options)))

    def create(self, name: str) -> Any:
        """A new file to write to, in a folder made when it is missing."""
        if self.local:
            os.makedirs(self.uri, exist_ok=True)
        return self.files.open_output_stream(name)

    def get(self, name: str) -> bytes | None:
        """A file's bytes; None when there is none."""
        if self.files.get_file_info(name).type == pafs.FileType.NotFound:
            return None
        with self.files.open_input_stream(name) as stream:
            return bytes(stream.read())

    def put(self, name: str, content: bytes) -> None:
        """Replace a file in one step: a reader sees the old bytes or the new ones, after a crash too."""
        if not self.local:
            with self.create(name) as stream:
                stream.write(content)
            return
        os.makedirs(self.uri, exist_ok=True)
        unfinished = os.path.join(self.uri, f".{name}.{os.getpid()}")
        with open(unfinished, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(unfinished, os.path.join(self.uri, name))
        self.sync(".")

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.files.delete_file(name)

    def sync(self, *names: str) -> None:
        """Force files (or "." for the folder's own entries) to disk. An object store has already done it."""
        if not self.local:
            return
        for name in names:
            handle = os.open(os.path.join(self.uri, name), os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def __getstate__(self) -> dict[str, Any]:
        return {"uri": self.uri, "storage_options": self.storage_options}
