"""The snapshot job: tables copied in parallel by tasks, each made visible in the sink in one step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from pyspark.sql import SparkSession

from headwater.event import Position, TableSchema
from headwater.failpoints import failpoint
from headwater.sinks.base import Sink
from headwater.sources.base import CopyChunk, Snapshot, Source
from headwater.spark.work import RESULT, error_from_json, load_parts

# Tables share a Spark job up to this much: small ones do not pay 150 ms each, and a killed snapshot
# repeats little.
JOB_BYTES = 512 << 20
JOB_CHUNKS = 64

Progress = Callable[[str, int], None]
Say = Callable[[str], None]


def load_tables(
    spark: SparkSession, source: Source, sink: Sink, tables: Sequence[TableSchema], progress: Progress, say: Say
) -> Position:
    """Copy `tables` as of one position into the sink; `progress(table, rows)` when a table is in place.

    A table becomes visible when all its parts are written. Killed in between, the tables that are not in
    place are copied again under a new snapshot; what they gained in between is skipped by position."""
    with source.snapshot(tables, spark.sparkContext.defaultParallelism) as snapshot:
        if snapshot.locked_seconds is not None:
            say(f"the snapshot's lock kept writers waiting for {snapshot.locked_seconds * 1000:.0f} ms")
        for chunks in _jobs(snapshot.chunks):
            _load(spark, source, sink, chunks, snapshot, progress)
        return snapshot.position


def _load(
    spark: SparkSession, source: Source, sink: Sink, chunks: list[CopyChunk], snapshot: Snapshot, progress: Progress
) -> None:
    work = load_parts(source, sink, chunks, snapshot)
    receipts: dict[str, list[str]] = defaultdict(list)
    rows: dict[str, int] = defaultdict(int)
    # One chunk a task.
    for result in spark.range(0, len(chunks), 1, len(chunks)).mapInArrow(work, RESULT).collect():
        if result.error:
            raise error_from_json(result.error)
        receipts[result.table].append(result.note)
        rows[result.table] += result.changes
    for table in {chunk.table.table: chunk.table for chunk in chunks}.values():
        failpoint("snapshot.before_load")
        sink.load(table, receipts[table.table], snapshot.position)
        failpoint("snapshot.after_load")
        progress(table.table, rows[table.table])


def _jobs(chunks: Sequence[CopyChunk]) -> Iterator[list[CopyChunk]]:
    """Chunks of whole tables, about JOB_BYTES at a time."""
    by_table: dict[str, list[CopyChunk]] = defaultdict(list)
    for chunk in chunks:
        by_table[chunk.table.table].append(chunk)
    job: list[CopyChunk] = []
    for part in by_table.values():
        job.extend(part)
        if len(job) >= JOB_CHUNKS or sum(chunk.bytes for chunk in job) >= JOB_BYTES:
            yield job
            job = []
    if job:
        yield job
