"""The same changes to ten tables, alone and among a thousand: the cost must follow the changes."""

from __future__ import annotations

from pathlib import Path

from ..contestant import Contestant, Run
from ..headwater import drive, pipeline_file, require_pipelines, source
from ..postgres_workload import PostgresWorkload

HOT = 10
TABLES = 1000
TRANSACTIONS = 200
ROWS = 50


class ManyTables(Contestant[PostgresWorkload]):
    """`seconds` is the run among a thousand; `detail` has the run with the ten alone."""

    workload = PostgresWorkload
    name = "many-tables"
    title = f"{HOT} hot tables of {TABLES} → Delta append"
    group = "many-tables"
    most_rounds = 1

    def run(self, workload: PostgresWorkload, directory: Path) -> Run:
        require_pipelines()
        few = self._measure(workload, directory / "few", "few", HOT)
        many = self._measure(workload, directory / "many", "many", TABLES)
        changes = TRANSACTIONS * HOT * ROWS
        return Run(many, changes, {"seconds_with_10_tables": few, "times": round(many / few, 2)})

    def _measure(self, workload: PostgresWorkload, directory: Path, schema: str, tables: int) -> float:
        workload.execute(f"create schema {schema}")
        for first in range(0, tables, 100):
            numbers = range(first, min(first + 100, tables))
            workload.execute(
                ";".join(
                    f"create table {schema}.t{n} (id bigint primary key, name text, at timestamptz)" for n in numbers
                )
            )
        workload.execute(f"create publication bench_{schema} for tables in schema {schema}")
        workload.execute(f"select pg_create_logical_replication_slot('bench_{schema}', 'pgoutput')")
        for number in range(TRANSACTIONS):
            low, high = number * ROWS + 1, (number + 1) * ROWS
            workload.execute(
                ";".join(
                    f"insert into {schema}.t{n} select i, 'name ' || i, now() from generate_series({low}, {high}) i"
                    for n in range(HOT)
                )
            )
        asked = source(workload, f"bench_{schema}", tables=[f"{schema}.*"], publication=f"bench_{schema}")
        file = pipeline_file(directory, asked, {"type": "delta", "path": str(directory / "lake"), "mode": "append"})
        measured = drive({"do": "pipeline", "file": str(file), "url": workload.url}, directory)
        workload.drop_slot(f"bench_{schema}")
        return float(measured["seconds"])
