"""The limit: PostgreSQL's own client takes the decoded changes and throws them away."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from headwater.testing.postgres import wheel_bindir

from ..contestant import Contestant, NotAvailable, Run
from ..postgres_workload import PUBLICATION, PostgresWorkload


class Recvlogical(Contestant[PostgresWorkload]):
    """`pg_recvlogical` to /dev/null: the walsender's own speed, which no reader of this slot can beat."""

    workload = PostgresWorkload
    name = "limit"
    title = "pg_recvlogical → /dev/null"
    group = "stream"

    def run(self, workload: PostgresWorkload, directory: Path) -> Run:
        program = wheel_bindir() / "pg_recvlogical"
        if not program.exists():
            raise NotAvailable("no pg_recvlogical beside the server's binaries")
        slot = workload.slot()
        options = ["-o", "proto_version=1", "-o", f"publication_names={PUBLICATION}"]
        command = [str(program), "-d", workload.url, "--slot", slot, "--start", "--no-loop", *options]
        with (directory / "pg_recvlogical.log").open("wb") as log:
            begun = time.perf_counter()
            subprocess.run([*command, "--endpos", workload.end, "-f", "/dev/null"], check=True, stderr=log)
            seconds = time.perf_counter() - begun
        workload.drop_slot(slot)
        return Run(seconds, workload.changes)
