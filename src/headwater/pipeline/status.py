"""What a running pipeline tells about itself: counters that the flow updates and the screen reads."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field


@dataclass
class SinkStatus:
    """One sink's counters."""

    changes: int = 0
    batches: int = 0
    rows: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    loaded: dict[str, int] = field(default_factory=dict)
    # Seconds from commit at the source to durable in the sink, of the oldest change of each batch.
    latencies: deque[float] = field(default_factory=lambda: deque(maxlen=1000))
    # (time, changes) of recent batches, for changes per second.
    recent: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=200))

    def rate(self, window: float = 5.0) -> float:
        """Changes a second over the last moments."""
        since = time.monotonic() - window
        return sum(changes for at, changes in list(self.recent) if at >= since) / window


class Status:
    """All of it; safe to read from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sinks: dict[str, SinkStatus] = defaultdict(SinkStatus)
        self.phase = "starting"

    def batch(self, sink: str, tables: dict[str, int], commit_time: int) -> None:
        """One micro-batch is durable; `commit_time` in microseconds since the epoch, 0 when it was empty."""
        with self._lock:
            status = self.sinks[sink]
            changes = sum(tables.values())
            status.changes += changes
            status.batches += 1
            for table, count in tables.items():
                status.rows[table] += count
            status.recent.append((time.monotonic(), changes))
            if commit_time:
                status.latencies.append(max(0.0, time.time() - commit_time / 1e6))

    def loaded(self, sink: str, table: str, rows: int) -> None:
        """One table's snapshot is in place."""
        with self._lock:
            self.sinks[sink].loaded[table] = rows


def quantile(values: list[float], q: float) -> float:
    """A plain quantile; 0 for nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else 0.0
