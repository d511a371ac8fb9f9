"""Apply last states to a table by rewriting the files that hold their keys: copy on write, in one commit.

Files whose statistics exclude every key are not opened; of the others only the key columns are read, and only
files in which a key was found are read whole and replaced. Memory is bounded by WRITERS files, not by the table.
Leaves the commit to `log`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headwater.errors import Stop
from headwater.event import TableSchema
from headwater.sinks.delta.compact import to_compact
from headwater.sinks.delta.keys import Ids, integers, may_hold
from headwater.sinks.delta.log import Rewrite, TableLog
from headwater.sinks.delta.parquet import DataFile, discard, read_file, write_files
from headwater.sinks.delta.reduce import LastState, exchanged

# Files rewritten at a time. Each holds one decoded file in memory (16 MB of Parquet: 50 to 150 MB).
WRITERS = 2


@dataclass(frozen=True)
class Hit:
    """The rows of one file that a batch touches."""

    path: str
    # Where in the file, and the key's number there.
    rows: Ids
    keys: Ids


def merge(
    log: TableLog, table: TableSchema, state: LastState, schema: pa.Schema, key: Sequence[str], *, file_bytes: int
) -> Rewrite:
    """Write the files that make the table hold `state`; nothing is visible before the commit."""
    rewrite = Rewrite()
    hits: list[Hit] = []
    if state.truncated:
        rewrite.remove.extend(log.files().paths)
    elif state.index is not None:
        hits = find(log, table, state, schema, key)
    state = replace(state, rows=pay(log, state, schema, hits).select(schema.names))
    rewrite.remove.extend(hit.path for hit in hits)
    placed = np.zeros(state.rows.num_rows, dtype=bool)
    for hit in hits:
        here = state.row_of_key[hit.keys]
        placed[here[here >= 0]] = True
    fresh = state.rows if not placed.any() else state.rows.filter(pa.array(~placed))
    # Parquet is encoded without the interpreter's lock, so files are rewritten side by side.
    with ThreadPoolExecutor(WRITERS) as pool:
        made = [pool.submit(_rewrite, log, hit, state, schema, key, file_bytes) for hit in hits]
        made.append(pool.submit(write_files, log.folder, schema, [fresh], file_bytes=file_bytes, key=key))
    failed = [done for done in made if done.exception()]
    for done in made:
        if done not in failed:
            rewrite.add += done.result()
    if failed:
        discard(log.folder, rewrite.add)
        failed[0].result()
    return rewrite


def _rewrite(
    log: TableLog, hit: Hit, state: LastState, schema: pa.Schema, key: Sequence[str], file_bytes: int
) -> list[DataFile]:
    """One file anew: without the rows that were touched, with those that still have their place here.

    Updated rows stay in the file their key came from, so a file's key range does not widen."""
    old = read_file(log.folder, hit.path, schema)
    keep = np.ones(old.num_rows, dtype=bool)
    keep[hit.rows] = False
    here = state.row_of_key[hit.keys]
    rows = [old.filter(pa.array(keep)), state.rows.take(pa.array(here[here >= 0]))]
    return write_files(log.folder, schema, [pa.concat_tables(rows)], file_bytes=2 * file_bytes, key=key)


def find(log: TableLog, table: TableSchema, state: LastState, schema: pa.Schema, key: Sequence[str]) -> list[Hit]:
    """The files and rows that hold the batch's keys."""
    files, index = log.files(), state.index
    if index is None or not len(files):
        return []
    bounds = [files.bounds(name, schema.field(name).type) for name in key]
    keys_only = pa.schema([schema.field(name) for name in key])
    hits = []
    for at in np.flatnonzero(may_hold(index, [low for low, _ in bounds], [high for _, high in bounds])):
        columns = read_file(log.folder, files.paths[at], keys_only).combine_chunks()
        if not columns.num_rows:
            continue
        ids = index.find([_whole(columns.column(i)) for i in range(len(key))])
        rows = np.flatnonzero(ids >= 0)
        if state.taken_first[ids[rows]].any():
            raise exchanged(table)
        if len(rows):
            hits.append(Hit(files.paths[at], rows, ids[rows]))
    return hits


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def pay(log: TableLog, state: LastState, schema: pa.Schema, hits: Sequence[Hit]) -> pa.Table:
    """The last states with what the log left out filled in from the target's own rows."""
    rows = state.rows
    for name, owed in state.owed.items():
        wanted = np.zeros(len(state.row_of_key), dtype=bool)
        wanted[owed[owed >= 0]] = True
        only = pa.schema([schema.field(name)])
        parts, at_key = [], np.full(len(state.row_of_key), -1, dtype=np.int64)
        count = 0
        for hit in hits:
            here = wanted[hit.keys]
            if here.any():
                taken = read_file(log.folder, hit.path, only).column(0).take(pa.array(hit.rows[here]))
                at_key[hit.keys[here]] = count + np.arange(len(taken))
                count += len(taken)
                parts.extend(taken.chunks)
        source = np.where(owed >= 0, at_key[owed], -1)
        if ((owed >= 0) & (source < 0)).any():
            raise Stop(
                f"an update left {name!r} out because it did not change, and the table has no such row to keep it from",
                "load the table anew (headwater snapshot), or set REPLICA IDENTITY FULL at the source",
            )
        old = pa.concat_arrays(parts)
        own = _whole(rows.column(name)) if rows.num_rows else pa.nulls(0, schema.field(name).type)
        both = pa.concat_arrays([own, old])
        pick = np.where(source >= 0, len(own) + source, np.arange(len(own)))
        rows = rows.set_column(rows.schema.get_field_index(name), schema.field(name), both.take(pa.array(pick)))
    return rows


def compact(log: TableLog, rewrite: Rewrite, schema: pa.Schema, key: Sequence[str], *, file_bytes: int) -> None:
    """Put small files together that this commit leaves alone, in the same commit."""
    files, gone = log.files(), set(rewrite.remove)
    stay = [at for at in range(len(files)) if files.paths[at] not in gone]
    if key and len(stay) > 1:
        # Neighbours in key order, so that the merged file's key range stays narrow.
        lows = integers(files.bounds(key[0], schema.field(key[0]).type)[0])
        stay = stay if lows is None else sorted(stay, key=lambda at: int(lows[at]))
    chosen = [files.paths[stay[at]] for at in to_compact([int(files.sizes[at]) for at in stay], file_bytes)]
    if not chosen:
        return
    tables = (read_file(log.folder, path, schema) for path in chosen)
    rewrite.together += write_files(log.folder, schema, tables, file_bytes=file_bytes, key=key)
    rewrite.apart += chosen
