"""Where the changes of a chunk are: kind, table, bytes and transaction of each, before any value is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headwater.event import Chunk, TableRun
from headwater.sources.postgres import kernels
from headwater.sources.postgres.pgoutput import Malformed

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Changes:
    """The changes of a chunk, before their values are looked at; parallel arrays in log order."""

    kind: Bytes
    run: npt.NDArray[np.int32]
    start: Longs
    end: Longs
    lsn: Longs
    commit: Longs
    ordinal: Longs
    time: Longs
    # -1 outside of transactions.
    xid: Longs
    # The end of the transaction before; 0: not known.
    previous: Longs

    def of_run(self, run: int) -> Changes:
        rows = np.flatnonzero(self.run == run)
        if rows.size == self.run.size:
            return self
        return Changes(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def of_rows(self, rows: range) -> Changes:
        return Changes(*(getattr(self, name)[rows.start : rows.stop] for name in self.__dataclass_fields__))


def scan(frames: Bytes, chunk: Chunk, runs: list[TableRun]) -> Changes:
    """Every change of the chunk, with the index of its table in `runs` (-1: not wanted)."""
    lengths = writable(chunk.lengths.astype(np.uint32, copy=False))
    count, bad = kernels.count_changes(frames, lengths)
    if bad >= 0:
        raise Malformed(bad, 0)
    opened = np.array(
        [chunk.context.get(k, 0) for k in ("commit", "ordinal", "time", "xid", "previous")], dtype=np.int64
    )
    relations = np.array([run.relation for run in runs], dtype=np.int64)
    longs = [np.empty(count, dtype=np.int64) for _ in range(8)]
    kind = np.empty(count, dtype=np.uint8)
    run = np.empty(count, dtype=np.int32)
    kernels.scan_changes(frames, lengths, relations, opened, kind, run, *longs)
    return Changes(kind, run, *longs)


def writable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Compiled kernels know writable arrays only; what comes from a block is, so this rarely copies."""
    return array if array.flags.writeable else array.copy()
