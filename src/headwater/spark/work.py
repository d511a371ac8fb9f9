"""What is done with slices: decoded, and each table's changes written to the sink. In a task of Spark's, or right here.

Knows no Spark; `jobs.py` brings it to the executors. An error of ours comes back as a result, so that the driver gets
the class it was and not a stack trace in a text.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from headwater.errors import Drift, HeadwaterError, Rejected, Retry, Stop, Unrepresentable, Usage
from headwater.event import ChangeBatch, Position, TableSchema
from headwater.failpoints import failpoint
from headwater.sinks.base import Sink
from headwater.spark.slices import Slice, read_slice, size_of

# The sink has never seen this table, or another one of its name; or Spark writes it, from the driver.
UNLOADED, FRAME = "unloaded", "frame"

# Work on the part with this number; given to executors.
Task = Callable[[int], Iterator["Result"]]

_KINDS = {kind.__name__: kind for kind in (Retry, Stop, Usage, Rejected, Unrepresentable, Drift, HeadwaterError)}


class JobFailed(Retry):
    """Spark could not run a job, e.g. because a worker died over and over."""


@dataclass(frozen=True)
class Result:
    """What became of one table in one slice, or of one part of its snapshot. Plain data: it comes from executors."""

    table: str
    changes: int = 0
    # Of its oldest change, microseconds since the epoch: it waited longest, and latency is told by it.
    commit_time: int = 0
    # UNLOADED or FRAME, with the table's schema; or the receipt of a part of a snapshot.
    note: str = ""
    schema: str = ""
    error: str = ""

    @staticmethod
    def failed(table: str, error: HeadwaterError) -> Result:
        """An error as text; of the nearest class that every process knows."""
        kind = next((k.__name__ for k in type(error).__mro__ if k.__name__ in _KINDS), "HeadwaterError")
        told = {"kind": kind, "what": error.what, "cause": error.cause, "remedies": error.remedies}
        return Result(table, error=json.dumps(told))

    def to_error(self) -> HeadwaterError:
        """The error that `failed` was given."""
        read = json.loads(self.error)
        return _KINDS[read["kind"]](read["what"], *read["remedies"], cause=read["cause"])


def apply_slice(
    sink: Sink, part: Slice, settings: Mapping[str, str], *, load_first: bool, stopped: Collection[str]
) -> Iterator[Result]:
    """One slice → decoded changes → the sink. Tables that the driver must see to are only named: with `load_first`
    those the sink has never loaded, or has as another table, and those that Spark writes itself under the session's
    `settings`. Nothing is written of tables that are `stopped`."""
    gathered: dict[str, list[ChangeBatch]] = defaultdict(list)
    try:
        for decoded in read_slice(part.without(stopped), events=sink.writes_events, refuse=sink.refuse):
            for batch in decoded:
                gathered[batch.table.table].append(batch)
    except HeadwaterError as error:
        yield Result.failed(", ".join(part.tables or ()), error)
        return
    for table, batches in gathered.items():
        newest = batches[-1].table
        if newest.message and not sink.writes_events:
            continue
        try:
            if load_first and not newest.message and _lacks(sink, batches):
                yield Result(table, note=UNLOADED, schema=newest.to_json())
                continue
            if sink.takes_frame(newest, settings):
                yield Result(table, note=FRAME, schema=newest.to_json())
                continue
            failpoint("sink.before_write")
            sink.write(newest, batches, part.upto)
            failpoint("sink.after_write")
        except HeadwaterError as error:
            yield Result.failed(table, error)
            continue
        oldest = batches[0].records.column("commit_time")[0].value or 0
        yield Result(table, sum(map(len, batches)), oldest)


def _lacks(sink: Sink, batches: Sequence[ChangeBatch]) -> bool:
    """Whether the table must be loaded before these changes of it can be applied."""
    position = sink.table_position(batches[-1].table)
    return position is None or (position < batches[-1].last and sink.replaced(batches[-1].table))


class Work:
    """Work done in this process, by threads: decoding and writing leave the interpreter to each other."""

    # How many slices a batch is cut into, and a small one.
    parallel = 1
    here = min(4, os.cpu_count() or 1)
    # The session's, as far as sinks may ask for them.
    settings: Mapping[str, str] = {}
    # A batch of at most so many bytes of log is small.
    small_bytes = 0
    # How many Spark jobs there were.
    jobs = 0

    def check(self) -> None:
        """Raises when work cannot go on."""

    def run(self, task: Task, count: int, *, small: bool, threads: bool = True) -> list[Result]:
        """`task(0)` … `task(count - 1)`; everything they yield. `small`: not worth a Spark job. Without `threads` those
        that are done here are done one after the other."""
        if count == 1 or not threads:
            return [result for number in range(count) for result in task(number)]
        with ThreadPoolExecutor(min(count, self.here)) as pool:
            done = pool.map(lambda number: list(task(number)), range(count))
            return [result for results in done for result in results]

    def apply(self, sink: Sink, slices: Sequence[Slice], *, load_first: bool, stopped: Collection[str]) -> list[Result]:
        """Write the slices of one batch; see `apply_slice`."""
        settings = self.settings

        def task(number: int) -> Iterator[Result]:
            return apply_slice(sink, slices[number], settings, load_first=load_first, stopped=stopped)

        return self.run(task, len(slices), small=self.small(size_of(slices)))

    def small(self, size: int) -> bool:
        """Whether so many bytes of log are a batch that is not worth a Spark job."""
        return size <= self.small_bytes

    def write_frame(self, sink: Sink, slices: Sequence[Slice], table: TableSchema, upto: Position) -> int:
        """Let Spark write the changes of one table; how many there were."""
        raise NotImplementedError
