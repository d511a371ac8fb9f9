"""Records the golden files anew: `python -m tests.oracle.record [--bindir DIR] [CASE ...]`.

A case is named as `types.connect`, or by its SQL alone as `types`. Without names, all that the server can run.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from headwater.testing.debezium import DOWNLOAD
from headwater.testing.postgres import PostgresServer

from .cases import CASES, Case
from .drive import record_debezium
from .recording import Recording, golden_file, save
from .transform_cases import TRANSFORM_CASES

ALL = (*CASES, *TRANSFORM_CASES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bindir", help="another server's binaries, for what the PyPI server was built without")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    with PostgresServer(arguments.bindir) as server:
        (version,) = server.execute("show server_version")[0]
        for case in chosen(arguments.cases, server):
            record(server, case, str(version))


def chosen(names: list[str], server: PostgresServer) -> list[Case]:
    if names:
        return [case for case in ALL if case.name in names or case.sql in names]
    (has_xml,) = server.execute(
        "select exists (select from pg_config where name = 'CONFIGURE' and setting like '%%libxml%%')"
    )[0]
    return [case for case in ALL if has_xml or not case.needs_xml]


def record(server: PostgresServer, case: Case, postgres: str) -> None:
    directory = Path(tempfile.mkdtemp(prefix=f"headwater-oracle-{case.name}-"))
    events = record_debezium(server, case, case.name, directory)
    versions = {"debezium": DOWNLOAD.split()[0], "postgres": postgres}
    save(Recording(case.name, case.properties, versions, tuple(events)), golden_file(case))
    print(f"{case.name:<40} {len(events):>4} events  {golden_file(case).stat().st_size:>8,} bytes")


if __name__ == "__main__":
    main()
