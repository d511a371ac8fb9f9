"""The tail's loop: log → journal, durable positions → log, a word about itself a few times a second."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from headwater.errors import HeadwaterError, Retry, Stop
from headwater.event import ORIGIN, Chunk, Position
from headwater.failpoints import failpoint
from headwater.journal import Journal, JournalFull, JournalWriter
from headwater.sources.base import Log, Source

# How long one read may wait, and so how quickly the tail notices that its owner is gone.
READ_SECONDS = 0.2
# Between two looks at consumers' positions and two status files.
HOUSEKEEPING_SECONDS = 0.2
# Reconnecting: 0.5 s, doubled up to this.
MAX_BACKOFF_SECONDS = 15.0


class Tail:
    """Drains one log into one journal until `alive` says no."""

    def __init__(
        self,
        source: Source,
        journal: Journal,
        begin: Position,
        max_bytes: int,
        alive: Callable[[], bool],
        *,
        copy_first: bool = False,
    ) -> None:
        self.source = source
        # The tables' rows go into the journal before the log does.
        self.copy_first = copy_first
        # Where the log itself begins: what `Source.prepare` has found or made.
        self.begin = begin
        self.journal = journal
        self.writer = JournalWriter(journal, max_bytes)
        self._alive = alive
        self._confirmed = ORIGIN
        self._durable: Position | None = None
        # What the log said when everything it had handed out was in the journal.
        self._lag: Mapping[str, Any] = {}
        self._last_housekeeping = 0.0
        self._changes = 0
        self._commit_time = 0
        self._status: dict[str, Any] = {}

    def run(self) -> None:
        """Read until told to stop; reconnect by itself. Stop errors end it: a person must decide."""
        backoff = 0.5
        while self._alive():
            self.writer.rewind()
            try:
                if self.copy_first and self.writer.end == ORIGIN:
                    self._copy()
                log = self.source.log(self._after())
            except Retry as error:
                self._say("retrying", error=str(error))
                self._sleep(backoff)
                backoff = min(backoff * 2, MAX_BACKOFF_SECONDS)
                continue
            try:
                backoff = 0.5
                self._drain(log)
            except Retry as error:
                self._say("retrying", error=str(error))
                self._sleep(backoff)
            finally:
                log.close()

    def close(self) -> None:
        self.writer.close()

    def _after(self) -> Position:
        """Where to go on: behind the journal, or behind what every consumer holds if that is further."""
        return max(self.writer.end, self.begin, self.journal.durable() or ORIGIN)

    def _copy(self) -> None:
        """The tables as of one position; the log then goes on from exactly there."""
        self._say("copying")
        log = self.source.copy_log()
        try:
            while self._alive() and (chunk := log.read(READ_SECONDS)) is not None:
                self._store(log, chunk)
                self._say("copying")
        finally:
            log.close()

    def _drain(self, log: Log) -> None:
        # A new connection does not know what the last one was told.
        self._confirmed = ORIGIN
        while self._alive():
            self._lag = log.lag()
            self._housekeep(log)
            chunk = log.read(READ_SECONDS)
            if chunk is not None:
                self._store(log, chunk)

    def _store(self, log: Log, chunk: Chunk) -> None:
        """Into the journal, with the definitions it names; waits while that is full."""
        for run in chunk.tables:
            self.journal.store_schema(log.schema(run.schema))
        while self._alive():
            try:
                self.writer.append(chunk)
            except JournalFull as error:
                self._wait_for_room(log, error)
            else:
                self._changes += chunk.changes
                self._commit_time = max(self._commit_time, chunk.commit_time)
                return

    def _wait_for_room(self, log: Log, full: JournalFull) -> None:
        """At the cap the tail stops reading; the server keeps the rest in its WAL."""
        self._housekeep(log, force=True, state="full", error=str(full))
        if full.at_cap and self._durable is not None and self._durable >= self.writer.end:
            self.writer.forget(self._durable)
            if self.writer.size + full.wanted > self.writer.max_bytes:
                raise Stop(
                    f"one transaction is larger than the journal's cap of {self.writer.max_bytes >> 20} MB",
                    "Raise journal_max_bytes in the pipeline's file, then run again",
                    cause="Everything before it has been delivered, and nothing can make room for it",
                )
        log.hold()
        self._sleep(READ_SECONDS)

    def _housekeep(self, log: Log, *, force: bool = False, state: str = "reading", error: str = "") -> None:
        now = time.monotonic()
        if not force and now - self._last_housekeeping < HOUSEKEEPING_SECONDS:
            return
        self._last_housekeeping = now
        self._durable = self.journal.durable()
        if self._durable is not None and self._durable > self._confirmed:
            failpoint("tail.before_confirm")
            log.confirm(self._durable)
            self._confirmed = self._durable
            failpoint("tail.after_confirm")
            self.writer.forget(self._durable)
        self.writer.sync_when_due()
        self._say(state, error=error, **self._lag)

    def _say(self, state: str, *, error: str = "", **facts: Any) -> None:
        status = {
            "state": state,
            "error": error,
            "end": [self.writer.end.commit, self.writer.end.ordinal],
            "changes": self._changes,
            "commit_time": self._commit_time,
            "journal_bytes": self.writer.size,
            "pid": os.getpid(),
            **facts,
        }
        if status != self._status:
            self._status = status
            self.journal.set_status({**status, "time": time.time()})

    def _sleep(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._alive() and (rest := deadline - time.monotonic()) > 0:
            time.sleep(min(rest, READ_SECONDS))


def report_end(journal: Journal, error: HeadwaterError | None) -> None:
    """The last word in tail.json, for whoever waits for this tail."""
    status = {"state": "ended", "pid": os.getpid(), "time": time.time(), "error": ""}
    if error is not None:
        status |= {"state": "stopped", "error": str(error), "exit_status": error.exit_status}
    journal.set_status(status)
