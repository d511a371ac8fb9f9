"""Work as Spark jobs: a slice, or a part of a table's snapshot, is one task on an executor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from typing import TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater.event import Position, TableSchema
from headwater.registry import source_class
from headwater.sinks.base import Sink
from headwater.spark.collector import freeze_modules
from headwater.spark.rows import arrow_schema, fit, table_schema
from headwater.spark.session import StartingSession
from headwater.spark.slices import Slice, read_slice
from headwater.spark.work import JobFailed, Result, Task, Work

# What sinks may ask of the session: whether it was started with what they need.
SESSION_KEYS = ("spark.jars.packages", "spark.sql.extensions", "spark.sql.catalog.spark_catalog")

RESULT = pa.schema([(field.name, pa.int64() if field.type == "int" else pa.string()) for field in fields(Result)])
_RESULT_DDL = ", ".join(f"{field.name} {'bigint' if field.type == pa.int64() else 'string'}" for field in RESULT)

Batches = Iterator[pa.RecordBatch]
Answer = TypeVar("Answer")


class SparkJobs(Work):
    """Work as tasks of Spark jobs, except what is small: that is done here, and needs not even wait for the session."""

    def __init__(self, session: StartingSession, small_bytes: int) -> None:
        self.small_bytes = small_bytes
        self._session = session

    @property
    def parallel(self) -> int:  # type: ignore[override]
        return self._session.parallel

    @property
    def settings(self) -> Mapping[str, str]:  # type: ignore[override]
        told = self._session.settings
        return {key: told[key] for key in SESSION_KEYS if key in told}

    def check(self) -> None:
        self._session.check()

    def run(self, task: Task, count: int, *, small: bool, threads: bool = True) -> list[Result]:
        if small:
            return super().run(task, count, small=True, threads=threads)
        self.jobs += 1
        return self._answered(lambda: run_tasks(self._session.get(), task, count))

    def write_frame(self, sink: Sink, slices: Sequence[Slice], table: TableSchema, upto: Position) -> int:
        schema = table_schema(table)
        wanted = [part for part in slices if part.tables is None or table.table in part.tables]
        spark = self._session.get()
        numbers = spark.range(0, len(wanted), 1, len(wanted))
        frame = numbers.mapInArrow(_changes_of_table(wanted, table, arrow_schema(schema)), schema)
        return self._answered(lambda: sink.write_frame(spark, table, frame, upto).changes)

    def _answered(self, ask: Callable[[], Answer]) -> Answer:
        """What Spark answers; a job that failed is worth a second attempt, the end of the JVM is not."""
        try:
            return ask()
        except PySparkException as error:
            raise JobFailed("Spark failed to run a batch; trying again", cause=str(error)[:500]) from error
        except (Py4JError, OSError) as error:
            # The end of the JVM is known a moment after the connection's.
            time.sleep(1)
            self.check()
            raise JobFailed("Spark failed to run a batch; trying again", cause=str(error)[:500]) from error


def run_tasks(spark: SparkSession, work: Task, count: int) -> list[Result]:
    """One task for each number below `count`; everything they yield."""

    def task(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pylist([asdict(result) for result in work(number)], schema=RESULT)
        freeze_modules()

    rows = spark.range(0, count, 1, count).mapInArrow(task, _RESULT_DDL).collect()
    return [Result(**row.asDict()) for row in rows]


def warm_workers(spark: SparkSession, source: str, sinks: Sequence[Sink]) -> None:
    """Load kernels and the sinks' libraries in every worker while the log is being read."""

    def warm(_number: int) -> Iterator[Result]:
        source_class(source).warm_up()
        for sink in sinks:
            sink.warm_up()
        # Keeps this worker busy for a moment, so that the next task starts another one.
        time.sleep(0.2)
        return iter(())

    # What fails here fails again in a batch, where somebody listens.
    with suppress(PySparkException, Py4JError, OSError):
        run_tasks(spark, warm, spark.sparkContext.defaultParallelism)


def _changes_of_table(slices: Sequence[Slice], table: TableSchema, target: pa.Schema) -> Callable[[Batches], Batches]:
    """Numbers of slices → the decoded changes of one table, under its newest schema."""

    def work(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for decoded in read_slice(replace(slices[number], tables=(table.table,))):
                    yield from (fit(changes, target) for changes in decoded)

    return work
