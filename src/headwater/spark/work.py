"""What runs on executors for a pipeline: slices into a sink, and parts of a table's snapshot into a sink.

Each function is given to `mapInArrow`. An error of ours comes back as a row, so that the driver gets the
class it was and not a stack trace in a text.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater.errors import Drift, HeadwaterError, Rejected, Retry, Stop, Unrepresentable, Usage
from headwater.event import ChangeBatch, TableSchema
from headwater.failpoints import failpoint
from headwater.registry import source_class
from headwater.sinks.base import Again, Sink
from headwater.spark.collector import freeze_modules
from headwater.spark.rows import fit
from headwater.spark.slices import Slice, read_slice

RESULT = "table string, changes bigint, seconds double, commit_time bigint, upto string, note string, error string"
RESULT_ARROW = pa.schema(
    [
        ("table", pa.string()),
        ("changes", pa.int64()),
        ("seconds", pa.float64()),
        ("commit_time", pa.int64()),
        ("upto", pa.string()),
        # `unloaded`: the sink has never seen this table; `frame`: Spark writes it, from the driver; both with the
        # table's schema in `upto`. Or a receipt of `load_part`.
        ("note", pa.string()),
        ("error", pa.string()),
    ]
)
UNLOADED = "unloaded"
FRAME = "frame"

Batches = Iterator[pa.RecordBatch]
_KINDS = {kind.__name__: kind for kind in (Retry, Stop, Usage, Rejected, Unrepresentable, Drift, HeadwaterError)}


def apply_slices(
    sink: Sink, settings: Mapping[str, str], *, load_first: bool, stopped: Collection[str] = ()
) -> Callable[[Batches], Batches]:
    """Slices → decoded changes → the sink. Tables that the driver must see to are only named: with `load_first`
    those the sink has never loaded, and those that Spark writes itself under the session's `settings`. Nothing is
    written of tables that are `stopped`."""

    def work(batches: Batches) -> Batches:
        for batch in batches:
            for text in batch.column(0).to_pylist():
                yield _rows(_apply(sink, Slice.from_json(text), settings, load_first, stopped))
        freeze_modules()

    return work


def _apply(
    sink: Sink, part: Slice, settings: Mapping[str, str], load_first: bool, stopped: Collection[str]
) -> Iterator[dict[str, Any]]:
    upto = part.upto.to_json()
    yield {"table": "", "changes": 0, "upto": upto}
    gathered: dict[str, list[ChangeBatch]] = defaultdict(list)
    try:
        for decoded in read_slice(part.without(stopped), events=sink.writes_events, refuse=sink.refuse):
            for batch in decoded:
                gathered[batch.table.table].append(batch)
    except HeadwaterError as error:
        yield {"table": ", ".join(part.tables or ()), "error": error_to_json(error)}
        return
    for table, batches in gathered.items():
        began = time.perf_counter()
        newest = batches[-1].table
        if newest.message and not sink.writes_events:
            continue
        try:
            if load_first and not newest.message and sink.table_position(newest) is None:
                yield {"table": table, "note": UNLOADED, "upto": newest.to_json()}
                continue
            if sink.takes_frame(newest, settings):
                yield {"table": table, "note": FRAME, "upto": newest.to_json()}
                continue
            failpoint("sink.before_write")
            sink.write(newest, batches, part.upto)
            failpoint("sink.after_write")
        except HeadwaterError as error:
            yield {"table": table, "error": error_to_json(error)}
            continue
        # The oldest change waited longest: latency is told by it.
        oldest = batches[0].records.column("commit_time")[0].value
        yield {
            "table": table,
            "changes": sum(len(batch) for batch in batches),
            "seconds": time.perf_counter() - began,
            "commit_time": oldest,
            "upto": upto,
        }


def changes_of_table(table: TableSchema, target: pa.Schema) -> Callable[[Batches], Batches]:
    """Slices → the decoded changes of one table, under its newest schema."""

    def work(batches: Batches) -> Batches:
        for batch in batches:
            for text in batch.column(0).to_pylist():
                part = Slice.from_json(text)
                if part.tables is None or table.table in part.tables:
                    for decoded in read_slice(replace(part, tables=(table.table,))):
                        yield from (fit(changes, target) for changes in decoded)

    return work


def warm_workers(spark: SparkSession, source: str, sinks: Sequence[Sink]) -> None:
    """Load kernels and the sinks' libraries in every worker while the log is being read."""

    def warm(batches: Batches) -> Batches:
        for batch in batches:
            source_class(source).warm_up()
            for sink in sinks:
                sink.warm_up()
            # Keeps this worker busy for a moment, so that the next task starts another one.
            time.sleep(0.2)
            yield batch
        freeze_modules()

    cores = spark.sparkContext.defaultParallelism
    numbers = spark.range(0, cores, 1, cores)
    # What fails here fails again in a batch, where somebody listens.
    with suppress(PySparkException):
        # Twice, because a batch is read in one worker and applied in another, for each core.
        numbers.mapInArrow(warm, "id bigint").mapInArrow(warm, "id bigint").collect()


def error_to_json(error: HeadwaterError) -> str:
    """An error as a row's text; the nearest class that every process knows."""
    kind = next((k.__name__ for k in type(error).__mro__ if k.__name__ in _KINDS), "HeadwaterError")
    return json.dumps({"kind": kind, "what": error.what, "cause": error.cause, "remedies": error.remedies})


def error_from_json(text: str) -> HeadwaterError:
    """The error that `error_to_json` wrote."""
    read = json.loads(text)
    return _KINDS[read["kind"]](read["what"], *read["remedies"], cause=read["cause"])


def _rows(rows: Iterator[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=RESULT_ARROW)


def load_parts(source: Any, sink: Sink, chunks: list[Any], snapshot: Any) -> Callable[[Batches], Batches]:
    """Chunk numbers → copied rows → parts of the sink's tables; returns receipts."""

    def work(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _rows(_load(number))

    def _load(number: int) -> Iterator[dict[str, Any]]:
        chunk = chunks[number]
        began = time.perf_counter()
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
            yield {"table": chunk.table.table, "error": error_to_json(error)}
            return
        yield {
            "table": chunk.table.table,
            "changes": copied,
            "seconds": time.perf_counter() - began,
            "note": receipt,
        }

    return work
