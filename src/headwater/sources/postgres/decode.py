"""Raw frames to changes: the chunk's bytes become one ChangeBatch per table. No I/O, no secret.

`kernels.py` finds where everything is, `values.py` turns the bytes of a column into typed values; this
module puts the columns together.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import Stop
from headwater.event import ChangeBatch, Chunk, Position, TableSchema, change_schema
from headwater.sources.postgres import kernels, values
from headwater.sources.postgres.changes import Bytes, Changes, Longs, scan, writable
from headwater.sources.postgres.copy import parse_text, read_batch
from headwater.sources.postgres.pgoutput import UNCHANGED, Malformed, parse_message
from headwater.sources.postgres.timeline import PostgresTimeline
from headwater.sources.postgres.types import made_fitting, text_in_events

_OPERATION = pa.array(["c", "u", "d", "t", "m"], pa.string())
_OPERATION_CODE = np.zeros(256, dtype=np.int8)
_OPERATION_CODE[list(b"IUDTM")] = [0, 1, 2, 3, 4]


def decode(
    chunk: Chunk,
    schemas: Mapping[str, TableSchema],
    tables: set[str] | None = None,
    *,
    numeric_as_text: bool = False,
) -> list[ChangeBatch]:
    """See `Source.decode`, and `Source.decode_events` for `numeric_as_text`: a column of this chunk's batch is text
    when a NaN or an infinity stands in it."""
    runs = [run for run in chunk.tables if tables is None or run.table in tables]
    if not runs:
        return []
    as_text = text_in_events if numeric_as_text else _none
    if chunk.context.get("copy"):
        return [made_fitting(partial(_copied, chunk), schemas[runs[0].schema], as_text)]
    frames = writable(np.frombuffer(chunk.frames, dtype=np.uint8))
    changes = scan(frames, chunk, runs)
    counts = np.bincount(changes.run[changes.run >= 0], minlength=len(runs)).tolist()
    for run, count in zip(runs, counts, strict=True):
        if count != run.changes:
            raise Stop(f"a chunk of the log has {count} changes of {run.table}; its index says {run.changes}")
    timeline = PostgresTimeline(frames, chunk, schemas, changes)
    return [
        made_fitting(partial(_batch, frames, changes.of_run(i), timeline), schemas[run.schema], as_text)
        for i, run in enumerate(runs)
    ]


def decode_rows(
    chunk: Chunk, schemas: Mapping[str, TableSchema], run: int, rows: range, *, as_text: bool
) -> ChangeBatch | None:
    """See `Source.decode_rows`."""
    if chunk.context.get("copy"):
        return None
    frames = writable(np.frombuffer(chunk.frames, dtype=np.uint8))
    changes = scan(frames, chunk, list(chunk.tables))
    timeline = PostgresTimeline(frames, chunk, schemas, changes)
    make = partial(_batch, frames, changes.of_run(run).of_rows(rows), timeline)
    return made_fitting(make, schemas[chunk.tables[run].schema], _any if as_text else _none)


def _none(_kind: pa.DataType) -> bool:
    return False


def _any(kind: pa.DataType) -> bool:
    return not pa.types.is_string(kind)


def _copied(chunk: Chunk, table: TableSchema) -> ChangeBatch:
    """Rows of a snapshot that went through the journal, numbered like the changes of one transaction."""
    text = np.frombuffer(chunk.frames, dtype=np.uint8).copy()
    time, xid = chunk.context["time"], chunk.context.get("xid")
    batch = read_batch(table, parse_text(text, table), chunk.first, time, xid, numbered=True)
    # Debezium marks the first and the last row of a snapshot and of each table in it.
    marks = {key: chunk.context[key] for key in ("first", "last")}
    return ChangeBatch(table, batch.records.replace_schema_metadata(marks))


def positions(chunk: Chunk, tables: set[str] | None = None) -> list[Position]:
    """See `Source.positions`."""
    runs = [run for run in chunk.tables if tables is None or run.table in tables]
    if chunk.context.get("copy"):
        count = sum(run.changes for run in runs)
        return [Position(chunk.first.commit, chunk.first.ordinal + n) for n in range(1, count + 1)]
    changes = scan(writable(np.frombuffer(chunk.frames, dtype=np.uint8)), chunk, runs)
    wanted = changes.run >= 0
    pairs = zip(changes.commit[wanted].tolist(), changes.ordinal[wanted].tolist(), strict=True)
    return [Position(commit, ordinal) for commit, ordinal in pairs]


def _batch(frames: Bytes, changes: Changes, timeline: PostgresTimeline, table: TableSchema) -> ChangeBatch:
    if table.message:
        before, after, unchanged = _messages(frames, changes, table)
    else:
        before, after, unchanged = _rows(frames, changes, table)
    records = pa.RecordBatch.from_arrays(
        [
            _OPERATION.take(pa.array(_OPERATION_CODE[changes.kind])),
            pa.array(changes.commit),
            pa.array(changes.ordinal),
            pa.array(changes.lsn),
            pa.array(changes.time).cast(pa.timestamp("us", tz="UTC")),
            pa.array(changes.xid, mask=changes.xid < 0 if table.message else None),
            before,
            after,
            unchanged,
        ],
        schema=change_schema(table),
    )
    return ChangeBatch(table, records, timeline)


def _messages(frames: Bytes, changes: Changes, table: TableSchema) -> tuple[pa.Array, pa.Array, pa.Array]:
    """`before`, `after`, `unchanged` of logical messages."""
    begins = (changes.start - 1).tolist()
    heard = [parse_message(frames[b:e].tobytes()) for b, e in zip(begins, changes.end.tolist(), strict=True)]
    texts = pa.array([message.prefix for message in heard], pa.string())
    contents = pa.array([message.content for message in heard], pa.binary())
    after = pa.StructArray.from_arrays([texts, contents], fields=list(table.arrow))
    return pa.nulls(len(heard), table.arrow), after, pa.nulls(len(heard), pa.list_(pa.string()))


def _rows(frames: Bytes, changes: Changes, table: TableSchema) -> tuple[pa.Array, pa.Array, pa.Array]:
    """`before`, `after`, `unchanged` of rows."""
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
    return (
        _image(frames, table, has_old, old_start, old_size),
        _image(frames, table, has_new, new_start, new_size),
        _unchanged(table, has_new, new_size),
    )


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
