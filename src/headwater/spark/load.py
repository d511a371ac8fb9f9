"""A snapshot: tables copied in parallel by tasks, each made visible in the sink in one step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from headwater.errors import HeadwaterError
from headwater.event import ChangeBatch, Position, TableSchema
from headwater.failpoints import failpoint
from headwater.sinks.base import Again, Sink
from headwater.sources.base import CopyChunk, Snapshot, Source
from headwater.spark.work import Result, Task, Work

# Tables share a Spark job up to this much: small ones do not pay 150 ms each, and a killed snapshot
# repeats little.
JOB_BYTES = 512 << 20
JOB_CHUNKS = 64
# Tables so many times as large as a small batch are copied without Spark: rows are cheaper to load than to merge.
SMALL_TIMES = 16

Progress = Callable[[str, int], None]
Say = Callable[[str], None]


def load_tables(
    work: Work, source: Source, sink: Sink, tables: Sequence[TableSchema], progress: Progress, say: Say
) -> Position:
    """Copy `tables` as of one position into the sink; `progress(table, rows)` when a table is in place.

    A table becomes visible when all its parts are written. Killed in between, the tables that are not in
    place are copied again under a new snapshot; what they gained in between is skipped by position."""
    with source.snapshot(tables, work.parallel) as snapshot:
        if snapshot.locked_seconds is not None:
            say(f"the snapshot's lock kept writers waiting for {snapshot.locked_seconds * 1000:.0f} ms")
        small = sum(chunk.bytes for chunk in snapshot.chunks) <= SMALL_TIMES * work.small_bytes
        for chunks in _jobs(snapshot.chunks):
            _load(work, source, sink, chunks, snapshot, progress, small=small)
        return snapshot.position


def _load(
    work: Work,
    source: Source,
    sink: Sink,
    chunks: list[CopyChunk],
    snapshot: Snapshot,
    progress: Progress,
    *,
    small: bool,
) -> None:
    receipts: dict[str, list[str]] = defaultdict(list)
    rows: dict[str, int] = defaultdict(int)
    task = _load_part(source, sink, chunks, snapshot)
    # One chunk a task. A sink that takes the log as a whole has one connection in a process.
    for result in work.run(task, len(chunks), small=small, threads=not sink.takes_log()):
        if result.error:
            raise result.to_error()
        receipts[result.table].append(result.note)
        rows[result.table] += result.changes
    for table in {chunk.table.table: chunk.table for chunk in chunks}.values():
        failpoint("snapshot.before_load")
        sink.load(table, receipts[table.table], snapshot.position)
        failpoint("snapshot.after_load")
        progress(table.table, rows[table.table])


def _load_part(source: Source, sink: Sink, chunks: Sequence[CopyChunk], snapshot: Snapshot) -> Task:
    """One chunk, copied into a part of the sink's table; its receipt is the note."""

    def task(number: int) -> Iterator[Result]:
        chunk = chunks[number]
        copied = 0

        def counted() -> Iterator[ChangeBatch]:
            nonlocal copied
            copied = 0
            for rows in source.copy(chunk, snapshot, events=sink.writes_events):
                copied += len(rows)
                yield rows

        try:
            receipt = sink.load_part(chunk.table, Again(counted))
            failpoint("snapshot.after_part")
        except HeadwaterError as error:
            yield Result.failed(chunk.table.table, error)
            return
        yield Result(chunk.table.table, copied, note=receipt)

    return task


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
