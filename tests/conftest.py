"""What all tests share: one server of each database and one Spark session per run, a fresh database per test.

Tests run from quick to slow (unit, server, spark, fault), so that a broken build says so early, and in two processes
(`make test`), because most of them wait for a server half of the time.
"""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import settings
from psycopg import sql

from headwater.testing import PostgresServer
from headwater.testing.binaries import postgres_binaries
from headwater.testing.mysql import MySqlServer
from headwater.testing.mysql_binaries import mysql_binaries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Machines differ, so no deadline. Fewer examples than Hypothesis's hundred: they are other ones in every run.
settings.register_profile("headwater", max_examples=40, deadline=None)
settings.load_profile("headwater")

SLOWNESS = ("server", "spark", "fault", "slow")
# Fixtures of what is costly to start: all tests with one of them run in the same process, and it is started once.
COSTLY = {
    "spark": "spark",
    "in_spark": "spark with jars",
    "kafka": "kafka",
    "broker": "kafka",
    "relay": "kafka",
    "target": "kafka",
    "place": "kafka",
    "s3": "s3",
    "mysql": "mysql",
    "origin": "mysql",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Quick tests first; within one kind the order of the files stays."""
    items.sort(key=lambda item: max((1 + SLOWNESS.index(m) for m in SLOWNESS if item.get_closest_marker(m)), default=0))
    for item in items:
        if group := costly(item):
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish() -> None:
    """What is loaded by now stays for the whole run: the collector need not walk through it again and again."""
    gc.collect()
    gc.freeze()


def costly(item: pytest.Item) -> str | None:
    origin = getattr(item, "callspec", None) and item.callspec.params.get("origin")  # type: ignore[attr-defined]
    if origin is not None and "kafka" in origin.fixture:
        return "kafka"
    return next((group for fixture, group in COSTLY.items() if fixture in getattr(item, "fixturenames", ())), None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the run. HEADWATER_TEST_POSTGRES=14 … 18 picks its version (`make test-matrix`)."""
    version = os.environ.get("HEADWATER_TEST_POSTGRES")
    with PostgresServer(bindir=postgres_binaries(int(version)) if version else None) as server:
        yield server


@dataclass(frozen=True)
class Database:
    """A database that one test has for itself."""

    server: PostgresServer
    name: str

    @property
    def url(self) -> str:
        return self.server.url(self.name)

    @property
    def slot(self) -> str:
        """A slot name that no other test has: slots belong to the server."""
        return f"headwater_{self.name}"

    def execute(self, statement: str | sql.Composable, *params: Any) -> list[tuple[Any, ...]]:
        """The rows of the last statement."""
        return self.server.execute(statement, *params, database=self.name)

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """A new connection in autocommit mode."""
        return self.server.connect(self.name)

    def drop(self) -> None:
        self.server.drop_database(self.name)


_numbers = itertools.count(1)


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[Database]:
    """A fresh database; its replication slots and itself are dropped at the end."""
    made = Database(postgres, f"test_{next(_numbers)}")
    postgres.create_database(made.name)
    yield made
    if not postgres.running:
        postgres.stop("immediate")
        postgres.start()
    made.drop()


@pytest.fixture(scope="session")
def mysql() -> Iterator[MySqlServer]:
    """One MariaDB for the run. HEADWATER_TEST_MYSQL=mysql-8.0 or mariadb-11.4 picks another (`make test-mysql`)."""
    version = os.environ.get("HEADWATER_TEST_MYSQL")
    with MySqlServer(mysql_binaries(version) if version else None) as server:
        yield server


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local session for the run, as the product starts it: two cores, one shuffle partition, quiet."""
    from headwater.spark.session import start_session

    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.master": "local[2]",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "1",
    }
    session = start_session("tests", settings, folder / "spark.log")
    yield session
    session.stop()
