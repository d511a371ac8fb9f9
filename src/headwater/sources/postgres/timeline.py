"""The changes of a chunk of pgoutput frames as a Timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from headwater.event import Chunk, TableSchema
from headwater.event.timeline import Keys, Mask, Timeline, Transaction
from headwater.sources.postgres import kernels
from headwater.sources.postgres.changes import Bytes, Changes, Longs, scan
from headwater.sources.postgres.pgoutput import BEGIN, COMMIT, XLOG_HEADER, parse_begin, parse_commit

_LETTER = np.zeros(256, dtype=np.uint8)
_LETTER[list(b"IUDTM")] = list(b"cudtm")
_UPDATE = ord("U")


class PostgresTimeline(Timeline):
    """See `Timeline`."""

    def __init__(self, frames: Bytes, chunk: Chunk, schemas: Mapping[str, TableSchema], changes: Changes) -> None:
        self.commit, self.ordinal, self.previous = changes.commit, changes.ordinal, changes.previous
        self.earlier = chunk.context.get("earlier", {})
        self._frames, self._chunk, self._schemas, self._changes = frames, chunk, schemas, changes

    @cached_property
    def letter(self) -> npt.NDArray[np.uint8]:  # type: ignore[override]
        letters: npt.NDArray[np.uint8] = _LETTER[self._changes.kind]
        return letters

    @cached_property
    def tables(self) -> Sequence[TableSchema]:  # type: ignore[override]
        return [self._schemas[run.schema] for run in self._chunk.tables]

    @cached_property
    def table(self) -> npt.NDArray[np.int32]:
        return scan(self._frames, self._chunk, list(self._chunk.tables)).run

    @cached_property
    def transactions(self) -> list[Transaction]:
        """From the BEGIN and COMMIT frames; a few bytes each, read one by one."""
        lengths = self._chunk.lengths.astype(np.int64)
        starts = np.cumsum(lengths) - lengths
        kinds = self._frames[starts + XLOG_HEADER] if starts.size else np.empty(0, np.uint8)
        context = self._chunk.context
        found: list[Transaction] = []
        xid = 0
        if context.get("commit"):
            xid = context["xid"]
            found.append(self._transaction(context["commit"], context["time"], None))
        for place in np.flatnonzero((kinds == BEGIN) | (kinds == COMMIT)).tolist():
            frame = self._frames[starts[place] : starts[place] + lengths[place]].tobytes()
            if kinds[place] == BEGIN:
                begin = parse_begin(frame[XLOG_HEADER:])
                xid = begin.xid
                # The server sends it with the first change; the chunk builder never parts the two.
                lsn = int.from_bytes(self._frames[starts[place + 1] + 1 : starts[place + 1] + 9].tobytes())
                found.append(self._transaction(begin.commit_lsn, begin.commit_time, f"{xid}:{lsn}"))
            else:
                found[-1] = replace(found[-1], end=f"{xid}:{parse_commit(frame[XLOG_HEADER:]).end_lsn}")
        return found

    def _transaction(self, commit: int, time: int, begin: str | None) -> Transaction:
        first, behind = np.searchsorted(self.commit, [commit, commit + 1]).tolist()
        return Transaction(commit, time, first, behind - first, begin)

    def moved(self, keys: Keys) -> Mask:
        moved = np.zeros(self.commit.size, dtype=bool)
        updates = self._changes.kind == _UPDATE
        if not updates.any():
            return moved
        # The tag of the first tuple: N when there is no old one.
        with_old = np.zeros(moved.size, dtype=bool)
        with_old[updates] = self._frames[self._changes.start[updates]] != ord("N")
        for number, table in enumerate(self.tables):
            key = list(keys(table))
            rows = np.flatnonzero(with_old & (self.table == number))
            if rows.size and key and set(table.identity).issuperset(key):
                moved[rows] = self._key_changed(rows, table, key)
        return moved

    def _key_changed(self, rows: Longs, table: TableSchema, key: list[str]) -> Mask:
        """`moves.key_changed` of many."""
        count, columns = rows.size, len(table.columns)
        has = [np.empty(count, np.uint8) for _ in range(2)]
        start, old_start = (np.empty((columns, count), np.int64) for _ in range(2))
        size, old_size = (np.empty((columns, count), np.int32) for _ in range(2))
        changes = self._changes
        kernels.tuple_bounds(
            self._frames,
            changes.kind[rows],
            changes.start[rows],
            changes.end[rows],
            columns,
            has[0],
            start,
            size,
            has[1],
            old_start,
            old_size,
        )
        found = np.zeros(count, dtype=bool)
        for place in (i for i, column in enumerate(table.columns) if column.name in key):
            found |= size[place] != old_size[place]
            for row in np.flatnonzero(~found & (size[place] > 0)).tolist():
                new, old, length = start[place, row], old_start[place, row], size[place, row]
                found[row] = (self._frames[new : new + length] != self._frames[old : old + length]).any()
        return found
