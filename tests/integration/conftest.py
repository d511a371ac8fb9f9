"""A fresh database per test on the run's MariaDB or MySQL server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from tests.integration.mysql_source import SetGlobal

from headwater.testing.mysql import MySqlServer

_numbers = itertools.count(1)


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


@pytest.fixture
def global_setting(mysql: MySqlServer) -> Iterator[SetGlobal]:
    """Sets global variables, and sets them back."""
    before: dict[str, str] = {}

    def assign(name: str, value: str) -> None:
        mysql.execute(f"set global {name} = {value if value.isdigit() else repr(value)}")

    def change(name: str, value: str) -> None:
        before.setdefault(name, str(mysql.execute(f"select @@global.{name}")[0][0]))
        assign(name, value)

    yield change
    for name, value in before.items():
        assign(name, value)


@pytest.fixture(params=["FULL", "MINIMAL", "NO_LOG"])
def row_metadata(request: pytest.FixtureRequest, mysql: MySqlServer, global_setting: SetGlobal) -> str:
    """How much the log says about columns: their names, signedness and character sets, nothing (MariaDB's default)."""
    if request.param == "NO_LOG" and not mysql.binaries.mariadb:
        pytest.skip("MySQL always logs some")
    global_setting("binlog_row_metadata", request.param)
    return str(request.param)
