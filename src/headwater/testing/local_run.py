"""A pipeline without Spark: the same run, tail, journal, sinks and confirm protocol, with one thread per sink.

For tests, ours and our users': a run starts in a second instead of twenty, and everything but Spark's own part
is the product's code. `python -m headwater.testing.local_run FILE [--available-now]` is `headwater run` so.

A file `sink_fault.json` in the state folder makes every sink (or only those that `"sinks": [name]` says) fail as it
says, from the next batch on: {"down": true}, {"seconds": 0.5} for a slow one, {"reject": {"column": value}} for a
record that never fits.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headwater.cli import main
from headwater.cli import run as run_verb
from headwater.errors import Retry, Unrepresentable
from headwater.event import ChangeBatch, Position, TableSchema
from headwater.journal.files import read_json
from headwater.pipeline.run import Run
from headwater.sinks.base import NOTHING_STOPPED, Sink, WrappedSink, Written
from headwater.spark.flow import LoadTables, SinkFlow
from headwater.spark.work import Work


class LocalRun(Run):
    """One run of a pipeline in this process and its tail."""

    def _workers(self, tables: list[TableSchema]) -> Work:
        self.definition.source.warm_up()
        return Work()

    def _flow(self, name: str, sink: Sink, load: LoadTables | None) -> SinkFlow:
        return super()._flow(name, FaultySink(sink, self.definition.state / "sink_fault.json"), load)


class FaultySink(WrappedSink):
    """Fails as a file says, and hands on everything else."""

    def __init__(self, inner: Sink, fault: Path) -> None:
        super().__init__(inner)
        self._fault = fault

    def write(self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position) -> Written:
        fail_as_told(self._fault, self.name, table.table, batches)
        return super().write(table, batches, upto)

    def write_log(
        self,
        decoded: Iterable[Sequence[ChangeBatch]],
        upto: Position,
        stopped: Mapping[str, Position] = NOTHING_STOPPED,
    ) -> list[Written]:
        fail_as_told(self._fault, self.name, "", [])
        return super().write_log(decoded, upto, stopped)


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
