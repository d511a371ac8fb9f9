"""Appending to a journal in an object store: a seal is a segment, and a number can be taken once."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from headwater.errors import Retry
from headwater.event import ORIGIN, Position
from headwater.journal.objects import ObjectStorage, encode_segment
from headwater.journal.sealing import Seal, SealingWriter
from headwater.journal.writer import Limits


@dataclass
class Kept:
    """A segment that is there: what retention wants to know."""

    size: int
    time: float
    # None: not looked at yet.
    last: Position | None = None


class ObjectWriter(SealingWriter):
    """Opening it waits until the tail before it is seen to be dead, then takes the next number: that one cannot write
    any more, whatever it believes."""

    def __init__(self, storage: ObjectStorage, limits: Limits) -> None:
        super().__init__(storage.place, limits)
        self._storage = storage
        self._segments: dict[int, Kept] = {}
        self._number = 0
        self._cleaner = ThreadPoolExecutor(1, "retention")
        self._cleaning: Future[list[int]] | None = None
        storage.refuse_two()
        self._claim()

    def _store(self, seal: Seal) -> Callable[[], None]:
        number = self._number + 1

        def store() -> None:
            try:
                self._storage.create(number, encode_segment(self._writer, seal))
            except FileExistsError as error:
                raise Retry(f"segment {number} of the journal in {self.place} is there already") from error

        return store

    def _stored(self, seal: Seal) -> None:
        self._number += 1
        self._segments[self._number] = Kept(seal.size, time.time(), seal.last)

    def _look(self) -> None:
        while (found := self._storage.segment(self._number + 1)) is not None:
            if found.writer != self._writer:
                raise self._storage.busy()
            self._number = found.number
            self._segments[found.number] = Kept(sum(b.size for b in found.blocks), time.time(), found.last)
            self._found(found.end, found.last_frame)

    def _claim(self) -> None:
        """Take the next number with a segment that holds nothing: from here on nobody who wrote before can."""
        for stored in self._storage.stored():
            self._segments[stored.number] = Kept(stored.size, stored.time)
        self._number = max(self._segments, default=0)
        claimed = False
        while not claimed:
            if (last := self._storage.segment(self._number) if self._number else None) is not None:
                self._found(last.end, last.last_frame)
            claim = Seal((), self.synced, self._whole_frame, self.synced)
            try:
                self._storage.create(self._number + 1, encode_segment(self._writer, claim))
                claimed = True
            except FileExistsError:
                # The tail before us was quicker, or our own request was answered twice.
                found = self._storage.segment(self._number + 1)
                claimed = found is not None and found.writer == self._writer
            self._stored(claim)
        self._go_on()

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
        return sum(kept.size for kept in self._segments.values()) + self.waiting

    def close(self) -> None:
        self._cleaner.shutdown()
        super().close()
