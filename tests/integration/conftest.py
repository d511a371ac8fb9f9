"""One MariaDB or MySQL server per run, a fresh database on it per test."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from headwater.testing.mysql import MySqlServer
from headwater.testing.mysql_binaries import mysql_binaries

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def mysql() -> Iterator[MySqlServer]:
    """One MariaDB for the run. HEADWATER_TEST_MYSQL=mysql-8.0 or mariadb-11.4 picks another (`make test-mysql`)."""
    version = os.environ.get("HEADWATER_TEST_MYSQL")
    with MySqlServer(mysql_binaries(version) if version else None) as server:
        yield server


@pytest.fixture
def schema(mysql: MySqlServer) -> Iterator[str]:
    """A fresh database on the shared server, by name."""
    name = f"test_{next(_numbers)}"
    mysql.execute(f"create database {name}")
    yield name
    if not mysql.running:
        mysql.stop()
        mysql.start()
    mysql.execute(f"drop database {name}")
