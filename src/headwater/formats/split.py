"""Changes → records: which change gives which records, in which order.

A delete is followed by its tombstone; an update that changes the key becomes a delete of the old key, its
tombstone, and a create of the new key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from headwater.formats import kernels
from headwater.formats.text import Bytes, Longs, Mask, Slot, Template, Text

_CREATE, _UPDATE, _DELETE, _TRUNCATE = (ord(letter) for letter in "cudt")
_EITHER = Template((Slot("", "", ""), Slot("", "", "")), "")


@dataclass(frozen=True)
class Records:
    """One entry per record, except `letters` and `index`, which leave tombstones out."""

    # The change that each record comes from.
    change: Longs
    # Which records are tombstones; None when none is.
    tombstone: Mask | None
    # The operation of every event.
    letters: Bytes
    # The change of every event; None when each change is exactly one event.
    index: Longs | None
    # Halves of a split update: `d` (and its tombstone) or `c`; 0 elsewhere. Empty when nothing was split.
    halves: Bytes

    @property
    def has_split(self) -> bool:
        return bool(self.halves.size)

    def spread(self, text: Text) -> Text:
        """Texts of events as texts of records: tombstones have none."""
        if self.tombstone is None:
            return text
        ends = np.zeros(len(self.change), dtype=np.int64)
        ends[~self.tombstone] = text.ends - text.begins
        np.cumsum(ends, out=ends)
        begins = np.concatenate([[0], ends[:-1]])
        state = np.where(self.tombstone, kernels.NULL, kernels.VALUE).astype(np.uint8)
        return Text(text.data, begins, ends, state)

    def key(self, after: Text, before: Text | None) -> Text:
        """Every record's key: of the row before for deletes and tombstones, of the row after otherwise."""
        letters = self.record_letters()
        truncates = letters == _TRUNCATE
        chosen = after.take(self.change).with_state(np.zeros(len(self.change), dtype=np.uint8))
        if before is not None:
            old = letters == _DELETE
            left = chosen.marked(old, kernels.NULL)
            right = before.take(self.change).with_state(np.where(old, kernels.VALUE, kernels.NULL).astype(np.uint8))
            chosen = _EITHER.fill([left, right], len(self.change))
        return chosen.marked(truncates, kernels.NULL) if truncates.any() else chosen

    def record_letters(self) -> Bytes:
        """The operation of every record; a tombstone's is a delete."""
        if self.tombstone is None:
            return self.letters
        letters = np.full(len(self.change), _DELETE, dtype=np.uint8)
        letters[~self.tombstone] = self.letters
        return letters

    def without(self, skipped: Bytes) -> Records:
        """The records but those of these operations; a tombstone goes with its delete."""
        keep = ~np.isin(self.record_letters(), skipped)
        if keep.all():
            return self
        events = keep if self.tombstone is None else keep[~self.tombstone]
        return Records(
            self.change[keep],
            None if self.tombstone is None else self.tombstone[keep],
            self.letters[events],
            self.change[keep] if self.index is None else self.index[events],
            self.halves[keep] if self.has_split else self.halves,
        )


def one_each(changes: int) -> Records:
    """Changes that give one record each."""
    return Records(np.arange(changes, dtype=np.int64), None, np.empty(0, np.uint8), None, np.empty(0, np.uint8))


def split(letters: Bytes, after_key: Text | None, before_key: Text | None, *, tombstones: bool) -> Records:
    """The records of changes with these operations and keys."""
    rows = np.arange(len(letters), dtype=np.int64)
    moved = _moved(letters, after_key, before_key)
    buried = (letters == _DELETE) & tombstones
    counts = np.ones(len(letters), dtype=np.int64)
    counts += buried
    counts += moved * (2 if tombstones else 1)
    if not moved.any() and not buried.any():
        return replace(one_each(len(letters)), letters=letters)
    change = np.repeat(rows, counts)
    step = np.arange(len(change)) - np.repeat(np.cumsum(counts) - counts, counts)
    last = step == counts[change] - 1
    first = step == 0
    out = letters[change].copy()
    out[moved[change] & ~last] = _DELETE
    out[moved[change] & last] = _CREATE
    tombstone = (buried[change] & ~first) | (moved[change] & ~first & ~last)
    halves = np.where(moved[change], out, 0).astype(np.uint8) if moved.any() else np.empty(0, np.uint8)
    events = ~tombstone
    return Records(change, tombstone if tombstone.any() else None, out[events], change[events], halves)


def _moved(letters: Bytes, after_key: Text | None, before_key: Text | None) -> Mask:
    """Updates whose key is not what it was."""
    if after_key is None or before_key is None:
        return np.zeros(len(letters), dtype=bool)
    both = (letters == _UPDATE) & ~before_key.rows(kernels.NULL)
    if not both.any():
        return np.asarray(both)
    same = kernels.same_text(
        after_key.data, after_key.begins, after_key.ends, before_key.data, before_key.begins, before_key.ends
    )
    return np.asarray(both & ~same)
