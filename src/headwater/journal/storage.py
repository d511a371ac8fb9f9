"""Where a journal lies: the one interface that a folder, an object store or anything else has to offer.

Two things are stored. Small files (`journal.json`, `consumers/…`), each replaced as a whole; and blocks, appended by
one writer, read by anybody, in segments whose names are in order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from headwater.event import Chunk
from headwater.journal.block import Header
from headwater.journal.writer import JournalWriter, Limits


@dataclass(frozen=True)
class BlockRef:
    """Where a block lies, and its header: the index entry."""

    segment: str
    offset: int
    size: int
    header: Header


class Cursor(ABC):
    """Goes through the blocks in order, as they are written."""

    @abstractmethod
    def new_blocks(self) -> list[BlockRef]:
        """What was written since the last call, without what a new session of the writer has cut off by now.

        Called a hundred times a second while nothing happens."""


class Storage(ABC):
    """One journal's place. Any process may have one; only `writer` is for one at a time."""

    # How often the tail looks for consumers' positions, and says a word about itself.
    pace: ClassVar[float] = 0.2
    # Folder or URL, with nothing secret in it: it stands in plans and messages.
    place: str

    @abstractmethod
    def read(self, name: str) -> str | None:
        """A small file; None when there is none."""

    @abstractmethod
    def write(self, name: str, text: str, *, durable: bool = True) -> None:
        """Replace a small file as a whole: readers see the old text or the new one. `durable`: it survives a crash of
        the machine."""

    @abstractmethod
    def append(self, name: str, text: str) -> None:
        """Add to a small file, durably. By one process at a time, and rarely; a crash may leave a part."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """The small files of a folder, as `folder/name`, in order."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a small file, if it is there."""

    @abstractmethod
    def cursor(self) -> Cursor:
        """Everything from the oldest block on."""

    @abstractmethod
    def block(self, segment: str, offset: int, size: int) -> Chunk:
        """One block, checksums checked. What executors call."""

    @abstractmethod
    def writer(self, limits: Limits) -> JournalWriter:
        """Take the journal for writing. Raises JournalBusy when another process has it."""

    @abstractmethod
    def written_by(self) -> str | None:
        """The PID of the tail that writes now, on whatever machine; None when there is none."""

    @abstractmethod
    def size(self) -> int:
        """Bytes of all segments."""

    def free(self) -> int | None:
        """Bytes that are left on its disk; None when that is not ours to watch."""
        return None
