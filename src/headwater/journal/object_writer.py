"""Appending to a journal in an object store: blocks gather in memory and are stored together, one segment at a time.

A segment is stored when it is large enough, or when the last one was stored long enough ago: whoever commits now and
then waits for one request, and under load there are few requests. While one is under way the next one gathers.

Nothing here tries again. Whatever goes wrong is a Retry, and `rewind`, which then looks at what is there, is all the
recovery there is: after an answer that was lost as after a crash.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from uuid import uuid4

from headwater.errors import Retry
from headwater.event import ORIGIN, Chunk, Position
from headwater.failpoints import failpoint
from headwater.journal.objects import LEASE_SECONDS, ObjectStorage, encode_segment
from headwater.journal.writer import JournalBusy, JournalWriter, Limits

# Between two looks at a segment that is being stored.
FLIGHT_SECONDS = 0.02
# Between two looks at a tail on another machine that may be dead.
WATCH_SECONDS = 1.0


@dataclass
class Kept:
    """A segment that is there: what retention wants to know."""

    size: int
    time: float
    # None: not looked at yet.
    last: Position | None = None


@dataclass(frozen=True)
class Flight:
    """A segment that is being stored."""

    number: int
    size: int
    end: Position
    last: Position
    done: Future[None]


class ObjectWriter(JournalWriter):
    """Opening it waits until the tail before it is seen to be dead, then takes the next number: that one cannot write
    any more, whatever it believes."""

    def __init__(self, storage: ObjectStorage, limits: Limits) -> None:
        super().__init__(storage.place, limits)
        self._storage = storage
        self._writer = uuid4().hex
        # (header, block) of what has not been sent yet, and its bytes.
        self._blocks: list[tuple[bytes, bytes]] = []
        self._gathered = 0
        self._flight: Flight | None = None
        self._failed = False
        self._sealed_at = -math.inf
        self._segments: dict[int, Kept] = {}
        self._number = 0
        self._pool = ThreadPoolExecutor(1, "segments")
        self._cleaner = ThreadPoolExecutor(1, "retention")
        self._cleaning: Future[list[int]] | None = None
        self._refuse_two()
        self._claim()

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

    def sync(self) -> None:
        self._land(wait=True)
        if self._blocks:
            self._seal()
            self._land(wait=True)

    def _seal(self) -> None:
        """Send what has gathered; it is there when `_land` has seen it."""
        data = encode_segment(self._writer, self.end, self._whole_frame, self._blocks)
        self._blocks, self._gathered = [], 0
        self._sealed_at = time.monotonic()
        number = self._number + 1
        failpoint("journal.before_fsync")
        done = self._pool.submit(self._storage.create, number, data)
        self._flight = Flight(number, len(data), self.end, self._last, done)

    def _land(self, *, wait: bool = False) -> None:
        """See whether the segment under way has been stored."""
        flight = self._flight
        if flight is None or not (wait or flight.done.done()):
            return
        try:
            flight.done.result()
        except FileExistsError as error:
            self._failed = True
            raise Retry(f"segment {flight.number} of the journal in {self.place} is there already") from error
        except Exception:
            self._failed = True
            raise
        failpoint("journal.after_fsync")
        self._flight = None
        self._number = flight.number
        self._segments[flight.number] = Kept(flight.size, time.time(), flight.last)
        self.synced = flight.end

    # -- recovery ----------------------------------------------------------------------------------

    def rewind(self) -> None:
        if not self._failed:
            self.sync()
        if self._failed or self._unfinished:
            self._recover()

    def _recover(self) -> None:
        """Give up what has not been stored, and an unfinished transaction that has; go on behind what is there."""
        if self._flight is not None:
            # It has landed or failed before anybody looks.
            self._flight.done.exception()
            self._flight = None
        while (found := self._storage.segment(self._number + 1)) is not None:
            if found.writer != self._writer:
                raise self._busy()
            self._number = found.number
            size = sum(block.size for block in found.blocks)
            self._segments[found.number] = Kept(size, time.time(), found.last)
            self.synced, self._whole_frame = found.end, found.last_frame
        self._go_on()
        self._failed = False

    def _go_on(self) -> None:
        self._session = uuid4().hex[:8]
        self._blocks, self._gathered = [], 0
        self._unfinished = False
        self.end = self._last = self.synced
        self.last_frame = self._whole_frame

    def _claim(self) -> None:
        """Take the next number with a segment that holds nothing: from here on nobody who wrote before can."""
        for stored in self._storage.stored():
            self._segments[stored.number] = Kept(stored.size, stored.time)
        self._number = max(self._segments, default=0)
        while True:
            last = self._storage.segment(self._number) if self._number else None
            if last is not None:
                self.synced, self._whole_frame = last.end, last.last_frame
            data = encode_segment(self._writer, self.synced, self._whole_frame, [])
            self._number += 1
            self._segments[self._number] = Kept(len(data), time.time(), self.synced)
            try:
                self._storage.create(self._number, data)
                break
            except FileExistsError:
                # The tail before us was quicker, or our own request was answered twice.
                found = self._storage.segment(self._number)
                if found is not None and found.writer == self._writer:
                    break
        self._go_on()

    def _refuse_two(self) -> None:
        """Raise JournalBusy while another tail lives. One on another machine shows that by what it says."""
        said = self._storage.read("tail.json")
        deadline = time.monotonic() + LEASE_SECONDS
        while self._storage.written_by() is not None:
            if self._storage.read("tail.json") != said:
                raise self._busy()
            if time.monotonic() > deadline:
                return
            time.sleep(WATCH_SECONDS)

    def _busy(self) -> JournalBusy:
        return JournalBusy(
            f"another tail writes the journal in {self.place}",
            "Stop it first, or give this pipeline a journal of its own (`journal:` in its file)",
        )

    # -- retention ---------------------------------------------------------------------------------

    def forget(self, upto: Position, *, young: bool = False) -> None:
        """In the background, and in order, so that those that are left have no gap."""
        self._note_removed(wait=young)
        if self._cleaning is None:
            old = time.time() - self.limits.keep_seconds
            within = [n for n in sorted(self._segments)[:-1] if young or self._segments[n].time <= old]
            self._cleaning = self._cleaner.submit(self._clean, within, upto)
            # Whoever wants room now waits for it.
            self._note_removed(wait=young)

    def _note_removed(self, *, wait: bool) -> None:
        if self._cleaning is not None and (wait or self._cleaning.done()):
            for number in self._cleaning.result():
                del self._segments[number]
            self._cleaning = None

    def _clean(self, numbers: list[int], upto: Position) -> list[int]:
        """Remove those that hold nothing after `upto`, from the oldest on; which were."""
        removed: list[int] = []
        try:
            for number in numbers:
                kept = self._segments[number]
                if kept.last is None:
                    found = self._storage.segment(number)
                    kept.last = ORIGIN if found is None else found.last
                if kept.last > upto:
                    break
                self._storage.remove_segment(number)
                removed.append(number)
        except Retry:
            # Another time.
            pass
        return removed

    @property
    def size(self) -> int:
        flying = self._flight.size if self._flight is not None else 0
        return sum(kept.size for kept in list(self._segments.values())) + self._gathered + flying

    def close(self) -> None:
        try:
            if not self._failed:
                self.sync()
        finally:
            self._pool.shutdown()
            self._cleaner.shutdown()
