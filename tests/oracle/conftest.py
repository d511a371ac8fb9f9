"""The server that a case is played on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.testing.mysql import MySqlServer
from headwater.testing.mysql_binaries import mysql_binaries

from .cases import Case
from .database import Database
from .mysql import MySql
from .postgres import Postgres


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MySqlServer]:
    with MySqlServer() as server:
        yield server


@pytest.fixture(scope="session")
def mysql_8() -> Iterator[MySqlServer]:
    with MySqlServer(mysql_binaries("mysql-8.0")) as server:
        yield server


@pytest.fixture
def server(case: Case, request: pytest.FixtureRequest) -> Database:
    """What the case wants; skips where this machine's server cannot play it."""
    match case.database:
        case "mariadb":
            return MySql(request.getfixturevalue("mariadb"))
        case "mysql":
            return MySql(request.getfixturevalue("mysql_8"))
    postgres = request.getfixturevalue("postgres")
    if case.needs_xml and not postgres.execute("select from pg_config where setting like '%%with-libxml%%'"):
        pytest.skip("this server is built without libxml")
    return Postgres(postgres)
