"""Headwater reading the backlog: into Spark's noop sink, and into Delta."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from ..contestant import Contestant, NotAvailable, Run
from ..headwater import drive, pipeline_file, require_pipelines, source
from ..lake import rows_of
from ..postgres_workload import PUBLICATION, PostgresWorkload


class StreamToNoop(Contestant[PostgresWorkload]):
    """`spark.readStream.format("headwater")`: typed rows of one table, or Debezium's key and value as text."""

    workload = PostgresWorkload
    group = "stream"

    def __init__(self, name: str, *, typed: bool) -> None:
        self.name = name
        self.typed = typed
        self.title = "Headwater → noop, " + ("typed columns" if typed else "Debezium JSON")

    def run(self, workload: PostgresWorkload, directory: Path) -> Run:
        if not hasattr(importlib.import_module("pyspark_headwater"), "DefaultSource"):
            raise NotAvailable("the Spark reader is not there yet")
        slot = workload.slot()
        options = {
            "url": workload.url,
            "slot": slot,
            "publication": PUBLICATION,
            "snapshot": "no_data",
            "state": str(directory / "state"),
        }
        if self.typed:
            options["table"] = "public.orders"
        order = {"do": "stream", "options": options, "checkpoint": str(directory / "checkpoint")}
        measured = drive(order, directory)
        workload.drop_slot(slot)
        if measured["rows"] < workload.changes:
            raise NotAvailable(f"only {measured['rows']:,} of {workload.changes:,} changes arrived")
        return Run(measured["seconds"], workload.changes, measured)


class StreamToDelta(Contestant[PostgresWorkload]):
    """`headwater run FILE --available-now` with the Delta sink; the table is counted afterwards."""

    workload = PostgresWorkload
    group = "stream"

    def __init__(self, name: str, *, mode: str) -> None:
        self.name = name
        self.mode = mode
        self.title = f"Headwater → Delta {mode}"

    def run(self, workload: PostgresWorkload, directory: Path) -> Run:
        require_pipelines()
        slot = workload.slot()
        lake = directory / "lake"
        sink = {"type": "delta", "path": str(lake), "mode": self.mode}
        file = pipeline_file(directory, source(workload, slot), sink)
        measured = drive({"do": "pipeline", "file": str(file), "url": workload.url}, directory)
        workload.drop_slot(slot)
        expected = workload.changes if self.mode == "append" else workload.inserts
        found = rows_of(lake / "public" / "orders")
        if found != expected:
            raise NotAvailable(f"the table has {found:,} rows instead of {expected:,}")
        return Run(measured["seconds"], workload.changes, measured)
