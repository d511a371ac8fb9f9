"""A snapshot as a log: the tables' rows in chunks, as if one transaction had inserted them all.

For readers that have nothing but the journal. Killed in between, the unfinished transaction is void like any other,
and the copy begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from headwater.event import Chunk, Position, TableRun, TableSchema
from headwater.sources.base import CopyChunk, Log, Snapshot
from headwater.sources.mysql import kernels
from headwater.sources.mysql.relay import read_door


class CopyLog(Log):
    """Gives the chunks of one snapshot, then None for ever."""

    def __init__(self, snapshot: AbstractContextManager[Snapshot]) -> None:
        self._held = ExitStack()
        taken: Snapshot = self._held.enter_context(snapshot)
        self._schemas = {chunk.table.id: chunk.table for chunk in taken.chunks}
        self._chunks = _marked(_pieces(taken.chunks, taken))
        self._end = taken.position
        self._last = _before(taken)
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


def _before(snapshot: Snapshot) -> Position:
    """Rows of the snapshot come before everything that was committed at its position or later."""
    return Position(snapshot.position.commit - 1, 0, snapshot.position.resume)


def _pieces(chunks: Sequence[CopyChunk], snapshot: Snapshot) -> Iterator[Chunk]:
    here = _before(snapshot)
    for number, chunk in enumerate(chunks):
        blocks = read_door(dict(snapshot.detail["door"]), chunk.where["number"])
        types = next(blocks).hex()
        for block in blocks:
            data = np.frombuffer(block, dtype=np.uint8).copy()
            rows, _end = kernels.count_packets(data, np.zeros(1, np.int64))
            upto = Position(here.commit, here.ordinal + int(rows), here.resume)
            table = chunk.table
            yield Chunk(
                frames=block,
                lengths=np.array([len(block)], np.uint32),
                first=here,
                last=upto,
                whole=False,
                tables=(TableRun(number, table.table, table.id, int(rows)),),
                context={"copy": True, "types": types, "time": snapshot.taken, **_place(snapshot)},
                commit_time=snapshot.taken,
            )
            here = upto


def _place(snapshot: Snapshot) -> dict[str, Any]:
    return {"address": snapshot.detail["address"], "first": "true", "last": "true"}


def _marked(pieces: Iterator[Chunk]) -> Iterator[Chunk]:
    """Chunks that know whether they begin or end the snapshot or a table; one is held back to know."""
    before: Chunk | None = None
    piece = next(pieces, None)
    while piece is not None:
        after = next(pieces, None)
        first = last = "true"
        if before is None:
            first = "first"
        elif before.tables[0].table != piece.tables[0].table:
            first = "first_in_data_collection"
        if after is None:
            last = "last"
        elif after.tables[0].table != piece.tables[0].table:
            last = "last_in_data_collection"
        yield replace(piece, context={**piece.context, "first": first, "last": last})
        before, piece = piece, after
