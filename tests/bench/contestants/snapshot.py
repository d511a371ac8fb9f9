"""Headwater copying a table into Delta."""

from __future__ import annotations

from pathlib import Path

from ..contestant import Contestant, NotAvailable, Run
from ..headwater import drive, pipeline_file, require_pipelines, source
from ..lake import rows_of
from ..postgres_workload import PostgresWorkload


class SnapshotToDelta(Contestant[PostgresWorkload]):
    """The initial snapshot of a pipeline that finds nothing else to do."""

    workload = PostgresWorkload
    name = "snapshot-delta"
    title = "Headwater snapshot → Delta"
    group = "snapshot"
    copies = True

    def run(self, workload: PostgresWorkload, directory: Path) -> Run:
        require_pipelines()
        slot = f"bench_snapshot_{directory.name[-8:].lower().replace('-', '_')}"
        lake = directory / "lake"
        asked = source(workload, slot, tables=["public.items"], snapshot="initial", publication="bench_items")
        file = pipeline_file(directory, asked, {"type": "delta", "path": str(lake), "mode": "upsert"})
        one = source(
            workload,
            "headwater_bench_load",
            tables=["public.bench_load"],
            snapshot="initial",
            publication="headwater_bench_load",
        )
        first = pipeline_file(directory / "first", one, {"type": "delta", "path": str(directory / "first" / "lake")})
        order = {"do": "snapshot", "first_file": str(first), "file": str(file), "url": workload.url}
        measured = drive(order, directory)
        workload.drop_slot(slot)
        found = rows_of(lake / "public" / "items")
        if found != workload.rows:
            raise NotAvailable(f"the table has {found:,} rows instead of {workload.rows:,}")
        return Run(measured["seconds"], workload.rows, measured)
