"""The number of an event in its transaction, and in its table's part of it: `transaction.*_order`.

Counts events, not changes: a skipped operation gives none, an update that changes its key gives two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from headwater.event import Timeline, unquoted
from headwater.event.timeline import MOVED, Keys, Transaction
from headwater.formats.split import Records
from headwater.formats.text import Longs
from headwater.formats.writers import longs_of


class Orders:
    """Numbers for the changes of one chunk, whatever their tables."""

    def __init__(self, timeline: Timeline, skipped: Sequence[str], keys: Keys) -> None:
        self.timeline = timeline
        self._skipped = skipped
        # Events of every change.
        self._events = self._count(timeline, keys)
        self._total = self._before(np.arange(len(self._events)), self._events_before(timeline.earlier.values()))
        self._own = np.zeros(len(self._events), dtype=np.int64)
        for number, table in enumerate(timeline.tables):
            rows = np.flatnonzero(timeline.table == number)
            earlier = timeline.earlier.get(table.table)
            self._own[rows] = self._before(rows, self._events_before([earlier] if earlier else []))

    def numbers(self, records: pa.RecordBatch, made: Records) -> tuple[Longs, Longs]:
        """(total order, order in the table) of every event made of these changes, both from 1."""
        places = self.timeline.places(longs_of(records.column("commit")), longs_of(records.column("ordinal")))
        total, own = self._total[places] + 1, self._own[places] + 1
        if made.index is None:
            return total, own
        second = np.zeros(len(made.index), dtype=np.int64)
        second[1:] = made.index[1:] == made.index[:-1]
        return total[made.index] + second, own[made.index] + second

    def transactions(self) -> Iterator[tuple[Transaction, Mapping[str, int]]]:
        """Every transaction that touches a captured table, with the events of each table up to the chunk's end."""
        timeline = self.timeline
        for number, transaction in enumerate(timeline.transactions):
            rows = slice(transaction.first, transaction.first + transaction.changes)
            table, events = timeline.table[rows], self._events[rows]
            earlier = timeline.earlier if number == 0 and transaction.begin is None else {}
            counts = {unquoted(name): self._events_before([letters]) for name, letters in earlier.items()}
            for place in dict.fromkeys(table[table >= 0].tolist()):
                name = timeline.tables[place].unquoted
                counts[name] = counts.get(name, 0) + int(events[table == place].sum())
            if counts:
                yield transaction, {name: count for name, count in counts.items() if count}

    def _count(self, timeline: Timeline, keys: Keys) -> Longs:
        letters = [ord(letter) for letter in self._skipped if len(letter) == 1]
        events = np.where(np.isin(timeline.letter, letters), 0, 1)
        events[timeline.moved(keys)] = self._halves
        events[timeline.table < 0] = 0
        return np.asarray(events, dtype=np.int64)

    @property
    def _halves(self) -> int:
        return sum(half not in self._skipped for half in "dc")

    def _events_before(self, counted: Iterable[Mapping[str, int]]) -> int:
        """Events of changes that were counted by letter."""
        total = 0
        for letters in counted:
            moved = letters.get(MOVED, 0)
            total += sum(n for letter, n in letters.items() if letter not in (MOVED, *self._skipped))
            total += moved * (self._halves - ("u" not in self._skipped))
        return total

    def _before(self, rows: Longs, earlier: int) -> Longs:
        """For these changes: how many events of the same transaction come before, among these changes."""
        events, commit = self._events[rows], self.timeline.commit[rows]
        before = np.cumsum(events) - events
        if not len(rows):
            return np.asarray(before, dtype=np.int64)
        start = np.searchsorted(commit, commit)
        found = before - before[start]
        transactions = self.timeline.transactions
        if earlier and transactions and transactions[0].begin is None:
            found = found + np.where(commit == transactions[0].commit, earlier, 0)
        return np.asarray(found, dtype=np.int64)
