"""Events on their way into a chunk, and where chunks end: with a transaction if one ends in it. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from headwater.event import Chunk, Position, TableRun
from headwater.sources.mysql import binlog, kernels
from headwater.sources.mysql.place import Place
from headwater.sources.mysql.position import Progress, at
from headwater.sources.mysql.tables import Tables

# A chunk is closed at this size, in the middle of a transaction if need be.
CHUNK_BYTES = 4 << 20
# Frames that a chunk may have; a frame of the smallest rows takes 40 bytes.
CHUNK_FRAMES = CHUNK_BYTES // 32


@dataclass(frozen=True)
class _Before:
    """What there was when the open transaction began: a chunk ends there rather than inside."""

    address: int = 0
    # Of the commit before.
    time: int = 0
    # Changes of the chunk, by table.
    ids: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


class ChunkBuffer:
    """Keeps events, gives chunks. The kernel puts rows of known tables into it, its owner everything else."""

    def __init__(self, start: Position, progress: Progress, place: Place) -> None:
        # How far the whole transactions go that came in, and how far what was handed on.
        self.progress = progress
        self.handed = start
        self.tables = Tables()
        self._place = place
        self._out = np.empty(CHUNK_BYTES + (64 << 10), dtype=np.uint8)
        self._lengths = np.empty(CHUNK_FRAMES, dtype=np.uint32)
        # Bytes and frames gathered, changes of the open transaction, 1 inside one: shared with the kernel.
        self._state = np.zeros(4, dtype=np.int64)
        # The open transaction's begin frame, and where it lies; a transaction without changes is cut off again.
        self._begin = b""
        self._begin_at = (0, 0)
        self._before = _Before()
        self._commit = 0
        self._commit_time = 0
        self._resume = at(progress).resume
        # The last chunk ended inside a transaction: its end must be handed on, even without another frame.
        self._unfinished = False
        self._ready: list[Chunk] = []
        self._context = self._opening("", 0, 0)

    @property
    def in_transaction(self) -> bool:
        return bool(self._state[3])

    @property
    def changed(self) -> bool:
        """Whether the open transaction has changed a captured table."""
        return bool(self._state[2]) or self._unfinished

    @property
    def pending(self) -> bool:
        """Whether whole transactions wait to be handed on."""
        return bool(self._ready) or (not self.in_transaction and (bool(self._state[1]) or self._unfinished))

    @property
    def full(self) -> bool:
        """Whether a chunk waits that cannot grow any more."""
        return bool(self._ready) or self._state[0] >= CHUNK_BYTES

    def take(self) -> Chunk | None:
        """Everything gathered so far as one chunk; None when there is nothing."""
        if not self._ready and (self._state[1] or self.pending):
            self._hand_on()
        return self._ready.pop(0) if self._ready else None

    def tick(self) -> Chunk:
        """An idle log has moved on: an empty chunk that moves the position there."""
        self._cut()
        return self._ready.pop(0)

    # -- gathering ---------------------------------------------------------------------------------

    def take_events(
        self, data: npt.NDArray[np.uint8], begin: int, end: int, prefix: int, checksum: int
    ) -> tuple[int, int]:
        """Rows and known table maps, up to the first event that is neither; (why, where) it ended."""
        tables = self.tables
        why, place = kernels.take_events(
            data,
            begin,
            end,
            prefix,
            checksum,
            tables.ids,
            tables.maps,
            tables.map_ends,
            tables.layouts,
            tables.layout_ends,
            tables.counts,
            self._out,
            self._lengths,
            self._state,
        )
        return int(why), int(place)

    def keep(self, event: bytes, rows: int) -> None:
        """One event, with as many changes."""
        size = len(event) + 4
        if self._state[0] + size > self._out.size or self._state[1] >= self._lengths.size:
            self.make_room(size)
        place, frame = int(self._state[0]), int(self._state[1])
        self._out[place : place + size] = np.frombuffer(rows.to_bytes(4, "little") + event, dtype=np.uint8)
        self._lengths[frame] = size
        self._state[:3] += (size, 1, rows)

    def make_room(self, wanted: int) -> None:
        """For an event of this size."""
        if self._state[1]:
            self._hand_on()
        if self._state[1] and self._state[0] + wanted + 64 > self._out.size:
            self._cut()
        if self._out.size < wanted + 64:
            self._out = np.empty(wanted + (64 << 10), dtype=np.uint8)

    def begin(self, frame: bytes, commit: int, time: int, address: int) -> None:
        """A transaction begins: its frame, its coordinate, when it was committed, where it stands in the files."""
        if commit == self.handed.commit and self.handed.ordinal:
            # We start inside this transaction, and it comes again from its first change.
            self.handed = Position(commit, 0, self._resume)
        self._before = _Before(address, self._commit_time, self.tables.ids, self.tables.counts.copy())
        self._begin, self._commit, self._commit_time = frame, commit, time
        self._resume = ""
        self._begin_at = (int(self._state[0]), int(self._state[1]))
        self._state[2] = 0
        if not self._state[1] and not self._unfinished:
            self._context = self._opening("", 0, address)
        self.keep(frame, 0)
        self._state[3] = 1

    def note_thread(self, thread: int) -> None:
        """The session that wrote the open transaction: MySQL says it behind the GTID, MariaDB not at all."""
        self._begin = binlog.with_thread(self._begin, thread)
        place = self._begin_at[0] + 4
        self._out[place : place + len(self._begin)] = np.frombuffer(self._begin, dtype=np.uint8)

    def end(self, progress: Progress) -> None:
        """The open transaction is committed."""
        if not self.changed:
            # Nothing of it is captured.
            self._state[0], self._state[1] = self._begin_at
        self._state[3] = 0
        self.progress = progress

    def let_go(self, table: int) -> None:
        """Within a chunk a table has one schema and one id: the one at this place is about to have another."""
        if self.tables.counts[table]:
            self._hand_on()
        if self.tables.counts[table]:
            self._cut()

    # -- chunks ------------------------------------------------------------------------------------

    def _opening(self, begin: str, ordinal: int, address: int) -> dict[str, Any]:
        """What a decoder must know to begin at the next frame."""
        return {"begin": begin, "ordinal": ordinal, "address": address, "resume": self.progress.text()}

    def _hand_on(self) -> None:
        """Close the chunk where a transaction ends, if one does."""
        if not self.in_transaction or not self._begin_at[1]:
            self._cut()
            return
        (size, frames), before = self._begin_at, self._before
        rest = self._out[size : self._state[0]].copy()
        lengths = self._lengths[frames : self._state[1]].copy()
        counts, time, changes = self.tables.counts.copy(), self._commit_time, int(self._state[2])
        self.tables.counts[:] = 0
        for table, count in zip(before.ids.tolist(), before.counts.tolist(), strict=True):
            if count and (place := self.tables.place(table)) is not None:
                self.tables.counts[place] = count
        counts -= self.tables.counts
        self._state[:] = (size, frames, 0, 0)
        self._commit_time = before.time
        self._cut()
        self._commit_time, self._context = time, self._opening("", 0, before.address)
        self._out[: rest.size], self._lengths[: lengths.size], self.tables.counts[:] = rest, lengths, counts
        self._state[:] = (rest.size, lengths.size, changes, 1)

    def _cut(self) -> None:
        """Close the chunk at this event."""
        open_, ordinal = self.in_transaction, int(self._state[2])
        # The progress before the open transaction, or behind the last whole one.
        self._resume = self.progress.text()
        last = Position(self._commit, ordinal, self._resume) if open_ else at(self.progress)
        size, frames = int(self._state[0]), int(self._state[1])
        tables = self.tables
        chunk = Chunk(
            frames=self._out[:size].tobytes(),
            lengths=self._lengths[:frames].copy(),
            first=self.handed,
            last=last,
            whole=not open_,
            tables=tuple(
                TableRun(int(relation), schema.table, schema.id, int(count))
                for relation, schema, count in zip(tables.ids, tables.schemas, tables.counts, strict=True)
                if schema is not None and count
            ),
            context=self._context,
            commit_time=self._commit_time,
        )
        self._ready.append(chunk)
        tables.counts[:] = 0
        self._state[0] = self._state[1] = 0
        self._begin_at = (0, 0)
        self.handed = last
        self._unfinished = open_
        begin = self._begin.hex() if open_ else ""
        self._context = self._opening(begin, ordinal if open_ else 0, self._place.address)
        if open_:
            self._context["earlier"] = self._earlier(chunk)

    def _earlier(self, chunk: Chunk) -> dict[str, dict[str, int]]:
        """What the open transaction has had: the next chunk's events are numbered behind it."""
        # Here, because only a transaction of more than a chunk needs it, and it loads the kernels of values.
        from headwater.sources.mysql.timeline import open_transaction

        return open_transaction(chunk, {schema.id: schema for schema in self.tables.schemas if schema is not None})
