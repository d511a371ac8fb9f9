"""One sink's streaming query: slices in, the sink written on executors, its position advanced on the driver."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater.errors import Drift, HeadwaterError, Retry
from headwater.event import Position, TableSchema
from headwater.journal import Journal
from headwater.sinks.base import Sink
from headwater.spark.delivery import Delivery, LoadTables, OnBatch
from headwater.spark.rows import arrow_schema, table_schema
from headwater.spark.slice_stream import SliceSource
from headwater.spark.slices import Slice
from headwater.spark.work import FRAME, RESULT, UNLOADED, apply_slices, changes_of_table, error_from_json

# A sink that fails for a moment is tried again; longer each time, up to this.
MAX_BACKOFF_SECONDS = 30.0
# A batch that Spark cannot run this often in a row will not run by itself.
MAX_SPARK_FAILURES = 3
# Spark gives a new planner ten seconds to answer, which a busy machine may need for several minutes.
LATE_PLANNER, MAX_LATE_PLANNERS = "Python worker failed to connect back", 20

# What Spark says of a query that has no planner yet, and how long that is worth waiting for.
INITIALIZING = "Initializing "
START_SECONDS = 20.0

SESSION_KEYS = ("spark.jars.packages", "spark.sql.extensions", "spark.sql.catalog.spark_catalog")


class SinkFlow(Delivery):
    """Drives one sink from the journal. Errors are kept in `error`; the query ends when there is one."""

    # slices (one row a task) -> mapInArrow: decode, write each table with its position -> results
    # results -> position of the sink as a whole -> consumer position -> (tail) confirm

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        sink: Sink,
        journal: Journal,
        *,
        load: LoadTables | None,
        on_batch: OnBatch,
        say: Callable[[str], None],
        max_bytes: int,
        checkpoint: Path,
    ) -> None:
        super().__init__(name, sink, journal, load=load, on_batch=on_batch, say=say)
        self.spark = spark
        self.error: HeadwaterError | None = None
        self._max_bytes = max_bytes
        self._checkpoint = checkpoint
        # What sinks may ask of the session: whether it was started with what they need.
        self._settings = {key: value for key, value in spark.sparkContext.getConf().getAll() if key in SESSION_KEYS}
        self._query: StreamingQuery | None = None
        self._busy = threading.Lock()
        self._stopping = False
        self._target: int | None = None
        # Since the last batch that went well.
        self._starts = 0

    def start(self, after: Position, target: int | None) -> None:
        """Run from `after`; with `target`, until everything received up to there is delivered."""
        # Positions are stored with the data; a checkpoint older or newer than them would only confuse.
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        self.position = after
        self._target = target
        self._starts += 1
        self.spark.dataSource.register(SliceSource)
        stream = (
            self.spark.readStream.format("headwater_slices")
            .option("journal", self.journal.place)
            .option("after", after.to_json())
            .option("tasks", "1" if self.sink.takes_log() else str(self.spark.sparkContext.defaultParallelism))
            .option("max_bytes", str(self._max_bytes))
        )
        if target is not None:
            stream = stream.option("target", str(target))
        writer = (
            stream.load()
            .writeStream.queryName(f"headwater {self.name}")
            .foreachBatch(self._batch)
            .option("checkpointLocation", str(self._checkpoint))
        )
        self._query = (writer.trigger(availableNow=True) if target is not None else writer).start()

    def wait_started(self) -> None:
        """Until Spark has made its planner, or given up. It gives a planner ten seconds: several at a time, on a busy
        machine, would all come too late."""
        deadline = time.monotonic() + START_SECONDS
        while self._query is not None and self._query.isActive and time.monotonic() < deadline:
            if not self._query.status["message"].startswith(INITIALIZING):
                return
            time.sleep(0.05)

    @property
    def active(self) -> bool:
        try:
            return self._query is not None and self._query.isActive
        except (Py4JError, OSError):
            # The JVM is gone.
            return False

    def failure(self) -> HeadwaterError | None:
        """Why the query ended, if it did not end well."""
        if self.error is not None:
            return self.error
        failed: Any = self._query.exception() if self._query is not None else None
        if failed is None or self._stopping:
            return None
        # Spark puts a report on its query below the reason.
        reason = str(failed).partition("\n=== ")[0]
        if self._starts < (MAX_LATE_PLANNERS if LATE_PLANNER in reason else MAX_SPARK_FAILURES):
            self._worry(f"the Spark query ended; starting it again: {reason[:500]}")
            self.start(self.position, self._target)
            return None
        return HeadwaterError(f"the Spark query of sink {self.name!r} failed", cause=reason[:2000])

    def stop(self) -> None:
        """After the batch that is under way: stopping Spark in the middle of one leaves a mess."""
        self._stopping = True
        with self._busy:
            # The batch under way is done; one that Spark begins from here on returns at once.
            pass
        # Not under the lock: Spark waits for its thread, which may be waiting for the lock with the next batch.
        if self._query is not None and self._query.isActive:
            self._query.stop()

    # ----------------------------------------------------------------------------------------------

    def _batch(self, slices: DataFrame, _batch_id: int) -> None:
        with self._busy:
            if self._stopping:
                return
            try:
                self._run(slices)
            except HeadwaterError as error:
                self.error = error
                raise

    def _run(self, slices: DataFrame) -> None:
        """Once, or again and again while the sink says that it will pass."""
        backoff, failures = 0.5, 0
        while True:
            try:
                self._once(slices)
                return
            except Retry as error:
                self.failures += 1
                if self._stopping:
                    raise
                self._worry(str(error))
            except PySparkException as error:
                # Spark itself, e.g. a worker that died over and over: a second attempt has no second effect.
                self.failures += 1
                failures += 1
                if self._stopping or failures >= MAX_SPARK_FAILURES:
                    raise
                self._worry(f"Spark failed to run a batch; trying again: {str(error)[:500]}")
            time.sleep(backoff)
            backoff = min(backoff * 2, MAX_BACKOFF_SECONDS)

    def _worry(self, text: str) -> None:
        """Tell people once why this sink does not go on."""
        if text != self.trouble:
            self._say(f"{self.name}: {text}")
        self.trouble = text

    def _once(self, slices: DataFrame) -> None:
        if self.sink.takes_log():
            # One slice: the whole log of this batch.
            for row in slices.collect():
                self.write_log(Slice.from_json(row.slice))
            return
        stopped = tuple(self.stopped.at)
        work = apply_slices(self.sink, self._settings, load_first=self._load is not None, stopped=stopped)
        results = slices.mapInArrow(work, RESULT).collect()
        errors = [(row.table, error_from_json(row.error)) for row in results if row.error]
        if serious := [error for _table, error in errors if not isinstance(error, Drift)]:
            # What a person must decide goes before what passes by itself.
            raise min(serious, key=lambda error: isinstance(error, Retry))
        for table, error in errors:
            self.stop_table(table, error)
        unloaded = [TableSchema.from_json(row.upto) for row in results if row.note == UNLOADED]
        if unloaded and self._load is not None:
            self._load(unloaded)
            self._once(slices)
            return
        done = [row for row in results if not row.note]
        if not done:
            return
        upto = max(Position.from_json(row.upto) for row in done)
        changed = {row.table: row.changes for row in done if row.table}
        for row in results:
            if row.note == FRAME:
                try:
                    changed[row.table] = self._write_frame(slices, TableSchema.from_json(row.upto), upto)
                except Drift as error:
                    self.stop_table(row.table, error)
        self.finish(changed, min((row.commit_time for row in done if row.table), default=0), upto)

    def _write_frame(self, slices: DataFrame, table: TableSchema, upto: Position) -> int:
        """A table that Spark itself writes: its changes of this batch as one DataFrame."""
        schema = table_schema(table)
        frame = slices.mapInArrow(changes_of_table(table, arrow_schema(schema)), schema)
        return self.sink.write_frame(self.spark, table, frame, upto).changes

    def finish(self, changed: dict[str, int], oldest: int, upto: Position) -> None:
        super().finish(changed, oldest, upto)
        self._starts = 0
