"""One sink's flow: what the journal has, batch by batch, into the sink, and the sink's position back to the journal.

A loop of our own and not a streaming query: positions are the sink's, so Spark's checkpoint would say nothing, and its
planner, its logs and its jobs would be most of what a small batch waits for (docs/decisions/0011).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from headwater.errors import Drift, HeadwaterError, Retry
from headwater.event import ORIGIN, Position, TableSchema
from headwater.failpoints import failpoint
from headwater.journal import Journal, JournalReader
from headwater.sinks.base import Sink
from headwater.spark.slices import Slice, admit_bytes, idle_slice, plan_by_table
from headwater.spark.stopped import StoppedTables
from headwater.spark.whole_log import Unloaded, WholeLog
from headwater.spark.work import FRAME, UNLOADED, JobFailed, Result, Work

# Between two looks at the journal, which cost 0.1 ms with the waking up.
POLL_SECONDS = 0.02
# A sink that fails for a moment is tried again; longer each time, up to this.
FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.5, 30.0
# A batch that Spark cannot run this often in a row will not run by itself.
MAX_JOB_FAILURES = 3

OnBatch = Callable[[dict[str, int], int], None]
LoadTables = Callable[[list[TableSchema]], None]


class SinkFlow:
    """Drives one sink from the journal, in a thread. `load` copies tables that the sink has never seen."""

    # journal -> slices                               cut by table, here
    # slices -> decode, write each table with its position   `work`: a Spark job, or here when there is little
    # results -> position of the sink as a whole -> consumer position -> (tail) confirm

    def __init__(
        self,
        name: str,
        sink: Sink,
        journal: Journal,
        work: Work,
        *,
        load: LoadTables | None,
        on_batch: OnBatch,
        say: Callable[[str], None],
        max_bytes: int,
        min_seconds: float,
    ) -> None:
        self.name = name
        self.sink = sink
        self.journal = journal
        # How far every table is that has not stopped.
        self.position = ORIGIN
        self.stopped = StoppedTables()
        # What the sink said when it was last tried in vain; empty when it goes well.
        self.trouble = ""
        # Attempts at a batch that failed.
        self.failures = 0
        # Why this flow has ended, if it did not end well.
        self.error: HeadwaterError | None = None
        self._work = work
        self._load = load
        self._on_batch = on_batch
        self._say = say
        self._max_bytes = max_bytes
        self._min_seconds = min_seconds
        self._target: int | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"headwater {name}", daemon=True)

    def start(self, after: Position, target: int | None) -> None:
        """Run from `after`; with `target`, until everything received up to there is delivered."""
        self.position, self._target = after, target
        self._thread.start()

    @property
    def active(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """After the batch that is under way."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    # -- the loop ------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._follow(JournalReader(self.journal))
        except HeadwaterError as error:
            self.error = error
        except Exception as error:
            self.error = HeadwaterError(f"sink {self.name!r} failed", cause=repr(error)[:2000])
            self.error.__cause__ = error

    def _follow(self, index: JournalReader) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            # Asked before the journal: what was received by then is in it.
            finished = self._target is not None and self._received() >= self._target
            try:
                index.refresh()
            except Retry as error:
                self._worry(str(error))
                self._stopping.wait(FIRST_BACKOFF_SECONDS)
                continue
            if index.end > self.position:
                self._deliver(self._plan(index))
                index.forget(self.position)
                # Whatever comes meanwhile goes into one commit: many small ones make many small files.
                self._stopping.wait(self._min_seconds - (time.monotonic() - began))
            elif finished:
                return
            else:
                self._stopping.wait(POLL_SECONDS)

    def _received(self) -> int:
        return max(self.position.commit, int(self.journal.status().get("received", 0)))

    def _plan(self, index: JournalReader) -> list[Slice]:
        """One batch, cut for whoever works on it."""
        after = self.position
        upto = admit_bytes(index.between(after, index.end), index.end, self._max_bytes)
        blocks = index.between(after, upto)
        if not blocks:
            return [idle_slice(self.journal, after, upto)]
        small = self._work.small(sum(block.size for block in blocks))
        tasks = 1 if self.sink.takes_log() else self._work.here if small else self._work.parallel
        return plan_by_table(self.journal, blocks, after, upto, tasks)

    def _deliver(self, slices: Sequence[Slice]) -> None:
        """Once, or again and again while the sink says that it will pass: a second attempt has no second effect."""
        backoff, jobs_failed = FIRST_BACKOFF_SECONDS, 0
        while True:
            try:
                self._once(slices)
                return
            except Retry as error:
                self.failures += 1
                jobs_failed = jobs_failed + 1 if isinstance(error, JobFailed) else 0
                if jobs_failed == MAX_JOB_FAILURES:
                    raise HeadwaterError(
                        f"Spark cannot run a batch of sink {self.name!r}", cause=error.cause
                    ) from error
                self._worry(str(error))
            if self._stopping.wait(backoff):
                return
            backoff = min(backoff * 2, MAX_BACKOFF_SECONDS)

    def _worry(self, text: str) -> None:
        """Tell people once why this sink does not go on."""
        if text != self.trouble:
            self._say(f"{self.name}: {text}")
        self.trouble = text

    # -- one batch -----------------------------------------------------------------------------------

    def _once(self, slices: Sequence[Slice], *, loaded: bool = False) -> None:
        """`loaded`: what the sink lacks was loaded. What is still missing is gone from the source: the log has all of
        it."""
        if self.sink.takes_log():
            # One slice: the whole log of this batch.
            self._write_log(slices[0])
            return
        upto = slices[0].upto
        load_first = self._load is not None and not loaded
        results = self._work.apply(self.sink, slices, load_first=load_first, stopped=tuple(self.stopped.at))
        self._raise_or_stop(results)
        unloaded = [TableSchema.from_json(result.schema) for result in results if result.note == UNLOADED]
        if unloaded and self._load is not None:
            self._load(unloaded)
            self._once(slices, loaded=True)
            return
        changed = {result.table: result.changes for result in results if not result.note and not result.error}
        for result in results:
            if result.note == FRAME:
                table = TableSchema.from_json(result.schema)
                try:
                    changed[table.table] = self._work.write_frame(self.sink, slices, table, upto)
                except Drift as error:
                    self._stop_table(table.table, error)
        self._finish(changed, min((r.commit_time for r in results if r.commit_time), default=0), upto)

    def _raise_or_stop(self, results: Sequence[Result]) -> None:
        """A table that does not fit stops alone; anything else stops, or delays, the whole batch."""
        errors = [(result.table, result.to_error()) for result in results if result.error]
        if serious := [error for _table, error in errors if not isinstance(error, Drift)]:
            # What a person must decide goes before what passes by itself.
            raise min(serious, key=lambda error: isinstance(error, Retry))
        for table, error in errors:
            self._stop_table(table, error)

    def _write_log(self, part: Slice, loaded: frozenset[str] = frozenset()) -> None:
        """A sink that takes the log as a whole, here: decoded by threads, written as it comes. `loaded`: as in `_once`,
        table by table."""
        log = WholeLog(part, self.sink, self.stopped, load_first=self._load is not None, loaded=loaded)
        try:
            written = self.sink.write_log(log, part.upto, self.stopped.at)
        except Unloaded as found:
            if self._load is None:
                raise
            self._load([found.table])
            self._write_log(part, loaded | {found.table.table})
            return
        except Drift as error:
            if not error.table or error.table in self.stopped.at:
                raise
            self._stop_table(error.table, error)
            self._write_log(part, loaded)
            return
        self._finish({done.table: done.changes for done in written}, log.oldest, part.upto)

    def _stop_table(self, table: str, error: HeadwaterError) -> None:
        """This batch is the first that the table does not get."""
        assert isinstance(error, Drift)  # noqa: S101
        self.stopped.stop(table, self.position, error)
        self._say(f"{self.name}: {table} stops here, the other tables go on: {error}")

    def _finish(self, changed: dict[str, int], oldest: int, upto: Position) -> None:
        """The batch is in the sink. First the sink's own position, then ours, which the tail may confirm."""
        durable = self.stopped.durable(upto)
        failpoint("sink.before_advance")
        if not self.sink.takes_log():
            self.sink.advance(durable)
        failpoint("sink.after_advance")
        self.position, self.trouble = upto, ""
        self.journal.set_consumer(self.name, durable)
        failpoint("consumer.after_set")
        self._on_batch(changed, oldest)
