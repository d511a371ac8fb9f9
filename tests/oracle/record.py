"""Records the golden files anew: `python -m tests.oracle.record [--bindir DIR] [--database NAME] [CASE ...]`.

A case is named as `types.connect`, or by its SQL alone as `types`. Without names, all that the server can run.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from pathlib import Path

from headwater.testing.debezium import DOWNLOAD, MARIADB_JARS
from headwater.testing.mysql import MySqlServer
from headwater.testing.mysql_binaries import mysql_binaries
from headwater.testing.postgres import PostgresServer

from .cases import CASES, Case
from .database import Database
from .drive import record_debezium
from .mysql import MySql
from .mysql_cases import MARIADB_CASES, MYSQL_CASES
from .postgres import Postgres
from .recording import Recording, save
from .transform_cases import TRANSFORM_CASES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bindir", help="another PostgreSQL's binaries, for what the PyPI server was built without")
    parser.add_argument("--database", choices=["postgres", "mariadb", "mysql"], default="postgres")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    match arguments.database:
        case "postgres":
            with PostgresServer(arguments.bindir) as server:
                cases = [case for case in (*CASES, *TRANSFORM_CASES) if has_xml(server) or not case.needs_xml]
                record_all(Postgres(server), cases, arguments.cases)
        case "mariadb":
            with MySqlServer() as mariadb:
                record_all(MySql(mariadb), MARIADB_CASES, arguments.cases)
        case "mysql":
            with MySqlServer(mysql_binaries("mysql-8.0")) as mysql:
                record_all(MySql(mysql), MYSQL_CASES, arguments.cases)


def has_xml(server: PostgresServer) -> bool:
    return bool(server.execute("select from pg_config where name = 'CONFIGURE' and setting like '%%libxml%%'"))


def record_all(database: Database, cases: Iterable[Case], names: list[str]) -> None:
    for case in cases:
        if not names or case.name in names or case.sql in names:
            record(database, case)


def record(database: Database, case: Case) -> None:
    directory = Path(tempfile.mkdtemp(prefix=f"headwater-oracle-{case.name}-"))
    events = record_debezium(database, case, directory)
    debezium = str(MARIADB_JARS[0]) if case.database == "mariadb" else DOWNLOAD.split()[0]
    save(
        Recording(case.name, case.properties, {"debezium": debezium, "server": database.version}, tuple(events)),
        case.golden,
    )
    print(f"{case.name:<40} {len(events):>4} events  {case.golden.stat().st_size:>8,} bytes")


if __name__ == "__main__":
    main()
