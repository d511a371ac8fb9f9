"""Copying one key range of a table: a result's packets, parsed as the log's values are.

`chunks.py` has cut the ranges, `relay.py` brings the packets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import Stop
from headwater.event import ChangeBatch, Chunk, Position, TableRun, TableSchema, change_schema
from headwater.sources.base import CopyChunk, Snapshot
from headwater.sources.mysql import result_kernels, values
from headwater.sources.mysql.layout import result_layout
from headwater.sources.mysql.relay import read_door
from headwater.sources.mysql.result import count_rows


def copy_rows(chunk: CopyChunk, snapshot: Snapshot) -> Iterator[ChangeBatch]:
    """The rows of one chunk as they were at the snapshot's position, as changes with op `r`."""
    blocks = read_door(dict(snapshot.detail["door"]), chunk.where["number"])
    types = next(blocks)
    for block in blocks:
        rows = parse_packets(np.frombuffer(block, dtype=np.uint8).copy(), types, chunk.table)
        yield read_batch(chunk.table, rows, snapshot.position, snapshot.taken, snapshot.detail["address"])


def copy_chunks(snapshot: Snapshot, after: Position) -> Iterator[Chunk]:
    """All rows of a snapshot as the server's own packets, for the journal."""
    for number, chunk in enumerate(snapshot.chunks):
        blocks = read_door(dict(snapshot.detail["door"]), chunk.where["number"])
        types = next(blocks).hex()
        for block in blocks:
            rows = count_rows(block)
            table, upto = chunk.table, Position(after.commit, after.ordinal + rows, after.resume)
            yield Chunk(
                frames=block,
                lengths=np.array([len(block)], np.uint32),
                first=after,
                last=upto,
                whole=False,
                tables=(TableRun(number, table.table, table.id, rows),),
                context={
                    "copy": True,
                    "types": types,
                    "time": snapshot.taken,
                    "address": snapshot.detail["address"],
                },
                commit_time=snapshot.taken,
            )
            after = upto


def parse_packets(data: npt.NDArray[np.uint8], types: bytes, table: TableSchema) -> pa.StructArray:
    """Packets of rows as typed rows."""
    # A row has a packet header, a zero byte, and bits for nulls.
    most = data.size // 6 + 1
    starts, ends = np.empty(most, np.int64), np.empty(most, np.int64)
    rows = result_kernels.packet_places(data, starts, ends)
    columns = len(table.columns)
    bad = 0
    if rows >= 0 and len(types) == columns:
        start, size = np.empty((columns, rows), np.int64), np.empty((columns, rows), np.int32)
        bad = result_kernels.result_bounds(data, starts[:rows], ends[:rows], result_layout(types), start, size)
    if rows < 0 or len(types) != columns or bad >= 0:
        raise Stop(f"copying {table.table} gave a row that does not have {columns} columns")
    arrays = [
        values.parse(column, data, start[c], size[c], table.table, result=True)
        for c, column in enumerate(table.columns)
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(table.arrow))


def copied(chunk: Chunk, table: TableSchema) -> ChangeBatch:
    """Rows of a snapshot that went through the journal, numbered like the changes of one transaction."""
    data = np.frombuffer(chunk.frames, dtype=np.uint8).copy()
    rows = parse_packets(data, bytes.fromhex(chunk.context["types"]), table)
    batch = read_batch(table, rows, chunk.first, chunk.context["time"], chunk.context["address"], numbered=True)
    # Debezium marks the first and the last row of a snapshot and of each table in it.
    marks = {key: chunk.context[key] for key in ("first", "last")}
    if len(batch) == 1 and marks["last"] != "true":
        # Its connectors for this database say of a single row only that it is the last.
        marks["first"] = "true"
    return ChangeBatch(table, batch.records.replace_schema_metadata(marks))


def read_batch(
    table: TableSchema, after: pa.StructArray, position: Position, taken: int, address: int, *, numbered: bool = False
) -> ChangeBatch:
    """Snapshot rows as changes: op `r`, all at the snapshot's position, or `numbered` from behind it."""
    rows = len(after)

    def constant(value: object, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), rows)

    arrays = [
        constant("r", pa.string()),
        constant(position.commit, pa.int64()),
        pa.array(np.arange(1, rows + 1) + position.ordinal) if numbered else constant(position.ordinal, pa.int64()),
        constant(address, pa.int64()),
        constant(taken, pa.timestamp("us", tz="UTC")),
        pa.nulls(rows, pa.int64()),
        pa.nulls(rows, table.arrow),
        after,
        pa.nulls(rows, pa.list_(pa.string())),
    ]
    return ChangeBatch(table, pa.RecordBatch.from_arrays(arrays, schema=change_schema(table)))
