"""Pairs commits with the moments they were seen."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence


class Clock:
    """One transaction at a time, with a pause of random length so that commits do not march with the triggers."""

    def __init__(self, seed: int = 1) -> None:
        self._committed: dict[int, float] = {}
        self._seen: dict[int, float] = {}
        self._changed = threading.Condition()
        # Not for secrets: the same pauses in every run.
        self._random = random.Random(seed)  # noqa: S311

    def committed(self, number: int) -> None:
        """The commit of transaction `number` has just returned."""
        self._committed[number] = time.perf_counter()

    def saw(self, number: int) -> None:
        """Transaction `number` is visible now. The first time counts."""
        with self._changed:
            self._seen.setdefault(number, time.perf_counter())
            self._changed.notify_all()

    def wait_for(self, number: int, timeout: float) -> None:
        """Until it was seen; then a pause."""
        with self._changed:
            if not self._changed.wait_for(lambda: number in self._seen, timeout):
                raise TimeoutError(f"transaction {number} was not seen within {timeout:.0f} s")
        time.sleep(self._random.uniform(0.0, 0.3))

    def milliseconds(self, after: int) -> list[float]:
        """Latencies of all but the first `after`, in commit order."""
        return [round((self._seen[number] - at) * 1000, 1) for number, at in self._committed.items() if number > after]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1)]
