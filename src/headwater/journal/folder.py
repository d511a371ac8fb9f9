"""A journal in a local folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from headwater.event import Chunk
from headwater.journal.file_writer import FileWriter
from headwater.journal.files import sync_folder, write_atomically
from headwater.journal.locks import lock_held
from headwater.journal.segments import FileCursor, read_block
from headwater.journal.storage import Cursor, Storage
from headwater.journal.writer import JournalWriter, Limits


class FolderStorage(Storage):
    """The default. One process writes, held by a lock that the kernel frees with it; others read the same disk."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.place = str(self.path)
        self.segments = self.path / "segments"
        self.lock = self.path / "tail.lock"

    def read(self, name: str) -> str | None:
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str, *, durable: bool = True) -> None:
        path = self.path / name
        if path.exists():
            write_atomically(path, text, sync=durable)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text, sync=durable)
        if durable:
            sync_folder(path.parent)

    def append(self, name: str, text: str) -> None:
        with (self.path / name).open("a", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def names(self, folder: str) -> list[str]:
        return [f"{folder}/{path.name}" for path in sorted((self.path / folder).glob("*.json"))]

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def cursor(self) -> Cursor:
        return FileCursor(self.segments)

    def block(self, segment: str, offset: int, size: int) -> Chunk:
        return read_block(os.path.join(self.segments, segment), offset)

    def writer(self, limits: Limits) -> JournalWriter:
        return FileWriter(self.path, self.segments, self.lock, limits)

    def written_by(self) -> str | None:
        return self.lock.read_text(encoding="utf-8") if lock_held(self.lock) else None

    def size(self) -> int:
        return sum(path.stat().st_size for path in self.segments.glob("*.hwj"))

    def free(self) -> int:
        return shutil.disk_usage(self.path).free
