"""From commit to visible: one small transaction at a time."""

from __future__ import annotations

import importlib
import signal
import time
from pathlib import Path
from typing import LiteralString

from ..contestant import Contestant, NotAvailable, Run
from ..headwater import drive, last_error, pipeline_file, require_pipelines, source, start_pipeline
from ..lake import Watcher
from ..latency_clock import Clock, percentile
from ..postgres_workload import ROW, PostgresWorkload

TRANSACTIONS = 200
# The first ones meet a cold JVM; a stream that runs for months does not.
WARM = 20
STATEMENT: LiteralString = "insert into {table} values (%(id)s, 'customer-00000000001', 1, 1.00, now())"


def summary(milliseconds: list[float]) -> Run:
    p50, p99 = percentile(milliseconds, 0.5), percentile(milliseconds, 0.99)
    detail = {"p50_ms": p50, "p99_ms": p99, "max_ms": max(milliseconds), "transactions": len(milliseconds)}
    return Run(sum(milliseconds) / 1000, len(milliseconds), detail)


class DeltaLatency(Contestant[PostgresWorkload]):
    """A running pipeline; the clock stops when a reader that opens the table finds the row."""

    workload = PostgresWorkload
    group = "latency"
    most_rounds = 1

    def __init__(self, name: str, *, mode: str) -> None:
        self.name = name
        self.mode = mode
        self.title = f"commit → readable in Delta, {mode}"

    def run(self, workload: PostgresWorkload, directory: Path) -> Run:
        require_pipelines()
        table = f"latency_{self.mode}"
        workload.execute(f"drop table if exists {table}")
        workload.execute(f"create table {table} ({ROW})")
        slot = workload.slot_for(table)
        asked = source(workload, slot, tables=[f"public.{table}"], publication=slot)
        lake = directory / "lake"
        file = pipeline_file(directory, asked, {"type": "delta", "path": str(lake), "mode": self.mode})
        log = directory / "run.log"
        process = start_pipeline(file, log)
        watcher = Watcher(lake / "public" / table, "after" if self.mode == "append" else "id")
        try:
            milliseconds = self._measure(workload, table, watcher)
        except TimeoutError as late:
            raise NotAvailable(f"{late}: {last_error(log)}") from late
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
        workload.drop_slot(slot)
        return summary(milliseconds)

    def _measure(self, workload: PostgresWorkload, table: str, watcher: Watcher) -> list[float]:
        clock = Clock()
        with workload.server.connect("bench") as connection:
            for number in range(1, WARM + TRANSACTIONS + 1):
                connection.execute(STATEMENT.replace("{table}", table), {"id": number})
                clock.committed(number)
                deadline = time.perf_counter() + 120
                while watcher.newest() < number:
                    if time.perf_counter() > deadline:
                        raise TimeoutError(f"transaction {number} did not become readable")
                    time.sleep(0.002)
                clock.saw(number)
                clock.wait_for(number, 1)
        return clock.milliseconds(after=WARM)


class ForeachBatchLatency(Contestant[PostgresWorkload]):
    """The Spark reader with a user's own foreachBatch that reads the row."""

    workload = PostgresWorkload
    name = "latency-foreachbatch"
    title = "commit → seen by foreachBatch"
    group = "latency"
    most_rounds = 1

    def run(self, workload: PostgresWorkload, directory: Path) -> Run:
        if not hasattr(importlib.import_module("pyspark_headwater"), "DefaultSource"):
            raise NotAvailable("the Spark reader is not there yet")
        workload.execute("drop table if exists latency_foreach")
        workload.execute(f"create table latency_foreach ({ROW})")
        slot = workload.slot_for("latency_foreach")
        options = {
            "url": workload.url,
            "slot": slot,
            "publication": slot,
            "tables": "public.latency_foreach",
            "table": "public.latency_foreach",
            "snapshot": "no_data",
            "state": str(directory / "state"),
        }
        order = {
            "do": "foreach",
            "options": options,
            "checkpoint": str(directory / "checkpoint"),
            "url": workload.url,
            "statement": STATEMENT.replace("{table}", "latency_foreach"),
            "warm": WARM,
            "transactions": TRANSACTIONS,
        }
        measured = drive(order, directory)
        workload.drop_slot(slot)
        return summary(measured["milliseconds"])
