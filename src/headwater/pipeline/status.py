"""What a running pipeline tells about itself: counters that the flows update, and `status.json` in its state folder.

Everybody else reads that file: `headwater status`, the health endpoint, `headwater doctor`.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headwater.errors import HeadwaterError
from headwater.journal.files import write_atomically
from headwater.sources.base import Source

FILE = "status.json"
FORMAT_VERSION = 1
# A reader of the file is at most this late; writing it costs 0.1 ms.
WRITE_SECONDS = 1.0
# What the server retains for us is asked this often: a connection and a query each time.
RETENTION_SECONDS = 15.0
FIRST_SECONDS = 2.0


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

    def to_json(self) -> dict[str, Any]:
        """The counters as `status.json` has them."""
        latencies = list(self.latencies)
        return {
            "changes": self.changes,
            "batches": self.batches,
            "changes_per_second": round(self.rate(), 1),
            "latency_p50_seconds": round(quantile(latencies, 0.5), 3),
            "latency_p99_seconds": round(quantile(latencies, 0.99), 3),
            "tables": {
                table: {"changes": self.rows.get(table, 0), "loaded_rows": self.loaded.get(table, 0)}
                for table in sorted({*self.rows, *self.loaded})
            },
        }


class Status:
    """All of it; safe to read from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sinks: dict[str, SinkStatus] = defaultdict(SinkStatus)
        self.phase = "starting"
        # When the run's own loop last went round; 0 before it does.
        self.beat = 0.0

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

    def to_json(self) -> dict[str, Any]:
        with self._lock:
            return {name: status.to_json() for name, status in self.sinks.items()}


class StatusFile:
    """Keeps `status.json` of one run fresh, from a thread of its own, until `close` writes the last word."""

    def __init__(
        self, state: Path, pipeline: str, status: Status, source: Source, flows: Callable[[], Mapping[str, Any]]
    ) -> None:
        self._path = state / FILE
        self._status = status
        self._source = source
        # What each sink's flow says: active, trouble, failures.
        self._flows = flows
        self._fixed = {"format": FORMAT_VERSION, "pipeline": pipeline, "pid": os.getpid(), "started": time.time()}
        self._retention: dict[str, Any] = {}
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._write_often, self._ask_often)]
        # Where the health endpoint listens, once it does.
        self.endpoint = ""

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self, error: BaseException | None) -> None:
        """The run has ended, well or with `error`."""
        self._ended.set()
        self._threads[0].join()
        told: dict[str, Any] = {"phase": "ended"}
        if error is not None:
            status = error.exit_status if isinstance(error, HeadwaterError) else 1
            told = {"phase": "stopped", "error": str(error) or type(error).__name__, "exit_status": status}
        self._write(told)

    def _write_often(self) -> None:
        while True:
            # The disk may be full; the next second will tell.
            with suppress(OSError):
                self._write({"phase": self._status.phase})
            if self._ended.wait(WRITE_SECONDS):
                return

    def _write(self, told: Mapping[str, Any]) -> None:
        flows = self._flows()
        sinks = self._status.to_json()
        content = {
            **self._fixed,
            "time": time.time(),
            "beat": self._status.beat,
            "endpoint": self.endpoint,
            "error": "",
            "retention": self._retention,
            "sinks": {name: {**sinks.get(name, {}), **flows.get(name, {})} for name in {**sinks, **flows}},
            **told,
        }
        write_atomically(self._path, json.dumps(content, ensure_ascii=False), sync=False)

    def _ask_often(self) -> None:
        while not self._ended.is_set():
            # A server that does not answer is the tail's to tell.
            with suppress(HeadwaterError):
                ours = [holder for holder in self._source.holders() if holder.current]
                kept = self._source.kept()
                self._retention = asdict(ours[0]) if ours else {}
                if kept is not None:
                    self._retention = {"retained_bytes": kept.bytes, "kept_seconds": kept.seconds, "by_time": True}
            # A run that has just begun may still have to make it.
            self._ended.wait(RETENTION_SECONDS if self._retention else FIRST_SECONDS)


def quantile(values: list[float], q: float) -> float:
    """A plain quantile; 0 for nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else 0.0
