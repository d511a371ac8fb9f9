"""A snapshot as a log: the tables' rows in chunks, as if one transaction had inserted them all.

For readers that have nothing but the journal. Killed in between, the unfinished transaction is void like any other,
and the copy begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace

import numpy as np

from headwater.event import Chunk, Position, TableSchema
from headwater.sources.base import Log, Snapshot

# The rows of a snapshot from a position on, as chunks of a transaction that has not ended.
Pieces = Callable[[Snapshot, Position], Iterator[Chunk]]


class CopyLog(Log):
    """Gives the chunks of one snapshot, then None for ever."""

    def __init__(self, snapshot: AbstractContextManager[Snapshot], pieces: Pieces) -> None:
        self._held = ExitStack()
        taken: Snapshot = self._held.enter_context(snapshot)
        self._schemas = {chunk.table.id: chunk.table for chunk in taken.chunks}
        first = taken.chunks[0].table.table if taken.chunks else ""
        # Rows of the snapshot come before everything that was committed at its position or later.
        self._last = Position(taken.position.commit - 1, 0, taken.position.resume)
        self._chunks = _marked(pieces(taken, self._last), first)
        self._end = taken.position
        self._finished = False

    def read(self, timeout: float) -> Chunk | None:
        chunk = next(self._chunks, None)
        if chunk is not None:
            self._last = chunk.last
            return chunk
        if self._finished:
            return None
        self._finished = True
        return Chunk(b"", np.empty(0, np.uint32), self._last, self._end, whole=True)

    def schema(self, schema: str) -> TableSchema:
        return self._schemas[schema]

    def confirm(self, position: Position) -> None:
        """There is nothing that the server could forget."""

    def close(self) -> None:
        self._held.close()


def _marked(pieces: Iterator[Chunk], first_table: str) -> Iterator[Chunk]:
    """Chunks that know whether they begin or end the snapshot or a table; one is held back to know.

    As Debezium has it: only a row of the first table is the first, whichever has rows has the last."""
    before: Chunk | None = None
    piece = next(pieces, None)
    while piece is not None:
        after = next(pieces, None)
        first = last = "true"
        if before is None and piece.tables[0].table == first_table:
            first = "first"
        elif before is None or before.tables[0].table != piece.tables[0].table:
            first = "first_in_data_collection"
        if after is None:
            last = "last"
        elif after.tables[0].table != piece.tables[0].table:
            last = "last_in_data_collection"
        yield replace(piece, context={**piece.context, "first": first, "last": last})
        before, piece = piece, after
