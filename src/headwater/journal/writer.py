"""Appending to the journal: one writer, whole blocks, a cap on the whole. Where they go is the storage's business.

After a crash the unfinished end is given up; damage anywhere else is refused.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors import HeadwaterError, Stop
from headwater.event import ORIGIN, Chunk, Position
from headwater.failpoints import failpoint
from headwater.journal.block import encode_block


@dataclass(frozen=True)
class Limits:
    """How much, how long, and how often."""

    # At this size reading pauses until consumers have moved on.
    max_bytes: int
    # What nobody needs any more stays this long, for replays.
    keep_seconds: float = 0.0
    # Where a segment cannot grow once it is there: at most one in this time, and none larger than this unless a single
    # block is.
    seal_seconds: float = 0.5
    seal_bytes: int = 8 << 20


class JournalFull(HeadwaterError):
    """The cap or the disk is reached; try again when consumers have moved on."""

    def __init__(self, what: str, *, wanted: int, at_cap: bool = False) -> None:
        super().__init__(what)
        # Bytes of the block that did not fit.
        self.wanted = wanted
        self.at_cap = at_cap


class JournalBusy(Stop):
    """Another process writes this journal."""


class JournalWriter(ABC):
    """The one writer. Opening it takes the journal, checks the end and gives up what a crash left there."""

    # What was appended is durable after this long, unless a storage says otherwise.
    sync_seconds = 1.0

    def __init__(self, place: str, limits: Limits) -> None:
        self.place = place
        self.limits = limits
        # The last whole transaction that was appended, and that is durable.
        self.end: Position = ORIGIN
        self.synced: Position = ORIGIN
        # The end of the last block that holds anything; behind it the log has only moved on.
        # `_whole_frame` is the same among whole transactions.
        self.last_frame: Position = ORIGIN
        self._whole_frame: Position = ORIGIN
        # Blocks behind the last whole transaction, and where the last block ends.
        self._unfinished = False
        self._last: Position = ORIGIN
        self._session = ""
        self._last_sync = time.monotonic()

    def append(self, chunk: Chunk) -> None:
        """Write one chunk behind the others. Raises JournalFull, with nothing written, when it does not fit."""
        if ORIGIN < self._last < chunk.first:
            raise Stop(
                f"the log goes on at {chunk.first.to_json()}, but the journal in {self.place} ends at"
                f" {self._last.to_json()}",
                cause="What lies in between would be missing without a trace",
            )
        parts = encode_block(chunk, self._session)
        size = sum(len(part) for part in parts)
        self.refuse_if_full(size)
        self._write(parts, size, chunk)
        self._unfinished = not chunk.whole
        self._last = chunk.last
        if len(chunk.lengths):
            self.last_frame = chunk.last
        if chunk.whole:
            self.end, self._whole_frame = chunk.last, self.last_frame
        failpoint("journal.after_append")
        self.sync_when_due()

    def refuse_if_full(self, size: int, aside: int = 0) -> None:
        """Raise JournalFull when `size` bytes more would be too many, with those that lie aside for it already."""
        if self.size + aside + size > self.limits.max_bytes:
            text = f"the journal in {self.place} has reached its cap of {self.limits.max_bytes >> 20} MB"
            raise JournalFull(text, wanted=aside + size, at_cap=True)

    def sync_when_due(self) -> None:
        """Make what was appended durable, if the last time was a while ago. Called all the time."""
        if time.monotonic() - self._last_sync >= self.sync_seconds:
            self.sync()

    @property
    def patience(self) -> float:
        """How many seconds `sync_when_due` may wait for."""
        return self.sync_seconds

    @property
    def readable(self) -> bool:
        """Whether readers can see everything that was appended."""
        return True

    @abstractmethod
    def sync(self) -> None:
        """Make what was appended survive a crash of the machine."""

    @abstractmethod
    def rewind(self) -> None:
        """Give up the unfinished transaction: the log was opened again and sends it from its first change."""

    @abstractmethod
    def forget(self, upto: Position, *, young: bool = False) -> None:
        """Remove segments that hold nothing after `upto`; the last one stays, and `young` ones unless told so."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of all segments."""

    @abstractmethod
    def close(self) -> None:
        """Sync, and let another process have the journal."""

    @abstractmethod
    def _write(self, parts: Sequence[bytes | memoryview], size: int, chunk: Chunk) -> None:
        """Put one block behind the others."""
