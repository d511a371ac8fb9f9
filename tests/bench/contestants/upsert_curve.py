"""Upserts into tables of growing size: seconds and memory, random keys and recent keys."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import psutil

from ..contestant import Contestant, Run
from ..headwater import drive, pipeline_file, require_pipelines, source
from ..postgres_workload import ROW, VALUES, PostgresWorkload

CHANGES = 100_000
SIZES = (1_000_000, 10_000_000, 50_000_000)
PER_TRANSACTION = 500


class UpsertCurve(Contestant[PostgresWorkload]):
    """Per size: load the table by a snapshot, then time 100,000 updates of either kind."""

    workload = PostgresWorkload
    name = "upsert-curve"
    title = f"upsert of {CHANGES:,} changes by table size"
    group = "upsert-curve"
    most_rounds = 1

    def run(self, workload: PostgresWorkload, directory: Path) -> Run:
        require_pipelines()
        points = []
        for size in SIZES:
            rows = int(size * workload.scale)
            points.append(self._point(workload, directory / str(rows), rows))
        return Run(sum(point["random_seconds"] for point in points), CHANGES * len(points), {"curve": points})

    def _point(self, workload: PostgresWorkload, directory: Path, rows: int) -> dict[str, Any]:
        table = f"curve_{rows}"
        workload.execute(f"create table {table} ({ROW})")
        workload.execute(f"insert into {table} select {VALUES} from generate_series(1, {rows}) n")
        workload.execute(f"vacuum (analyze, freeze) {table}")
        asked = source(
            workload, f"bench_{table}", tables=[f"public.{table}"], publication=f"bench_{table}", snapshot="initial"
        )
        sink = {"type": "delta", "path": str(directory / "lake"), "mode": "upsert"}
        file = pipeline_file(directory, asked, sink)
        loaded = drive({"do": "pipeline", "file": str(file), "url": workload.url}, directory)
        point: dict[str, Any] = {"rows": rows, "load_seconds": round(loaded["seconds"], 2)}
        for kind, key in (("random", f"1 + (n * 7919) % {rows}"), ("recent", f"{rows} - n")):
            self._update(workload, table, key)
            with PeakMemory() as memory:
                measured = drive({"do": "pipeline", "file": str(file), "url": workload.url}, directory)
            point |= {f"{kind}_seconds": round(measured["seconds"], 2), f"{kind}_peak_mb": memory.megabytes}
        workload.drop_slot(f"bench_{table}")
        workload.execute(f"drop table {table}")
        return point

    def _update(self, workload: PostgresWorkload, table: str, key: str) -> None:
        with workload.server.connect("bench") as connection:
            connection.execute("set enable_hashjoin = off")
            connection.execute("set enable_mergejoin = off")
            for low in range(0, CHANGES, PER_TRANSACTION):
                numbers = f"generate_series({low}, {low + PER_TRANSACTION - 1}) n"
                connection.execute(f"update {table} o set quantity = o.quantity + 1 from {numbers} where o.id = {key}")


class PeakMemory:
    """The largest resident memory that all our descendants but the database had together, sampled."""

    def __init__(self) -> None:
        self.megabytes = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._done.wait(0.2):
            total = 0
            for process in psutil.Process().children(recursive=True):
                try:
                    if process.name() != "postgres":
                        total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.megabytes = max(self.megabytes, total >> 20)
