"""A fresh database per test on the run's MariaDB or MySQL server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

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
