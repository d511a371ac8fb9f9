"""A snapshot as a log: the tables' rows as COPY text in chunks, as if one transaction had inserted them all.

For readers that have nothing but the journal. Killed in between, the unfinished transaction is void like any
other, and the copy begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace

import numpy as np

from headwater.event import Chunk, Position, TableRun, TableSchema
from headwater.sources.base import CopyChunk, Log, Snapshot
from headwater.sources.postgres.connection import connect
from headwater.sources.postgres.copy import copy_text
from headwater.sources.postgres.options import PostgresOptions


class CopyLog(Log):
    """Gives the chunks of one snapshot, then None for ever."""

    def __init__(self, options: PostgresOptions, snapshot: AbstractContextManager[Snapshot]) -> None:
        self._held = ExitStack()
        taken: Snapshot = self._held.enter_context(snapshot)
        self._schemas = {chunk.table.id: chunk.table for chunk in taken.chunks}
        first = taken.chunks[0].table.table if taken.chunks else ""
        self._chunks = _marked(_pieces(options, taken.chunks, taken), first)
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


# Ends a row of COPY text; inside a value it is escaped.
NEWLINE = ord("\n")


def _before(snapshot: Snapshot) -> Position:
    """Rows of the snapshot come before everything that was committed at its position or later."""
    return Position(snapshot.position.commit - 1, 0)


def _pieces(options: PostgresOptions, chunks: Sequence[CopyChunk], snapshot: Snapshot) -> Iterator[Chunk]:
    at = _before(snapshot)
    for chunk in chunks:
        with connect(options) as connection:
            for lines in copy_text(connection, chunk, snapshot.detail["snapshot"]):
                rows = int(np.count_nonzero(lines == NEWLINE))
                upto = Position(at.commit, at.ordinal + rows)
                table = chunk.table
                yield Chunk(
                    frames=lines.tobytes(),
                    lengths=np.array([len(lines)], np.uint32),
                    first=at,
                    last=upto,
                    whole=False,
                    tables=(TableRun(table.detail["oid"], table.table, table.id, rows),),
                    context={"copy": True, "time": snapshot.taken, "xid": snapshot.detail["xid"]},
                    commit_time=snapshot.taken,
                )
                at = upto


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
