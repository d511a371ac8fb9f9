"""What the changes of a batch amount to: for every key its last state, or that it is gone.

Pure: Arrow in, Arrow out, no loop per row. What the log left out (unchanged TOAST) is taken from an earlier
change of the same row in the batch, followed across key changes; what no change in the batch holds is
reported as owed by the target, to `merge`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.event import ChangeBatch, TableSchema
from headwater.sinks.delta.keys import Ids, KeyIndex, require_whole_keys

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LastState:
    """The keys a batch touched and the rows that stand at its end."""

    # The table was emptied before these states: no earlier row remains.
    truncated: bool
    index: KeyIndex | None
    # For every key the row of `rows` that holds its state; -1 when the key is gone.
    row_of_key: Ids
    # The last states, in commit order, with the table's columns.
    rows: pa.Table
    # The key of each of these rows.
    key_of_row: Ids
    # For a column that the log left out: the key of the target row that holds the value, -1 where `rows` has it.
    owed: dict[str, Ids]


def conform(batch: ChangeBatch, table: TableSchema) -> ChangeBatch:
    """A batch written under an older definition, with NULL for the columns that came later."""
    if batch.table.arrow == table.arrow:
        return batch if batch.table is table else ChangeBatch(table, batch.records)
    records = batch.records
    columns = []
    for field in records.schema:
        column = records.column(field.name)
        if field.name in ("before", "after"):
            column = _widen(column, table)
        columns.append(column)
    fields = [
        pa.field(field.name, table.arrow) if field.name in ("before", "after") else field for field in records.schema
    ]
    return ChangeBatch(table, pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))


def _widen(column: pa.StructArray, table: TableSchema) -> pa.StructArray:
    """A row struct with the columns of `table`; a column it does not have yet is NULL."""
    parts = []
    for field in table.arrow:
        at = column.type.get_field_index(field.name)
        parts.append(pa.nulls(len(column), field.type) if at < 0 else column.field(at))
    return pa.StructArray.from_arrays(parts, fields=list(table.arrow), mask=pc.is_null(column))


def last_state(batch: ChangeBatch, key: Sequence[str]) -> LastState:
    """Reduce a batch to the last state of each key."""
    op = batch.op
    truncates = np.flatnonzero(pc.equal(op, "t").to_numpy(zero_copy_only=False))
    if len(truncates):
        after = batch.records.slice(int(truncates[-1]) + 1)
        batch = ChangeBatch(batch.table, after)
    if not len(batch):
        empty = np.empty(0, dtype=np.int64)
        nothing = pa.Table.from_batches([], pa.schema(list(batch.table.arrow)))
        return LastState(bool(len(truncates)), None, empty, nothing, empty, {})
    return _reduce(batch, key, truncated=bool(len(truncates)))


def _reduce(batch: ChangeBatch, key: Sequence[str], *, truncated: bool) -> LastState:
    table, n = batch.table, len(batch)
    deletes = pc.equal(batch.op, "d").to_numpy(zero_copy_only=False)
    puts = np.flatnonzero(~deletes)
    has_before = pc.is_valid(batch.before).to_numpy(zero_copy_only=False)
    # An update whose `before` is there may have moved to another key; which ones did shows when keys are numbered.
    removes = np.flatnonzero(deletes | (has_before & pc.equal(batch.op, "u").to_numpy(zero_copy_only=False)))
    columns = []
    for name in key:
        at = table.arrow.get_field_index(name)
        new = batch.after.field(at).take(pa.array(puts))
        old = batch.before.field(at).take(pa.array(removes))
        columns.append(pa.concat_arrays([new, old]))
    require_whole_keys(table, key, columns)
    index, ids = KeyIndex.of(columns)
    new_key = np.full(n, -1, dtype=np.int64)
    old_key = np.full(n, -1, dtype=np.int64)
    new_key[puts] = ids[: len(puts)]
    old_key[removes] = ids[len(puts) :]
    moved = (old_key >= 0) & (new_key >= 0) & (old_key != new_key)

    # Later steps overwrite earlier ones: NumPy assigns repeated indices in order. A moved row first leaves its
    # old key, then takes the new one.
    last = np.full(len(index), -1, dtype=np.int64)
    order = np.empty(2 * n, dtype=np.int64)
    order[0::2] = np.where(deletes | moved, old_key, -1)
    order[1::2] = new_key
    real = order >= 0
    last[order[real]] = np.flatnonzero(real)
    alive = (last >= 0) & (last % 2 == 1)
    change = last[alive] // 2
    keys = np.flatnonzero(alive)
    in_time = np.argsort(change, kind="stable")
    change, keys = change[in_time], keys[in_time]
    row_of_key = np.full(len(index), -1, dtype=np.int64)
    row_of_key[keys] = np.arange(len(keys))

    rows, owed = _resolve(batch, change, new_key, old_key, moved, deletes)
    return LastState(truncated, index, row_of_key, rows, keys, owed)


def _resolve(
    batch: ChangeBatch, change: Ids, new_key: Ids, old_key: Ids, moved: Mask, deletes: Mask
) -> tuple[pa.Table, dict[str, Ids]]:
    """The rows after these changes, each column from the newest change of the row that carries it."""
    left_out = {name: mask for name, mask in batch.unchanged_masks.items() if mask.any()}
    previous = _previous(new_key, old_key, moved, deletes) if left_out else None
    after = batch.after
    columns, owed = [], {}
    for at, field in enumerate(batch.table.arrow):
        column = after.field(at)
        mask = left_out.get(field.name)
        if mask is None or previous is None:
            columns.append(column.take(pa.array(change)))
            continue
        source = _follow(mask, previous)[change]
        taken = column.take(pa.array(source))
        missing = mask[source]
        taken, missing = _from_before(batch, field.name, taken, source, missing)
        if missing.any():
            origin = np.where(moved[source], old_key[source], new_key[source])
            owed[field.name] = np.where(missing, origin, -1)
        columns.append(taken)
    return pa.Table.from_arrays(columns, schema=pa.schema(list(batch.table.arrow))), owed


def _from_before(batch: ChangeBatch, name: str, taken: pa.Array, source: Ids, missing: Mask) -> tuple[pa.Array, Mask]:
    """Take a left-out value from `before`, where the log carries that column of old rows."""
    if name not in batch.table.identity or not missing.any():
        return taken, missing
    there = pc.is_valid(batch.before).to_numpy(zero_copy_only=False)[source] & missing
    if not there.any():
        return taken, missing
    old = batch.before.field(batch.table.arrow.get_field_index(name)).take(pa.array(source))
    return pc.if_else(pa.array(there), old, taken), missing & ~there


def _previous(new_key: Ids, old_key: Ids, moved: Mask, deletes: Mask) -> Ids:
    """For every change the change that last put the same row in place; -1 when the batch holds none.

    Steps sorted by key and time stand next to their predecessor. A moved row's predecessor is that of the
    key it left."""
    n = len(new_key)
    step_key = np.empty(2 * n, dtype=np.int64)
    step_key[0::2] = np.where(deletes | moved, old_key, -1)
    step_key[1::2] = new_key
    steps = np.flatnonzero(step_key >= 0)
    steps = steps[np.argsort(step_key[steps], kind="stable")]
    before = np.full(2 * n, -1, dtype=np.int64)
    same = step_key[steps[1:]] == step_key[steps[:-1]]
    # Only a put (odd step) leaves a row behind.
    before[steps[1:]] = np.where(same & (steps[:-1] % 2 == 1), steps[:-1] // 2, -1)
    return np.where(moved, before[0::2], before[1::2])


def _follow(left_out: Mask, previous: Ids) -> Ids:
    """For every change the newest change of its row, itself included, that carries the column.

    Where there is none: the oldest change of the row in the batch. Halves the way each round, so that a key
    updated a million times takes twenty rounds."""
    step = np.where(left_out & (previous >= 0), previous, np.arange(len(previous)))
    while True:
        further = step[step]
        if np.array_equal(further, step):
            return step
        step = further
