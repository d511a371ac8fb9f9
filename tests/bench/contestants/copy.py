"""The limit of a snapshot: the same number of COPY connections, their rows thrown away."""

from __future__ import annotations

import itertools
import subprocess
import time
from pathlib import Path

from headwater.testing.postgres import wheel_bindir

from ..contestant import Contestant, Run
from ..postgres_workload import PostgresWorkload

# What the snapshot contestant uses too; one per core of the machine the published numbers come from.
CONNECTIONS = 2


class ParallelCopy(Contestant[PostgresWorkload]):
    """psql processes, each copying one range of pages."""

    workload = PostgresWorkload
    name = "copy"
    title = f"COPY × {CONNECTIONS} → /dev/null"
    group = "snapshot"
    copies = True

    def run(self, workload: PostgresWorkload, directory: Path) -> Run:
        pages = int(str(workload.execute("select pg_relation_size('items') / 8192")[0][0]))
        edges = [pages * part // CONNECTIONS for part in range(CONNECTIONS)] + [pages + 1]
        begun = time.perf_counter()
        readers = [self._copy(workload, directory, first, last) for first, last in itertools.pairwise(edges)]
        statuses = [reader.wait() for reader in readers]
        seconds = time.perf_counter() - begun
        if any(statuses):
            raise RuntimeError(f"psql ended with {statuses}")
        return Run(seconds, workload.rows)

    def _copy(self, workload: PostgresWorkload, directory: Path, first: int, last: int) -> subprocess.Popen[bytes]:
        statement = f"copy (select * from items where ctid >= '({first},0)' and ctid < '({last},0)') to stdout"
        command = [str(wheel_bindir() / "psql"), "-X", "-q", "-d", workload.url, "-c", statement]
        with (directory / f"psql-{first}.log").open("wb") as log:
            return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
