"""Raw frames to changes: the chunk's bytes become one ChangeBatch per table. No I/O, no secret.

`kernels.py` finds where everything is, `values.py` turns the bytes of a column into typed values; this
module puts the columns together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import Stop
from headwater.event import ChangeBatch, Chunk, Position, TableRun, TableSchema, change_schema
from headwater.sources.postgres import kernels, values
from headwater.sources.postgres.copy import parse_text, read_batch
from headwater.sources.postgres.pgoutput import UNCHANGED, Malformed

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

_OPERATION = pa.array(["c", "u", "d", "t"], pa.string())
_OPERATION_CODE = np.zeros(256, dtype=np.int8)
_OPERATION_CODE[list(b"IUDT")] = [0, 1, 2, 3]


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
    xid: Longs

    def of_run(self, run: int) -> Changes:
        rows = np.flatnonzero(self.run == run)
        if rows.size == self.run.size:
            return self
        return Changes(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def decode(chunk: Chunk, schemas: Mapping[str, TableSchema], tables: set[str] | None = None) -> list[ChangeBatch]:
    """See `Source.decode`."""
    runs = [run for run in chunk.tables if tables is None or run.table in tables]
    if not runs:
        return []
    if chunk.context.get("copy"):
        return [_copied(chunk, schemas[runs[0].schema])]
    frames = _writable(np.frombuffer(chunk.frames, dtype=np.uint8))
    changes = scan(frames, chunk, runs)
    counts = np.bincount(changes.run[changes.run >= 0], minlength=len(runs)).tolist()
    for run, count in zip(runs, counts, strict=True):
        if count != run.changes:
            raise Stop(f"a chunk of the log has {count} changes of {run.table}; its index says {run.changes}")
    return [_batch(frames, changes.of_run(i), schemas[run.schema]) for i, run in enumerate(runs)]


def _copied(chunk: Chunk, table: TableSchema) -> ChangeBatch:
    """Rows of a snapshot that went through the journal, numbered like the changes of one transaction."""
    text = np.frombuffer(chunk.frames, dtype=np.uint8).copy()
    batch = read_batch(table, parse_text(text, table), chunk.first, chunk.context["time"], numbered=True)
    # Debezium marks the first and the last row of a snapshot and of each table in it.
    marks = {key: chunk.context[key] for key in ("first", "last")}
    return ChangeBatch(table, batch.records.replace_schema_metadata(marks))


def positions(chunk: Chunk, tables: set[str] | None = None) -> list[Position]:
    """See `Source.positions`."""
    runs = [run for run in chunk.tables if tables is None or run.table in tables]
    if chunk.context.get("copy"):
        count = sum(run.changes for run in runs)
        return [Position(chunk.first.commit, chunk.first.ordinal + n) for n in range(1, count + 1)]
    changes = scan(_writable(np.frombuffer(chunk.frames, dtype=np.uint8)), chunk, runs)
    wanted = changes.run >= 0
    pairs = zip(changes.commit[wanted].tolist(), changes.ordinal[wanted].tolist(), strict=True)
    return [Position(commit, ordinal) for commit, ordinal in pairs]


def scan(frames: Bytes, chunk: Chunk, runs: list[TableRun]) -> Changes:
    """Every change of the chunk, with the index of its table in `runs` (-1: not wanted)."""
    lengths = _writable(chunk.lengths.astype(np.uint32, copy=False))
    count, bad = kernels.count_changes(frames, lengths)
    if bad >= 0:
        raise Malformed(bad, 0)
    opened = np.array([chunk.context.get(k, 0) for k in ("commit", "ordinal", "time", "xid")], dtype=np.int64)
    relations = np.array([run.relation for run in runs], dtype=np.int64)
    longs = [np.empty(count, dtype=np.int64) for _ in range(7)]
    kind = np.empty(count, dtype=np.uint8)
    run = np.empty(count, dtype=np.int32)
    kernels.scan_changes(frames, lengths, relations, opened, kind, run, *longs)
    return Changes(kind, run, *longs)


def _writable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Compiled kernels know writable arrays only; what comes from a block is, so this rarely copies."""
    return array if array.flags.writeable else array.copy()


def _batch(frames: Bytes, changes: Changes, table: TableSchema) -> ChangeBatch:
    rows, columns = changes.kind.size, len(table.columns)
    has_new, has_old = np.empty(rows, np.uint8), np.empty(rows, np.uint8)
    new_start, old_start = (np.empty((columns, rows), np.int64) for _ in range(2))
    new_size, old_size = (np.empty((columns, rows), np.int32) for _ in range(2))
    bad = kernels.tuple_bounds(
        frames,
        changes.kind,
        changes.start,
        changes.end,
        columns,
        has_new,
        new_start,
        new_size,
        has_old,
        old_start,
        old_size,
    )
    if bad >= 0:
        raise Malformed(bad, int(changes.kind[bad]))
    records = pa.RecordBatch.from_arrays(
        [
            _OPERATION.take(pa.array(_OPERATION_CODE[changes.kind])),
            pa.array(changes.commit),
            pa.array(changes.ordinal),
            pa.array(changes.lsn),
            pa.array(changes.time).cast(pa.timestamp("us", tz="UTC")),
            pa.array(changes.xid),
            _image(frames, table, has_old, old_start, old_size),
            _image(frames, table, has_new, new_start, new_size),
            _unchanged(table, has_new, new_size),
        ],
        schema=change_schema(table),
    )
    return ChangeBatch(table, records)


def _image(frames: Bytes, table: TableSchema, has: Bytes, start: Longs, size: npt.NDArray[np.int32]) -> pa.StructArray:
    """`before` or `after`: rows that have this image parsed, the others null."""
    present = np.flatnonzero(has)
    if not present.size:
        return pa.nulls(has.size, table.arrow)
    everywhere = present.size == has.size
    arrays = []
    for c, column in enumerate(table.columns):
        starts, sizes = (start[c], size[c]) if everywhere else (start[c][present], size[c][present])
        arrays.append(values.parse(column, frames, starts, sizes, table.table))
    image = pa.StructArray.from_arrays(arrays, fields=list(table.arrow))
    if everywhere:
        return image
    place = np.zeros(has.size, dtype=np.int64)
    place[present] = np.arange(present.size)
    return image.take(pa.array(place, mask=has == 0))


def _unchanged(table: TableSchema, has_new: Bytes, size: npt.NDArray[np.int32]) -> pa.ListArray:
    """Names of the columns that each row left out."""
    left_out = (size == UNCHANGED) & (has_new != 0)
    if not left_out.any():
        return pa.nulls(has_new.size, pa.list_(pa.string()))
    rows, columns = np.nonzero(left_out.T)
    counts = np.bincount(rows, minlength=has_new.size)
    offsets = np.zeros(has_new.size + 1, dtype=np.int32)
    np.cumsum(counts, out=offsets[1:])
    names = pa.array([column.name for column in table.columns], pa.string()).take(pa.array(columns))
    return pa.ListArray.from_arrays(pa.array(offsets), names, mask=pa.array(counts == 0))
