"""The stream reader: offsets are positions, the journal is what lies between them.

Spark calls the planning methods in one long-lived process on the driver and `read` somewhere else; the two
share nothing but the partitions. Camel case is Spark's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from headwater.errors import Retry
from headwater.event import ORIGIN, Position
from headwater.journal import BlockRef, Journal, JournalReader
from headwater.registry import source_class
from headwater.spark.slices import admit_bytes

# How long `latestOffset` waits for something new before it tells Spark that there is nothing: Spark would
# ask again after 10 ms, and every question costs a millisecond in two processes.
IDLE_WAIT_SECONDS = 0.5
# Between two looks at the journal, which cost 0.1 ms with the waking up.
POLL_SECONDS = 0.01
# A batch that Spark has planned before a crash of the machine may have to be read from the log again.
REFILL_SECONDS = 300.0

Offset = dict[str, Any]


class SlicePartition(InputPartition):
    """One task's work, as JSON: small, readable and free of secrets."""

    def __init__(self, text: str) -> None:
        super().__init__(text)


class JournalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets and admission control over a journal; subclasses cut the partitions and read them."""

    def __init__(self, journal: Journal, *, max_rows: int = 0, max_bytes: int = 0, table: str | None = None) -> None:
        self.journal = journal
        self.index = JournalReader(journal)
        self.max_rows = max_rows
        self.max_bytes = max_bytes
        self.table = table
        # Under Trigger.AvailableNow: everything the log had received when the query started.
        self.target: int | None = None

    # -- what a subclass may add -------------------------------------------------------------------

    def begin(self) -> Position:
        """Where a new query starts. Called before the journal is looked at."""
        return ORIGIN

    def received(self) -> int:
        """How far the tail has read, as the log counts; raises when it has stopped for a reason."""
        return int(self.journal.status().get("received", 0))

    def keep(self) -> None:
        """Called again and again while waiting: see that the tail lives."""

    # -- Spark's side ------------------------------------------------------------------------------

    def initialOffset(self) -> Offset:
        return to_offset(self.begin())

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.max_rows:
            return ReadMaxRows(self.max_rows)
        return ReadMaxBytes(self.max_bytes) if self.max_bytes else ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        after = from_offset(start)
        deadline = time.monotonic() + IDLE_WAIT_SECONDS
        while True:
            self.keep()
            finished = self.target is not None and (after.commit >= self.target or self.received() >= self.target)
            away = not self._refresh()
            if self.index.end > after:
                return to_offset(self._admit(after, limit))
            if (finished and not away) or (self.target is None and time.monotonic() >= deadline):
                return start
            time.sleep(POLL_SECONDS)

    def _refresh(self) -> bool:
        """Look at the journal; False while its storage is away, which passes by itself."""
        try:
            self.index.refresh()
        except Retry:
            return False
        return True

    def _admit(self, after: Position, limit: ReadLimit) -> Position:
        def cut(block: BlockRef, rows: int) -> Position:
            """The position of the `rows`-th change behind `after` in a block."""
            about = self.journal.about() or {}
            positions = source_class(str(about["source"])).positions
            found = positions(self.index.read(block), None if self.table is None else {self.table})
            rest = [position for position in found if position > after]
            return rest[rows - 1] if rows <= len(rest) else block.header.last

        return admit(self.index.between(after, self.index.end), self.index.end, limit, cut, self.table)

    def reportLatestOffset(self) -> Offset | None:
        self._refresh()
        return to_offset(self.index.end) if self.index.end > ORIGIN else None

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = self.received()

    def blocks(self, start: Offset, end: Offset) -> list[BlockRef]:
        """The blocks of a planned range, once the journal has them (again)."""
        after, upto = from_offset(start), from_offset(end)
        if after >= upto:
            return []
        deadline = time.monotonic() + REFILL_SECONDS
        self._refresh()
        while self.index.end < upto:
            self.keep()
            if time.monotonic() > deadline:
                raise Retry(f"the journal in {self.journal.place} does not reach the planned position {upto.commit}")
            time.sleep(POLL_SECONDS)
            self._refresh()
        return self.index.between(after, upto)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        raise NotImplementedError

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError

    def commit(self, end: Offset) -> None:
        self.index.forget(from_offset(end))


def admit(
    blocks: Sequence[BlockRef],
    end: Position,
    limit: ReadLimit,
    cut: Callable[[BlockRef, int], Position],
    table: str | None,
) -> Position:
    """How far one batch goes. Bytes are counted by blocks and end with a transaction if they can; rows exactly."""
    match limit:
        case ReadMaxRows(rows):
            for block in blocks:
                changes = sum(run.changes for run in block.header.tables if table is None or run.table == table)
                if changes > rows:
                    return cut(block, rows)
                rows -= changes
                if not rows:
                    return block.header.last
        case ReadMaxBytes(budget):
            return admit_bytes(blocks, end, budget)
    return end


def to_offset(position: Position) -> Offset:
    """Spark wants the same keys in the same order, with plain values."""
    return {"commit": position.commit, "ordinal": position.ordinal, "resume": position.resume}


def from_offset(offset: Offset) -> Position:
    """What `to_offset` made."""
    return Position(int(offset["commit"]), int(offset["ordinal"]), str(offset["resume"]))
