"""What the changes of a batch amount to: for every key its last state, or that it is gone.

Pure: Arrow in, Arrow out, no loop per row. What the log left out (unchanged TOAST) is taken from an earlier
change of the same row in the batch, followed across key changes; what no change in the batch holds is
reported as owed by the target, to `merge`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import Stop
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
    # Keys that a row moved to before anything else happened to them: the target must not hold them.
    taken_first: Mask
    # For a column that the log left out: the key of the target row that holds the value, -1 where `rows` has it.
    owed: dict[str, Ids]


def conform(batch: ChangeBatch, table: TableSchema, fill: Mapping[str, pa.Scalar] | None = None) -> ChangeBatch:
    """A batch written under an older definition, with NULL (or `fill`) for the columns that came later."""
    if batch.table.arrow == table.arrow:
        return batch if batch.table is table else ChangeBatch(table, batch.records)
    records = batch.records
    columns = []
    for field in records.schema:
        column = records.column(field.name)
        if field.name in ("before", "after"):
            column = _widen(column, table, (fill or {}) if field.name == "after" else {})
        columns.append(column)
    fields = [
        pa.field(field.name, table.arrow) if field.name in ("before", "after") else field for field in records.schema
    ]
    return ChangeBatch(table, pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))


def _widen(column: pa.StructArray, table: TableSchema, fill: Mapping[str, pa.Scalar]) -> pa.StructArray:
    """A row struct with the columns of `table`."""
    parts = []
    for field in table.arrow:
        at = column.type.get_field_index(field.name)
        missing = fill.get(field.name, pa.scalar(None, field.type))
        parts.append(pa.repeat(missing, len(column)) if at < 0 else column.field(at))
    return pa.StructArray.from_arrays(parts, fields=list(table.arrow), mask=pc.is_null(column))


def last_state(batches: Sequence[ChangeBatch], key: Sequence[str]) -> LastState:
    """Reduce the changes of one table, in commit order and of one schema, to the last state of each key."""
    table = batches[0].table
    truncated = False
    left: list[ChangeBatch] = []
    for batch in batches:
        truncates = np.flatnonzero(pc.equal(batch.op, "t").to_numpy(zero_copy_only=False))
        if len(truncates):
            truncated, left = True, []
            batch = ChangeBatch(table, batch.records.slice(int(truncates[-1]) + 1))
        if len(batch):
            left.append(batch)
    if not left:
        empty = np.empty(0, dtype=np.int64)
        nothing = pa.schema(list(table.arrow)).empty_table()
        return LastState(truncated, None, empty, nothing, empty, np.empty(0, dtype=bool), {})
    return _reduce(_Changes(left), key, truncated=truncated)


def in_place(state: LastState) -> LastState:
    """A state that the target has been in already: what the log left out stands under the row's last key."""
    owed = {name: np.where(keys >= 0, state.key_of_row, -1) for name, keys in state.owed.items()}
    return replace(state, taken_first=np.zeros_like(state.taken_first), owed=owed)


def keyed_state(rows: pa.Table, key: Sequence[str]) -> LastState:
    """Rows that each stand for themselves, known by columns of theirs."""
    rows = rows.combine_chunks()
    index, ids = KeyIndex.of([rows.column(name).combine_chunks() for name in key])
    row_of_key = np.full(len(index), -1, dtype=np.int64)
    row_of_key[ids] = np.arange(len(ids))
    return LastState(False, index, row_of_key, rows, ids, np.zeros(len(index), dtype=bool), {})


class _Changes:
    """Several batches as one, column by column: a copy of one column at a time is all that memory must hold."""

    def __init__(self, batches: Sequence[ChangeBatch]) -> None:
        self._batches = batches
        self.table = batches[0].table
        self.op = pa.concat_arrays([batch.op for batch in batches])
        self.has_before: Mask = np.concatenate([_valid(batch.before) for batch in batches])

    def __len__(self) -> int:
        return len(self.op)

    def is_op(self, letter: str) -> Mask:
        return np.asarray(pc.equal(self.op, letter).to_numpy(zero_copy_only=False))

    def before(self, name: str) -> pa.Array:
        at = self.table.arrow.get_field_index(name)
        return pa.concat_arrays([batch.before.field(at) for batch in self._batches])

    def after(self, name: str) -> pa.Array:
        at = self.table.arrow.get_field_index(name)
        return pa.concat_arrays([batch.after.field(at) for batch in self._batches])

    def left_out(self) -> dict[str, Mask]:
        """For every column that some change leaves out: a mask that is true on those changes."""
        masks = [batch.unchanged_masks for batch in self._batches]
        return {
            name: np.concatenate(
                [
                    mask.get(name, np.zeros(len(batch), dtype=bool))
                    for mask, batch in zip(masks, self._batches, strict=True)
                ]
            )
            for name in {name for mask in masks for name in mask}
        }


def _valid(column: pa.Array) -> Mask:
    return np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False))


@dataclass(frozen=True)
class _Moves:
    """What every change does to keys: which it leaves (-1: none), which it takes (-1: none)."""

    leaves: Ids
    takes: Ids

    @property
    def steps(self) -> Ids:
        """Both as one sequence in time: change i leaves a key at 2i and takes one at 2i+1."""
        both = np.empty(2 * len(self.takes), dtype=np.int64)
        both[0::2], both[1::2] = self.leaves, self.takes
        return both

    @property
    def moved(self) -> Mask:
        return (self.leaves >= 0) & (self.takes >= 0)


def _reduce(changes: _Changes, key: Sequence[str], *, truncated: bool) -> LastState:
    index, moves = _number_keys(changes, key)
    # Later steps overwrite earlier ones: NumPy assigns repeated indices in order.
    last = np.full(len(index), -1, dtype=np.int64)
    steps = moves.steps
    real = np.flatnonzero(steps >= 0)
    last[steps[real]] = real
    alive = (last >= 0) & (last % 2 == 1)
    change, keys = last[alive] // 2, np.flatnonzero(alive)
    in_time = np.argsort(change, kind="stable")
    change, keys = change[in_time], keys[in_time]
    row_of_key = np.full(len(index), -1, dtype=np.int64)
    row_of_key[keys] = np.arange(len(keys))
    rows, owed = _resolve(changes, change, moves)
    return LastState(truncated, index, row_of_key, rows, keys, _taken_first(changes, moves, len(index)), owed)


def _taken_first(changes: _Changes, moves: _Moves, keys: int) -> Mask:
    """Which keys a moved row took first of all. Raises Stop when one was taken while another row had it.

    That is two rows exchanging keys under a deferred constraint: by key alone nobody can tell them apart."""
    taken = np.zeros(keys, dtype=bool)
    if not moves.moved.any():
        return taken
    steps = moves.steps
    before = _step_before(steps)
    moved_in = np.zeros(len(steps), dtype=bool)
    moved_in[1::2] = moves.moved
    if (moved_in & (before >= 0) & (before % 2 == 1)).any():
        raise exchanged(changes.table)
    taken[steps[moved_in & (before < 0)]] = True
    return taken


def exchanged(table: TableSchema) -> Stop:
    """The error for rows that exchange keys."""
    return Stop(
        f"{table.table}: a row moved to a key that another row still had (a deferred primary key?)",
        "use mode: append for this table, or load it anew: headwater snapshot",
    )


def _number_keys(changes: _Changes, key: Sequence[str]) -> tuple[KeyIndex, _Moves]:
    """Number the keys of all changes; an update leaves its old key only when it differs from the new one."""
    n, deletes = len(changes), changes.is_op("d")
    puts = np.flatnonzero(~deletes)
    removes = np.flatnonzero(deletes | (changes.has_before & changes.is_op("u")))
    columns = []
    for name in key:
        new = changes.after(name)
        new = new if len(puts) == n else new.take(pa.array(puts))
        columns.append(pa.concat_arrays([new, changes.before(name).take(pa.array(removes))]) if len(removes) else new)
    require_whole_keys(changes.table, key, columns)
    index, ids = KeyIndex.of(columns)
    takes, leaves = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    takes[puts] = ids[: len(puts)]
    leaves[removes] = ids[len(puts) :]
    leaves[leaves == takes] = -1
    return index, _Moves(leaves, takes)


def _resolve(changes: _Changes, change: Ids, moves: _Moves) -> tuple[pa.Table, dict[str, Ids]]:
    """The rows after these changes, each column from the newest change of the row that carries it."""
    left_out = changes.left_out()
    previous = _previous(moves) if left_out else None
    columns, owed = [], {}
    for field in changes.table.arrow:
        column, mask = changes.after(field.name), left_out.get(field.name)
        if mask is None or previous is None:
            columns.append(column.take(pa.array(change)))
            continue
        source = _follow(mask, previous)[change]
        taken, missing = _from_before(changes, field.name, column.take(pa.array(source)), source, mask[source])
        if missing.any():
            origin = np.where(moves.moved, moves.leaves, moves.takes)[source]
            owed[field.name] = np.where(missing, origin, -1)
        columns.append(taken)
    return pa.Table.from_arrays(columns, schema=pa.schema(list(changes.table.arrow))), owed


def _from_before(changes: _Changes, name: str, taken: pa.Array, source: Ids, missing: Mask) -> tuple[pa.Array, Mask]:
    """Take a left-out value from `before`, where the log carries that column of old rows."""
    there = changes.has_before[source] & missing
    if name not in changes.table.identity or not there.any():
        return taken, missing
    rows = np.arange(len(source))
    both = pa.concat_arrays([taken, changes.before(name).take(pa.array(source))])
    return both.take(pa.array(np.where(there, rows + len(rows), rows))), missing & ~there


def _previous(moves: _Moves) -> Ids:
    """For every change the change that last put the same row in place; -1 when the batch holds none.

    Steps sorted by key and time stand next to their predecessor. A moved row's predecessor is that of the
    key it left."""
    before = _step_before(moves.steps)
    # Only a put (odd step) leaves a row behind.
    put = np.where((before >= 0) & (before % 2 == 1), before // 2, -1)
    return np.where(moves.moved, put[0::2], put[1::2])


def _step_before(steps: Ids) -> Ids:
    """For every step the step on the same key before it; -1 when there is none."""
    real = np.flatnonzero(steps >= 0)
    real = real[np.argsort(steps[real], kind="stable")]
    before = np.full(len(steps), -1, dtype=np.int64)
    before[real[1:]] = np.where(steps[real[1:]] == steps[real[:-1]], real[:-1], -1)
    return before


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
