"""The number of an event in its transaction, and in its table's part of it: `transaction.*_order`.

A split update counts twice. Without outside help the total is the change's ordinal in the transaction, which is
right as long as no other table of the transaction had a split update and no operation was skipped.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headwater.formats.connector import Moment
from headwater.formats.split import Records
from headwater.formats.text import Longs
from headwater.formats.writers import longs_of


class Orders:
    """Counts through one batch, block after block."""

    def __init__(self) -> None:
        self._commit = -1
        self._changes = 0
        self._splits = 0

    def count(self, records: pa.RecordBatch, moment: Moment, made: Records) -> tuple[Longs, Longs]:
        """(total order, order in the table) of every event of the next block, both from 1."""
        commit = longs_of(records.column("commit"))
        total, own = moment.total_order, moment.table_order
        rows = np.arange(len(commit), dtype=np.int64)
        starts = np.concatenate([[0], np.flatnonzero(commit[1:] != commit[:-1]) + 1]) if len(commit) else rows
        start = np.repeat(starts, np.diff([*starts, len(commit)]))
        same = commit == self._commit
        if own is None:
            own = rows - start + 1 + np.where(same, self._changes, 0)
        if total is None:
            total = longs_of(records.column("ordinal"))
        if made.index is None:
            earlier = np.where(same, self._splits, 0)
            self._carry(commit, start, np.zeros(len(commit), dtype=np.int64))
            return total + earlier, own + earlier
        second = np.zeros(len(made.index), dtype=np.int64)
        second[1:] = made.index[1:] == made.index[:-1]
        events = np.bincount(made.index, weights=second, minlength=len(commit)).astype(np.int64)
        before = np.cumsum(events) - events
        earlier = before - before[start] + np.where(same, self._splits, 0) if len(commit) else before
        self._carry(commit, start, events)
        return (total + earlier)[made.index] + second, (own + earlier)[made.index] + second

    def _carry(self, commit: Longs, start: Longs, splits: Longs) -> None:
        """Remember the transaction that the next block may go on with."""
        if not len(commit):
            return
        last, begin = int(commit[-1]), int(start[-1])
        goes_on = last == self._commit and begin == 0
        self._changes = len(commit) - begin + (self._changes if goes_on else 0)
        self._splits = int(splits[begin:].sum()) + (self._splits if goes_on else 0)
        self._commit = last
