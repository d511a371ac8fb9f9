"""Commit-to-visible latency as a reader of the lake sees it: a row is committed, the Delta table is watched for it.

Measured from outside, with a transaction at a random moment, so that waiting for the batch before is part of it.
"""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import psycopg

# Between two looks at the table's log folder: a listing costs some microseconds.
LOOK_SECONDS = 0.005
GIVE_UP_SECONDS = 60.0


class Pulse(threading.Thread):
    """Beats until stopped; `seconds` holds every latency measured so far, but for the first.

    The first beat waits for workers to start and libraries to load; it is told apart, in `first`."""

    def __init__(self, url: str, table: Path, pause: float = 0.3) -> None:
        super().__init__(name="pulse", daemon=True)
        self.first: float | None = None
        self.seconds: list[float] = []
        # Beats that were not seen within GIVE_UP_SECONDS: never left out silently.
        self.lost = 0
        self._url = url
        self._log = table / "_delta_log"
        self._table = table
        self._pause = pause
        self._ended = threading.Event()

    def run(self) -> None:
        chance = random.Random(1)  # noqa: S311
        with psycopg.connect(self._url, autocommit=True, application_name="pulse") as connection:
            beat = 0
            while not self._ended.wait(chance.uniform(0.1, 2) * self._pause):
                beat += 1
                before = self._version()
                connection.execute("insert into pulse (id) values (%s)", [beat])
                committed = time.monotonic()
                if self._seen(beat, before):
                    self._note(time.monotonic() - committed)
                elif not self._ended.is_set():
                    self.lost += 1

    def stop(self) -> None:
        """End after the beat under way, which does not count."""
        self._ended.set()
        self.join(10)

    def _note(self, seconds: float) -> None:
        if self.first is None:
            self.first = seconds
        else:
            self.seconds.append(seconds)

    def _seen(self, beat: int, version: int) -> bool:
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while time.monotonic() < deadline and not self._ended.is_set():
            now = self._version()
            if now != version:
                version = now
                if self._newest() >= beat:
                    return True
            time.sleep(LOOK_SECONDS)
        return False

    def _version(self) -> int:
        return max((int(path.stem) for path in self._log.glob("*.json") if path.stem.isdigit()), default=-1)

    def _newest(self) -> int:
        from deltalake import DeltaTable

        return max(DeltaTable(str(self._table)).to_pyarrow_table(columns=["id"]).column("id").to_pylist(), default=0)
