"""The tail's loop: log → journal, durable positions → log, a word about itself a few times a second."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from headwater.errors import HeadwaterError, Retry, Stop
from headwater.event import ORIGIN, Chunk, Position
from headwater.failpoints import failpoint
from headwater.journal import Journal, JournalFull, Limits
from headwater.sources.base import Confirm, Log, Source

# How long one read may wait, and so how quickly the tail notices that its owner is gone.
READ_SECONDS = 0.2
# A tail that has nothing new to say says so at least this often: elsewhere its word is all that shows it alive.
BEAT_SECONDS = 5.0
# Reconnecting: the first pause, doubled up to the longest.
FIRST_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 15.0


class GaveUp(HeadwaterError):
    """The source did not come back within the attempts that were allowed."""

    def __init__(self, attempts: int, last: Retry) -> None:
        super().__init__(
            f"gave up after {attempts} attempts in a row: {last.what}",
            *last.remedies,
            "Raise errors.max.retries under `source`; -1 tries for ever",
            cause=last.cause,
        )


class Tail:
    """Drains one log into one journal until `alive` says no."""

    def __init__(
        self,
        source: Source,
        journal: Journal,
        begin: Position,
        limits: Limits,
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
        self.writer = journal.writer(limits)
        self._alive = alive
        self._confirmed = ORIGIN
        self._durable: Position | None = None
        self._forgotten = ORIGIN
        # What the log said last; `received` as of when readers could see everything that it had handed out.
        self._lag: Mapping[str, Any] = {}
        self._spilled = 0
        # Table definitions that the journal has.
        self._stored: set[str] = set()
        self._last_housekeeping = 0.0
        self._changes = 0
        self._commit_time = 0
        self._status: dict[str, Any] = {}
        self._changed_at = self._said_at = 0.0

    def run(self) -> None:
        """Read until told to stop; reconnect by itself. Stop errors end it: a person must decide."""
        limit = self.source.options.errors_max_retries
        failures = 0
        while self._alive():
            opened, end = time.monotonic(), self.writer.end
            try:
                self.writer.rewind()
                end = self.writer.end
                self._read()
            except Retry as error:
                # A connection that brought something, or that held for a while, was a good one.
                good = self.writer.end > end or time.monotonic() - opened > MAX_BACKOFF_SECONDS
                failures = 1 if good else failures + 1
                if 0 <= limit < failures:
                    raise GaveUp(limit, error) from error
                self._say("retrying", error=str(error), attempts=failures)
                self._sleep(min(FIRST_BACKOFF_SECONDS * 2 ** min(failures - 1, 10), MAX_BACKOFF_SECONDS))

    def close(self) -> None:
        self.writer.close()

    def _read(self) -> None:
        """One connection, until it breaks."""
        if self.copy_first and self.writer.end == ORIGIN:
            self._copy()
        log = self.source.log(self._after())
        try:
            self._drain(log)
        finally:
            log.close()

    def _after(self) -> Position:
        """Where to go on: behind the journal, or behind what every consumer holds if that is further."""
        after = max(self.writer.end, self.begin, self.journal.durable() or ORIGIN)
        if ORIGIN < self.writer.end < after:
            # The journal has lost its end, or was restored from a backup, and nobody needs what it lacks.
            self.writer.append(Chunk.gap(self.writer.end, after, "every consumer had it"))
        return after

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
        self._spilled = 0
        while self._alive():
            self.writer.sync_when_due()
            self._look_at(log)
            self._housekeep(log)
            self._wait_for_spill(log)
            chunk = log.read(min(READ_SECONDS, self.writer.patience))
            if chunk is not None:
                self._store(log, chunk)

    def _look_at(self, log: Log) -> None:
        """Whoever waits for everything up to a position looks at `received`, and then for what the journal has."""
        lag = dict(log.lag())
        if not self.writer.readable and "received" in lag:
            lag["received"] = self._lag.get("received", 0)
        self._lag = lag

    def _wait_for_spill(self, log: Log) -> None:
        """Open transactions take room too. While they grow, they grow within the journal's cap."""
        before, self._spilled = self._spilled, log.spilled
        while self._alive() and self._spilled > before:
            try:
                self.writer.refuse_if_full(0, aside=self._spilled)
                return
            except JournalFull as error:
                self._wait_for_room(log, error)

    def _store(self, log: Log, chunk: Chunk) -> None:
        """Into the journal, with the definitions it names; waits while that is full."""
        for run in chunk.tables:
            if run.schema not in self._stored:
                self.journal.store_schema(log.schema(run.schema))
                self._stored.add(run.schema)
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
        if full.at_cap and self._durable is not None:
            self.writer.forget(self._durable, young=True)
            if self._durable >= self.writer.end and self.writer.size + full.wanted > self.writer.limits.max_bytes:
                raise Stop(
                    f"open transactions are larger than the journal's cap of {self.writer.limits.max_bytes >> 20} MB",
                    "Raise journal_max_bytes in the pipeline's file, then run again",
                    cause="Everything before them has been delivered, and nothing can make room for them",
                )
        log.hold()
        self._sleep(READ_SECONDS)

    def _housekeep(self, log: Log, *, force: bool = False, state: str = "reading", error: str = "") -> None:
        now = time.monotonic()
        if not force and now - self._last_housekeeping < self.journal.storage.pace:
            return
        self._last_housekeeping = now
        self._durable = self.journal.durable()
        confirmable = self._confirmable()
        if confirmable is not None and confirmable > self._confirmed:
            failpoint("tail.before_confirm")
            log.confirm(confirmable)
            self._confirmed = confirmable
            failpoint("tail.after_confirm")
        if self._durable is not None and self._durable > self._forgotten:
            self.writer.forget(self._durable)
            self._forgotten = self._durable
        self.writer.sync_when_due()
        self._say(state, error=error, **self._lag)

    def _confirmable(self) -> Position | None:
        """How far the database may forget its log. What this returns must survive a crash of the machine."""
        match self.source.confirms:
            case Confirm.NEVER:
                return None
            case Confirm.JOURNALED:
                return self.writer.synced
            case Confirm.IDLE if self._durable is not None and self._durable >= self.writer.last_frame:
                return max(self._durable, self.writer.synced)
        return self._durable

    def _say(self, state: str, *, error: str = "", **facts: Any) -> None:
        status = {
            "state": state,
            "error": error,
            "end": [self.writer.end.commit, self.writer.end.ordinal],
            "confirmed": self._confirmed.resume,
            "changes": self._changes,
            "commit_time": self._commit_time,
            "journal_bytes": self.writer.size,
            "pid": os.getpid(),
            "host": platform.node(),
            **facts,
        }
        now = time.time()
        if status != self._status:
            self._status, self._changed_at = status, now
        elif now - self._said_at < BEAT_SECONDS:
            return
        try:
            self.journal.set_status({**status, "time": self._changed_at, "beat": now})
            self._said_at = now
        except Retry:
            # Its storage is away, which `run` gets to know by what it wants to store there: this can wait.
            self._said_at = 0.0

    def _sleep(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._alive() and (rest := deadline - time.monotonic()) > 0:
            time.sleep(min(rest, READ_SECONDS))


def report_end(journal: Journal, error: HeadwaterError | None) -> None:
    """The last word in tail.json, for whoever waits for this tail."""
    now = time.time()
    status = {"state": "ended", "pid": os.getpid(), "host": platform.node(), "time": now, "beat": now, "error": ""}
    if error is not None:
        status |= {"state": "stopped", "error": str(error), "exit_status": error.exit_status}
    with suppress(Retry):
        journal.set_status(status)
