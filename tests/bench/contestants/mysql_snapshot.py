"""The table to copy on MariaDB: by Debezium's snapshot, and by Headwater into Delta."""

from __future__ import annotations

from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.testing.debezium import Debezium, classpath

from ..contestant import Contestant, NotAvailable, Run
from ..headwater import drive, pipeline_file
from ..lake import rows_of
from ..mysql_workload import DATABASE, MySqlWorkload


class DebeziumSnapshot(Contestant[MySqlWorkload]):
    """Its initial snapshot into a consumer that counts. In its favour: the clock starts at its first batch."""

    workload = MySqlWorkload
    name = "mysql-debezium-snapshot"
    title = "Debezium engine 3.5.0, MariaDB snapshot"
    group = "mysql-snapshot"
    copies = True

    def run(self, workload: MySqlWorkload, directory: Path) -> Run:
        try:
            classpath("mariadb")
        except HeadwaterError as missing:
            raise NotAvailable(missing.what) from missing
        properties = {
            "table.include.list": rf"{DATABASE}\.items",
            "snapshot.mode": "initial_only",
            "converter.schemas.enable": "false",
            "include.schema.changes": "false",
        }
        url = workload.url.replace("mysql://", "mariadb://")
        with Debezium(url, properties, directory, record=False, heap="2g") as engine:
            started = engine.wait_for(1, timeout=90)
            done = engine.wait_for(workload.rows, timeout=900)
        return Run(done.at - started.at, done.events - started.events)


class MySqlSnapshotToDelta(Contestant[MySqlWorkload]):
    """The initial snapshot of a pipeline that finds nothing else to do; the table is counted afterwards."""

    workload = MySqlWorkload
    name = "mysql-snapshot-delta"
    title = "Headwater, MariaDB snapshot → Delta"
    group = "mysql-snapshot"
    copies = True

    def run(self, workload: MySqlWorkload, directory: Path) -> Run:
        lake = directory / "lake"
        source = {"type": "mariadb", "url": workload.url}
        sink = {"type": "delta", "mode": "upsert"}
        items, one = ({**source, "tables": [f"{DATABASE}.{name}"]} for name in ("items", "bench_load"))
        file = pipeline_file(directory, items, {**sink, "path": str(lake)})
        first = pipeline_file(directory / "first", one, {**sink, "path": str(directory / "first" / "lake")})
        order = {"do": "snapshot", "first_file": str(first), "file": str(file), "url": workload.url}
        measured = drive(order, directory)
        found = rows_of(lake / DATABASE / "items")
        if found != workload.rows:
            raise NotAvailable(f"the table has {found:,} rows instead of {workload.rows:,}")
        return Run(measured["seconds"], workload.rows, measured)
