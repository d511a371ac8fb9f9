"""A chunk's changes in the order of the log, whatever their tables, and the transactions they belong to.

For events that name the transaction before, or count within their own. Everything is known from one chunk:
what was counted before it comes with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from headwater.event.schema import TableSchema

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
# Which columns are a table's event key.
Keys = Callable[[TableSchema], Sequence[str]]

# A letter beside the operations': how many of the updates changed their key.
MOVED = "k"


@dataclass(frozen=True)
class Transaction:
    """A transaction's part in a chunk."""

    commit: int
    # Commit time, microseconds since the epoch.
    time: int
    # Its changes are numbers first, first + 1, …, first + changes - 1.
    first: int
    changes: int
    # What Debezium calls it at its two ends (PostgreSQL: `<xid>:<lsn>`); None when that end is not in this chunk.
    begin: str | None
    end: str | None = None


class Timeline(ABC):
    """Parallel arrays, one entry per change. What only counting events needs is worked out when it is asked for."""

    commit: Longs
    ordinal: Longs
    # Operation's letter as a byte.
    letter: npt.NDArray[np.uint8]
    # The end of the transaction before the change's own; 0: not known.
    previous: Longs
    # The captured tables of the chunk.
    tables: Sequence[TableSchema]
    # What the first transaction had before this chunk: {table: {letter: changes}}.
    earlier: Mapping[str, Mapping[str, int]]

    @cached_property
    @abstractmethod
    def table(self) -> npt.NDArray[np.int32]:
        """Index into `tables`; -1: of a table that is not captured."""

    @cached_property
    @abstractmethod
    def transactions(self) -> Sequence[Transaction]:
        """In the order of the log. What happened outside of transactions is in none."""

    @abstractmethod
    def moved(self, keys: Keys) -> Mask:
        """Which updates change their event key."""

    def places(self, commit: Longs, ordinal: Longs) -> Longs:
        """Where changes with these positions stand here; they come in the order of the log."""
        if not len(commit):
            return ordinal
        ends = np.array([0, -1])
        first = np.searchsorted(self.commit, commit[ends])
        begin, last = (first + ordinal[ends] - self.ordinal[first]).tolist()
        if last - begin + 1 == len(commit):
            # All of them, one behind the other: the common case of one table.
            return np.arange(begin, last + 1)
        starts = np.concatenate([[0], np.flatnonzero(commit[1:] != commit[:-1]) + 1])
        first = np.searchsorted(self.commit, commit[starts])
        # The changes of a transaction are numbered one after the other.
        shift = np.repeat(first - self.ordinal[first], np.diff([*starts, len(commit)]))
        places: Longs = ordinal + shift
        return places
