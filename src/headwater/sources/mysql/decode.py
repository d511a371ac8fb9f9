"""Raw frames to changes: the chunk's bytes become one ChangeBatch per table. No I/O, no secret.

`kernels.py` finds where everything is, `values.py` turns the bytes of a column into typed values; this module puts
the columns together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import Stop
from headwater.event import ChangeBatch, Chunk, Position, TableRun, TableSchema, Timeline, change_schema
from headwater.sources.mysql import binlog, kernels, values
from headwater.sources.mysql.binlog import Malformed
from headwater.sources.mysql.layout import log_layout
from headwater.sources.mysql.position import FileProgress, MariaDbProgress, MySqlProgress, parse_progress
from headwater.sources.mysql.schema_change import messages

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

_OPERATION = pa.array(["c", "u", "d", "t"], pa.string())
_OPERATION_CODE = np.zeros(256, dtype=np.int8)
_OPERATION_CODE[[23, 24, 25, 30, 31, 32, 2]] = [0, 1, 2, 0, 1, 2, 3]
# Every frame stands behind the number of its changes.
_ROWS = 4
# Key of the batch's metadata that holds the begin frames of its transactions, for Debezium's `source`.
TRANSACTIONS = b"transactions"


@dataclass(frozen=True)
class Frames:
    """The frames of a chunk, before their rows are looked at; parallel arrays in log order."""

    run: npt.NDArray[np.int32]
    kind: Bytes
    start: Longs
    end: Longs
    rows: Longs
    address: Longs
    commit: Longs
    ordinal: Longs
    time: Longs
    number: Longs

    def where(self, mask: npt.NDArray[np.bool_]) -> Frames:
        if mask.all():
            return self
        return Frames(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))


def decode(
    chunk: Chunk, schemas: Mapping[str, TableSchema], tables: set[str] | None = None, *, events: bool = False
) -> list[ChangeBatch]:
    """See `Source.decode`, and `Source.decode_events` for `events`: those are numbered within their transactions."""
    runs = [run for run in chunk.tables if tables is None or run.table in tables]
    if not runs:
        return []
    if chunk.context.get("copy"):
        from headwater.sources.mysql.copy import copied

        return [copied(chunk, schemas[runs[0].schema])]
    data = writable(np.frombuffer(chunk.frames, dtype=np.uint8))
    frames = scan(data, chunk, runs)
    transactions = _transactions(data, chunk, frames)
    timeline = None
    if events:
        from headwater.sources.mysql.timeline import MySqlTimeline

        timeline = MySqlTimeline(data, chunk, schemas)
    batches = []
    for number, run in enumerate(runs):
        own = frames.where(frames.run == number)
        if int(own.rows.sum()) != run.changes:
            raise Stop(f"a chunk of the log has {own.rows.sum()} changes of {run.table}; its index says {run.changes}")
        batches.append(_batch(data, own, schemas[run.schema], transactions, timeline))
    return batches


def positions(chunk: Chunk, tables: set[str] | None = None) -> list[Position]:
    """See `Source.positions`."""
    runs = [run for run in chunk.tables if tables is None or run.table in tables]
    if chunk.context.get("copy"):
        count = sum(run.changes for run in runs)
        return [Position(chunk.first.commit, chunk.first.ordinal + n, chunk.first.resume) for n in range(1, count + 1)]
    data = writable(np.frombuffer(chunk.frames, dtype=np.uint8))
    frames = scan(data, chunk, runs)
    found = []
    progress = parse_progress(chunk.context["resume"])
    pending = _gtid_of(bytes.fromhex(chunk.context["begin"])) if chunk.context["begin"] else None
    for i in range(frames.run.size):
        if frames.run[i] == -2:
            if pending is not None:
                progress = _behind(progress, pending, int(frames.address[i]))
            pending = _gtid_of(data[frames.start[i] : frames.end[i]].tobytes())
        elif frames.run[i] >= 0:
            commit, before = int(frames.commit[i]), int(frames.ordinal[i])
            # Whoever stops inside a transaction gets it again from its beginning.
            resume = progress.text()
            found += [Position(commit, before + n, resume) for n in range(1, int(frames.rows[i]) + 1)]
    return found


def _gtid_of(begin: bytes) -> str:
    return begin[binlog.HEADER_BYTES + binlog.BEGIN.size :].decode()


def _behind(progress: Any, gtid: str, address: int) -> Any:
    match progress:
        case MariaDbProgress():
            domain, server, number = map(int, gtid.split("-"))
            return progress.after(domain, server, number)
        case MySqlProgress():
            source, _, own = gtid.rpartition(":")
            return progress.after(source, int(own))
    # Where the next transaction begins is as good as where this one ended.
    file = f"{progress.file.rpartition('.')[0]}.{address >> 40:0{len(progress.file.rpartition('.')[2])}}"
    return FileProgress(file, address & (1 << 40) - 1)


def scan(data: Bytes, chunk: Chunk, runs: list[TableRun]) -> Frames:
    """Every frame of the chunk, with the index of its table in `runs` (-1: not wanted, -2: begins a transaction)."""
    lengths = writable(chunk.lengths.astype(np.uint32, copy=False))
    relations = np.array([run.relation for run in runs], dtype=np.int64)
    opened = np.zeros(5, dtype=np.int64)
    if begin := chunk.context.get("begin"):
        commit, time, number, _address = binlog.BEGIN.unpack_from(bytes.fromhex(begin), binlog.HEADER_BYTES)
        opened[:] = (commit, chunk.context["ordinal"], time, number, chunk.context["address"])
    count = lengths.size
    run, kind = np.empty(count, np.int32), np.empty(count, np.uint8)
    start, rows, address, commits, ordinal, times, numbers = (np.empty(count, np.int64) for _ in range(7))
    bad = kernels.scan_frames(
        data, lengths, relations, opened, run, kind, start, rows, address, commits, ordinal, times, numbers
    )
    if bad >= 0:
        raise Malformed(f"a frame ({bad} of {count}) that a chunk may not have")
    end = start + lengths - _ROWS
    return Frames(run, kind, start, end, rows, address, commits, ordinal, times, numbers)


def _transactions(data: Bytes, chunk: Chunk, frames: Frames) -> bytes:
    """The begin frames of the chunk's transactions, end to end."""
    begins = np.flatnonzero(frames.run == -2)
    own = b"".join(data[frames.start[i] : frames.end[i]].tobytes() for i in begins)
    return bytes.fromhex(chunk.context.get("begin", "")) + own


def writable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Compiled kernels know writable arrays only; what comes from a block is, so this rarely copies."""
    return array if array.flags.writeable else array.copy()


def bounds(
    data: Bytes, frames: Frames, table: TableSchema
) -> tuple[Longs, npt.NDArray[np.int32], Longs, npt.NDArray[np.int32]]:
    """Where every value of a table's rows is, by column, then by change: start and size of new ones, then of old."""
    changes, columns = int(frames.rows.sum()), len(table.columns)
    logged = (frames.kind != 2).any()
    layout = _layout(table) if logged else np.zeros(columns, np.int32)
    new_start, old_start = (np.zeros((columns, changes), np.int64) for _ in range(2))
    new_size, old_size = (np.full((columns, changes), kernels.NULL, np.int32) for _ in range(2))
    bad = kernels.row_bounds(
        data, frames.start, frames.end, frames.rows, layout, new_start, new_size, old_start, old_size
    )
    if bad >= 0:
        raise Malformed(f"a rows event of {table.table} that is damaged")
    return new_start, new_size, old_start, old_size


def _batch(
    data: Bytes, frames: Frames, table: TableSchema, transactions: bytes, timeline: Timeline | None
) -> ChangeBatch:
    if table.message:
        return _messages(data, frames, table, transactions, timeline)
    changes = int(frames.rows.sum())
    new_start, new_size, old_start, old_size = bounds(data, frames, table)
    each = np.repeat(np.arange(frames.rows.size), frames.rows)
    kind = frames.kind[each]
    number_in_event = np.arange(changes) - (np.cumsum(frames.rows) - frames.rows)[each]
    records = pa.RecordBatch.from_arrays(
        [
            _OPERATION.take(pa.array(_OPERATION_CODE[kind])),
            pa.array(frames.commit[each]),
            pa.array(frames.ordinal[each] + 1 + number_in_event),
            pa.array(frames.address[each]),
            pa.array(frames.time[each]).cast(pa.timestamp("us", tz="UTC")),
            # A TRUNCATE is a definition to these servers: it belongs to no transaction.
            pa.array(frames.number[each], mask=kind == 2),
            _image(data, table, (kind != 23) & (kind != 30) & (kind != 2), old_start, old_size),
            _image(data, table, (kind != 25) & (kind != 32) & (kind != 2), new_start, new_size),
            pa.nulls(changes, pa.list_(pa.string())),
        ],
        schema=change_schema(table),
    )
    return ChangeBatch(table, records.replace_schema_metadata({TRANSACTIONS: transactions}), timeline)


def _messages(
    data: Bytes, frames: Frames, table: TableSchema, transactions: bytes, timeline: Timeline | None
) -> ChangeBatch:
    """Changes of definitions: they belong to no transaction."""
    skipped = binlog.HEADER_BYTES + 8
    contents = [
        data[start + skipped : end].tobytes()
        for start, end in zip(frames.start.tolist(), frames.end.tolist(), strict=True)
    ]
    count = len(contents)
    records = pa.RecordBatch.from_arrays(
        [
            pa.array(["m"] * count, pa.string()),
            pa.array(frames.commit),
            pa.array(frames.ordinal + 1),
            pa.array(frames.address),
            pa.array(frames.time).cast(pa.timestamp("us", tz="UTC")),
            pa.nulls(count, pa.int64()),
            pa.nulls(count, table.arrow),
            messages(contents),
            pa.nulls(count, pa.list_(pa.string())),
        ],
        schema=change_schema(table),
    )
    return ChangeBatch(table, records.replace_schema_metadata({TRANSACTIONS: transactions}), timeline)


def _image(
    data: Bytes, table: TableSchema, has: npt.NDArray[np.bool_], start: Longs, size: npt.NDArray[np.int32]
) -> pa.StructArray:
    """`before` or `after`: rows that have this image parsed, the others null."""
    present = np.flatnonzero(has)
    if not present.size:
        return pa.nulls(has.size, table.arrow)
    everywhere = present.size == has.size
    arrays = []
    for c, column in enumerate(table.columns):
        starts, sizes = (start[c], size[c]) if everywhere else (start[c][present], size[c][present])
        if (sizes == kernels.ABSENT).any():
            _refuse_absent(table, column.name, column.generated)
        arrays.append(values.parse(column, data, starts, sizes, table.table))
    image = pa.StructArray.from_arrays(arrays, fields=list(table.arrow))
    if everywhere:
        return image
    place = np.zeros(has.size, dtype=np.int64)
    place[present] = np.arange(present.size)
    return image.take(pa.array(place, mask=~has))


def _refuse_absent(table: TableSchema, column: str, generated: bool) -> None:
    if not generated:
        raise Stop(
            f"the log leaves out column {column} of {table.table}",
            "set global binlog_row_image = 'FULL';   -- then end the sessions that had another setting",
            "What was left out cannot be read: load the table anew",
            cause="binlog_row_image was MINIMAL or NOBLOB when the row was written",
        )


def _layout(table: TableSchema) -> npt.NDArray[np.int32]:
    return log_layout([tuple(column.detail["log"]) for column in table.columns], table.table)
