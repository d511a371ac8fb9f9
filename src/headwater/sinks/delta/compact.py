"""Which small files to put together: a pure choice, made with every write.

Sizes fall into tiers a factor of eight apart; a tier that holds eight files is merged into one of the next. So a
row is copied at most three times in its life, a table keeps some twenty small files, and the newest rows lie in
the smallest files, where an update of a recent key costs least. Files of the first tier (an eighth of the full size
and more) are left alone: they come from large batches, and copying them again cost a catching-up pipeline a third.
"""

from __future__ import annotations

from collections.abc import Sequence

FANOUT = 8
TIERS = 4


def tier(size: int, file_bytes: int) -> int:
    """0 for a full file, growing as the file gets smaller, at most TIERS."""
    level = 0
    while level < TIERS and size * FANOUT**level < file_bytes:
        level += 1
    return level


def to_compact(sizes: Sequence[int], file_bytes: int) -> list[int]:
    """Indices of files to merge into one now, of the smallest full tier; empty when none is full."""
    tiers: dict[int, list[int]] = {}
    for at, size in enumerate(sizes):
        tiers.setdefault(tier(size, file_bytes), []).append(at)
    for level in range(TIERS, 1, -1):
        group = tiers.get(level, [])
        if len(group) >= FANOUT:
            return _upto(group, sizes, file_bytes)
    return []


def _upto(group: Sequence[int], sizes: Sequence[int], file_bytes: int) -> list[int]:
    """As many of a tier as fill about one file: the large tiers must not cost a write its latency."""
    chosen, total = [], 0
    for at in group:
        chosen.append(at)
        total += sizes[at]
        if total >= file_bytes:
            break
    return chosen
