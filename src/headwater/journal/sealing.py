"""Appending where nothing can be added to what is stored: blocks gather in memory and are stored together.

That is done when there are enough, or when the last time was long enough ago: whoever commits now and then waits for
one request, and under load there are few requests. While one seal is under way the next one gathers.

Nothing here tries again. Whatever goes wrong is a Retry, and `rewind`, which then looks at what is there, is all the
recovery there is: after an answer that was lost as after a crash.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from uuid import uuid4

from headwater.event import Chunk, Position
from headwater.failpoints import failpoint
from headwater.journal.writer import JournalWriter, Limits

# Between two looks at what is being stored.
FLIGHT_SECONDS = 0.02


@dataclass(frozen=True)
class Seal:
    """Blocks that are stored together."""

    # (header, whole block) of each.
    blocks: Sequence[tuple[bytes, bytes]]
    # The last whole transaction in it or before it, and the last of those that holds anything.
    end: Position
    last_frame: Position
    # Nothing behind this is in it.
    last: Position

    @property
    def size(self) -> int:
        return sum(len(block) for _header, block in self.blocks)


class SealingWriter(JournalWriter):
    """Gathers and seals; how a seal is stored, and what there is, the storage says."""

    def __init__(self, place: str, limits: Limits) -> None:
        super().__init__(place, limits)
        # Which opening of the journal this is.
        self._writer = uuid4().hex
        self._blocks: list[tuple[bytes, bytes]] = []
        self._gathered = 0
        self._flight: tuple[Seal, Future[None]] | None = None
        self._failed = False
        self._sealed_at = -math.inf
        self._pool = ThreadPoolExecutor(1, "seals")

    # -- what a storage says -----------------------------------------------------------------------

    @abstractmethod
    def _store(self, seal: Seal) -> Callable[[], None]:
        """What stores this seal as a whole, or raises. It is called in another thread, one at a time."""

    @abstractmethod
    def _stored(self, seal: Seal) -> None:
        """It is there now."""

    @abstractmethod
    def _look(self) -> None:
        """See what is there after a failure: `_found` for every seal of ours that we did not know of.

        Raises JournalBusy when another writer has taken our place."""

    # -- writing -----------------------------------------------------------------------------------

    def _write(self, parts: Sequence[bytes | memoryview], size: int, chunk: Chunk) -> None:
        self._land()
        if self._blocks and self._gathered + size > self.limits.seal_bytes:
            self._land(wait=True)
            self._seal()
        self._blocks.append((bytes(parts[1]), b"".join(parts)))
        self._gathered += size

    def sync_when_due(self) -> None:
        self._land()
        if self._blocks and self._flight is None and time.monotonic() - self._sealed_at >= self.limits.seal_seconds:
            self._seal()

    @property
    def patience(self) -> float:
        if self._flight is not None:
            return FLIGHT_SECONDS
        if self._blocks:
            return max(0.0, self._sealed_at + self.limits.seal_seconds - time.monotonic())
        return math.inf

    @property
    def readable(self) -> bool:
        return not self._blocks and self._flight is None

    @property
    def waiting(self) -> int:
        """Bytes that are not stored yet."""
        return self._gathered + (self._flight[0].size if self._flight is not None else 0)

    def sync(self) -> None:
        self._land(wait=True)
        if self._blocks:
            self._seal()
            self._land(wait=True)

    def _seal(self) -> None:
        """Send what has gathered; it is there when `_land` has seen it."""
        seal = Seal(tuple(self._blocks), self.end, self._whole_frame, self._last)
        self._blocks, self._gathered = [], 0
        self._sealed_at = time.monotonic()
        failpoint("journal.before_fsync")
        self._flight = seal, self._pool.submit(self._store(seal))

    def _land(self, *, wait: bool = False) -> None:
        """See whether the seal under way has been stored."""
        if self._flight is None:
            return
        seal, done = self._flight
        if not (wait or done.done()):
            return
        try:
            done.result()
        except BaseException:
            self._failed = True
            raise
        failpoint("journal.after_fsync")
        self._flight = None
        self._stored(seal)
        self.synced = seal.end

    # -- recovery ----------------------------------------------------------------------------------

    def rewind(self) -> None:
        if not self._failed:
            self.sync()
        if self._failed:
            if self._flight is not None:
                # It has ended before anybody looks.
                self._flight[1].exception()
                self._flight = None
            self._look()
        if self._failed or self._unfinished:
            self._go_on()

    def _found(self, end: Position, last_frame: Position) -> None:
        """A seal that is there says so."""
        self.synced, self._whole_frame = end, last_frame

    def _go_on(self) -> None:
        """Give up what was not stored, and an unfinished transaction that was: a new session, behind what is there."""
        self._session = uuid4().hex[:8]
        self._blocks, self._gathered = [], 0
        self._unfinished = self._failed = False
        self.end = self._last = self.synced
        self.last_frame = self._whole_frame

    def close(self) -> None:
        try:
            if not self._failed:
                self.sync()
        finally:
            self._pool.shutdown()
