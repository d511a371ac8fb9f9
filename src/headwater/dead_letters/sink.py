"""`on_error` as wrappers of a sink: neither the flow nor the sink knows of dead letters.

Order per key: behind a change that waits, every later change of its row waits too. So a row is never seen in a state
that leaves out one of its changes, and a retry delivers them one after the other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from headwater.dead_letters.letter import Letter, letter_of, letters_of, placed_by_key, row_keys
from headwater.dead_letters.store import DeadLetters, Parked
from headwater.errors import HeadwaterError, Rejected, Retry
from headwater.event import ChangeBatch, Position, TableSchema
from headwater.sinks.base import NOTHING_STOPPED, Again, Sink, WrappedSink, Written

FOLLOWS = {"error": "Follows", "what": "an earlier change of this row is among the dead letters"}


class RetryingSink(WrappedSink):
    """`on_error: retry`: a person makes room for the record (a limit, a column), and the sink goes on."""

    def write(self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position) -> Written:
        try:
            return self.inner.write(table, batches, upto)
        except Rejected as error:
            raise _again(error) from error

    def write_log(
        self,
        decoded: Iterable[Sequence[ChangeBatch]],
        upto: Position,
        stopped: Mapping[str, Position] = NOTHING_STOPPED,
    ) -> list[Written]:
        try:
            return self.inner.write_log(decoded, upto, stopped)
        except Rejected as error:
            raise _again(error) from error

    def load_part(self, table: TableSchema, rows: Iterable[ChangeBatch]) -> str:
        try:
            return self.inner.load_part(table, rows)
        except Rejected as error:
            raise _again(error) from error

    def refuse(self, batch: ChangeBatch, error: HeadwaterError) -> None:
        raise _again(error)


def _again(error: HeadwaterError) -> Retry:
    return Retry(error.what, *error.remedies, cause=error.cause)


class DeadLetterSink(WrappedSink):
    """`on_error: dead_letter`: what the sink refuses is kept aside, the rest is delivered."""

    def __init__(self, inner: Sink, state: str | os.PathLike[str]) -> None:
        super().__init__(inner)
        self.letters = DeadLetters(state, inner.name)

    def takes_frame(self, table: TableSchema, settings: Mapping[str, str]) -> bool:
        # What waits is left out of batches, which a frame does not have.
        return False

    def spark_settings(self, tables: Sequence[TableSchema]) -> Mapping[str, str]:
        return {}

    def refuse(self, batch: ChangeBatch, error: HeadwaterError) -> None:
        """Keep changes aside that could not even be decoded for this sink."""
        self.letters.add(letters_of(self.name, batch, range(len(batch)), self._key(batch.table), error))

    # -- snapshots -----------------------------------------------------------------------------------

    def load_part(self, table: TableSchema, rows: Iterable[ChangeBatch]) -> str:
        """A snapshot's rows have one position and come in any order: what is refused of them is known by its key."""
        key = self._key(table)
        if not key:
            return self.inner.load_part(table, rows)
        if not self.letters.parked(table.table):
            try:
                return self.inner.load_part(table, rows)
            except Rejected:
                # Which row it was, is asked below: few snapshots have one, and all others go the quick way.
                pass
        placed = Again(lambda: (placed_by_key(batch, key) for batch in rows))
        while True:
            try:
                return self.inner.load_part(table, self._unparked(table, placed))
            except Rejected as error:
                if not error.places or not self._park(placed, error):
                    raise

    def _unparked(self, table: TableSchema, rows: Iterable[ChangeBatch]) -> Iterable[ChangeBatch]:
        parked = self.letters.parked(table.table).places
        return Again(lambda: (batch.filter(pa.array([p not in parked for p in batch.places])) for batch in rows))

    def load(self, table: TableSchema, receipts: Sequence[str], upto: Position) -> None:
        self.inner.load(table, receipts, upto)
        # What waited before is in the snapshot.
        self.letters.void(table.table, upto)

    # -- table by table ------------------------------------------------------------------------------

    def write(self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position) -> Written:
        """What fits, and how far that is. Where the sink does not say which record it refuses, halving finds it: the
        halves are written one after the other, each with its position."""
        left = [batch for batch in self._left(batches) if len(batch)]
        if not left:
            return Written(table.table, 0, 0.0)
        try:
            return self.inner.write(table, left, upto)
        except Rejected as error:
            if self._park(left, error):
                return self.write(table, left, upto)
            first, second = _halves(left)
            done = self.write(table, first, first[-1].last)
            more = self.write(table, second, upto)
            return Written(table.table, done.changes + more.changes, done.seconds + more.seconds)

    # -- the log as a whole --------------------------------------------------------------------------

    def write_log(
        self,
        decoded: Iterable[Sequence[ChangeBatch]],
        upto: Position,
        stopped: Mapping[str, Position] = NOTHING_STOPPED,
    ) -> list[Written]:
        left = Again(lambda: (self._left(batches) for batches in decoded))
        while True:
            try:
                return self.inner.write_log(left, upto, stopped)
            except Rejected as error:
                if not error.places or not self._park((batch for part in decoded for batch in part), error):
                    raise

    # ------------------------------------------------------------------------------------------------

    def _key(self, table: TableSchema) -> Sequence[str]:
        return () if table.message else self.inner.key(table)

    def _park(self, batches: Iterable[ChangeBatch], error: Rejected) -> int:
        """Keep aside what `error` names, or the only change there is; how many that were."""
        found: list[Letter] = []
        wanted = set(error.places)
        alone = None
        for batch in batches:
            if wanted:
                rows = [row for row, place in enumerate(batch.places) if place in wanted]
                found += letters_of(self.name, batch, rows, self._key(batch.table), error)
            elif len(batch):
                if alone is not None or len(batch) > 1:
                    return 0
                alone = batch
        if alone is not None:
            found = letters_of(self.name, alone, [0], self._key(alone.table), error)
        self.letters.add(found)
        return len(found)

    def _left(self, batches: Sequence[ChangeBatch]) -> list[ChangeBatch]:
        """The batches without what waits; what has to wait from now on is kept aside."""
        parked: dict[str, Parked] = {}
        for name in {batch.table.table for batch in batches if len(batch)}:
            if found := self.letters.parked(name):
                parked[name] = found
        if not parked:
            return list(batches)
        return [
            self._divided(batch, parked[batch.table.table]) if batch.table.table in parked else batch
            for batch in batches
        ]

    def _divided(self, batch: ChangeBatch, parked: Parked) -> ChangeBatch:
        """A batch without what waits, or follows what waits."""
        keep = np.ones(len(batch), dtype=bool)
        waiting: list[Letter] = []
        keys = row_keys(batch, self._key(batch.table))
        for row, (place, op) in enumerate(zip(batch.places, batch.op.to_pylist(), strict=True)):
            position = Position(*place)
            if op == "t":
                self.letters.add(waiting)
                waiting.clear()
                self.letters.void(batch.table.table, position)
                parked.forget(position)
            elif place in parked.places:
                keep[row] = False
            elif (head := parked.head(keys[row], position)) is not None:
                keep[row] = False
                parked.add(keys[row], position)
                waiting.append(letter_of(self.name, batch, row, keys[row], dict(FOLLOWS), head))
        self.letters.add(waiting)
        return batch if keep.all() else batch.filter(pa.array(keep))


def _halves(batches: Sequence[ChangeBatch]) -> tuple[list[ChangeBatch], list[ChangeBatch]]:
    """The changes cut in two, in their order. There are at least two."""
    half = sum(map(len, batches)) // 2
    first: list[ChangeBatch] = []
    second: list[ChangeBatch] = []
    for batch in batches:
        here = min(half, len(batch))
        if here:
            first.append(batch.slice(0, here))
        if here < len(batch):
            second.append(batch.slice(here))
        half -= here
    return first, second
