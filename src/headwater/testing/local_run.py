"""A pipeline without Spark: the same run, tail, journal, sinks and confirm protocol, with one thread per sink.

For tests, ours and our users': a run starts in a second instead of twenty, and everything but Spark's own part
is the product's code. `python -m headwater.testing.local_run FILE [--available-now]` is `headwater run` so.

A file `sink_fault.json` in the state folder makes every sink (or only those that `"sinks": [name]` says) fail as it
says, from the next batch on: {"down": true}, {"seconds": 0.5} for a slow one, {"reject": {"column": value}} for a
record that never fits.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from headwater.cli import main
from headwater.cli import run as run_verb
from headwater.errors import Drift, HeadwaterError, Retry, Unrepresentable
from headwater.event import ChangeBatch, Position, TableSchema
from headwater.failpoints import failpoint
from headwater.journal import Journal, JournalReader
from headwater.journal.files import read_json
from headwater.pipeline.run import Run
from headwater.sinks.base import Sink
from headwater.spark.delivery import Delivery, LoadTables, OnBatch
from headwater.spark.slices import Slice, idle_slice, plan_by_table, read_slice

POLL_SECONDS = 0.02
RETRY_SECONDS = 0.2


class LocalRun(Run):
    """One run of a pipeline in this process and its tail."""

    def _start_spark(self, tables: list[TableSchema]) -> Any:
        self.definition.source.warm_up()
        return None

    def _warm_workers(self, spark: Any) -> None:
        """There are none."""

    def _copy_tables(
        self, spark: Any, sink: Sink, tables: list[TableSchema], progress: Callable[[str, int], None]
    ) -> None:
        source = self.definition.source
        with source.snapshot(tables, 1) as snapshot:
            for table in {chunk.table.table: chunk.table for chunk in snapshot.chunks}.values():
                rows = 0
                receipts = []
                for chunk in snapshot.chunks:
                    if chunk.table.table == table.table:
                        copied = list(source.copy(chunk, snapshot, events=sink.writes_events))
                        rows += sum(len(batch) for batch in copied)
                        receipts.append(sink.load_part(table, copied))
                failpoint("snapshot.before_load")
                sink.load(table, receipts, snapshot.position)
                failpoint("snapshot.after_load")
                progress(table.table, rows)

    def _flow(self, spark: Any, name: str, sink: Sink, load: Any) -> Any:
        return LocalFlow(
            name,
            sink,
            self.journal,
            load=load,
            on_batch=partial(self.status.batch, name),
            say=self._say,
            fault=self.definition.state / "sink_fault.json",
        )


class LocalFlow(Delivery):
    """One sink driven from the journal by a thread."""

    def __init__(
        self,
        name: str,
        sink: Sink,
        journal: Journal,
        *,
        load: LoadTables | None,
        on_batch: OnBatch,
        say: Callable[[str], None],
        fault: Path,
    ) -> None:
        super().__init__(name, sink, journal, load=load, on_batch=on_batch, say=say)
        self._error: HeadwaterError | None = None
        self._fault = fault
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._target: int | None = None

    def start(self, after: Position, target: int | None) -> None:
        self.position, self._target = after, target
        self._thread.start()

    def wait_started(self) -> None:
        """It has no planner to wait for."""

    @property
    def active(self) -> bool:
        return self._thread.is_alive()

    def failure(self) -> HeadwaterError | None:
        return self._error

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        index = JournalReader(self.journal)
        try:
            while not self._stopping.is_set():
                finished = self._target is not None and self._received() >= self._target
                try:
                    index.refresh()
                except Retry as error:
                    self.trouble = str(error)
                    time.sleep(RETRY_SECONDS)
                    continue
                if index.end > self.position:
                    self._deliver(index, index.end)
                    index.forget(self.position)
                elif finished:
                    return
                else:
                    time.sleep(POLL_SECONDS)
        except HeadwaterError as error:
            self._error = error
        except Exception as error:
            self._error = HeadwaterError(f"sink {self.name!r} failed", cause=repr(error)[:2000])

    def _received(self) -> int:
        return max(self.position.commit, int(self.journal.status().get("received", 0)))

    def _deliver(self, index: JournalReader, upto: Position) -> None:
        while not self._stopping.is_set():
            try:
                self._once(index, upto)
                return
            except Retry as error:
                self.trouble = str(error)
                self.failures += 1
                time.sleep(RETRY_SECONDS)

    def _once(self, index: JournalReader, upto: Position) -> None:
        blocks = index.between(self.position, upto)
        parts = plan_by_table(self.journal, blocks, self.position, upto, 1) if blocks else []
        if self.sink.takes_log():
            fail_as_told(self._fault, self.name, "", [])
            self.write_log(parts[0] if parts else idle_slice(self.journal, self.position, upto))
        else:
            self._write_tables(parts, upto)

    def _write_tables(self, parts: Sequence[Slice], upto: Position) -> None:
        gathered: dict[str, list[ChangeBatch]] = defaultdict(list)
        for part in parts:
            for decoded in read_slice(part.without(self.stopped.at), refuse=self.sink.refuse):
                for batch in decoded:
                    if not batch.table.message:
                        gathered[batch.table.table].append(batch)
        unloaded = [
            b[-1].table for b in gathered.values() if self._load and self.sink.table_position(b[-1].table) is None
        ]
        if unloaded and self._load is not None:
            self._load(unloaded)
        for table, batches in gathered.items():
            fail_as_told(self._fault, self.name, table, batches)
            failpoint("sink.before_write")
            try:
                self.sink.write(batches[-1].table, batches, upto)
            except Drift as error:
                self.stop_table(table, error)
            failpoint("sink.after_write")
        oldest = min((b[0].records.column("commit_time")[0].value for b in gathered.values()), default=0)
        self.finish({table: sum(map(len, b)) for table, b in gathered.items()}, oldest, upto)


def fail_as_told(fault: Path, sink: str, table: str, batches: Sequence[ChangeBatch]) -> None:
    """Raise or wait as `sink_fault.json` says; nothing without it."""
    told: Mapping[str, Any] = read_json(fault) or {}
    if sink not in told.get("sinks", [sink]):
        return
    time.sleep(float(told.get("seconds", 0)))
    if told.get("down"):
        raise Retry("the sink is down", cause="sink_fault.json says so")
    for column, value in (told.get("reject") or {}).items():
        for batch in batches:
            for position, row in enumerate(batch.after.to_pylist()):
                if row is not None and row.get(column) == value:
                    commit = batch.records.column("commit")[position].as_py()
                    raise Unrepresentable(
                        f"{table}: the record of commit {commit} can never be written to this sink",
                        f"Correct it at the source, or leave the table out (exclude: [{table}])",
                        cause=f"column {column} has a value that the target refuses",
                    )


if __name__ == "__main__":
    run_verb.Run = LocalRun  # type: ignore[attr-defined]
    sys.exit(main(["run", *sys.argv[1:]]))
