"""Every scenario, ended by its rule, on PostgreSQL and MariaDB. `make test` plays the quick ones, `make faults` all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from tests.conftest import Database
from tests.faults.mysql_scenarios import MYSQL
from tests.faults.mysql_stage import SETTINGS, MySqlStage
from tests.faults.postgres_scenarios import POSTGRES
from tests.faults.postgres_stage import PostgresStage
from tests.faults.scenarios import EVERYWHERE, Scenario
from tests.faults.stage import ROLE, SECRET, Stage

from headwater.testing import PostgresServer
from headwater.testing.mysql import MySqlServer
from headwater.testing.mysql_binaries import mysql_binaries
from headwater.testing.proxy import TcpProxy

pytestmark = [pytest.mark.fault, pytest.mark.server, pytest.mark.timeout(600)]

SEED = int(os.environ.get("HEADWATER_FAULT_SEED", "20261115"))
# What can go differently with a binlog; the rest is the same code, and played on PostgreSQL.
ALSO_ON_MYSQL = {
    "killed_at_failpoints",
    "killed_at_the_other_failpoints",
    "tail_and_driver_killed_at_random",
    "server_killed_and_started",
    "server_killed_again_and_again",
    "network_cut_and_flapping",
    "network_gone_for_a_while",
    "half_open_for_thirty_seconds",
    "two_seconds_of_latency",
}
QUICK_ON_MYSQL = {"killed_at_failpoints"}


def parameters(scenarios: Iterable[Scenario], quick: set[str]) -> list[Any]:
    return [
        pytest.param(each, id=each.name, marks=[] if each.name in quick else [pytest.mark.slow]) for each in scenarios
    ]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of their own, which they may restart, kill and reconfigure; it asks for passwords."""
    settings = {"wal_sender_timeout": "20s", "max_wal_size": "64MB"}
    with PostgresServer(settings=settings, password="superuser") as server:
        server.execute(f"create role {ROLE} login replication password '{SECRET}'")
        yield server


@pytest.fixture
def stage(server: PostgresServer, request: pytest.FixtureRequest, tmp_path) -> Iterator[PostgresStage]:
    database = Database(server, f"fault_{request.node.callspec.params['scenario'].name}"[:60])
    server.create_database(database.name)
    with TcpProxy(server.port) as proxy:
        made = PostgresStage(database, proxy, tmp_path, SEED)
        yield made
        made.close()
    if not server.running:
        server.start()
    database.drop()


@pytest.fixture
def mysql_stage(tmp_path) -> Iterator[MySqlStage]:
    """With a server of its own, which starts in a second: failed over, purged, reset."""
    version = os.environ.get("HEADWATER_TEST_MYSQL")
    binaries = mysql_binaries(version) if version else None
    with MySqlServer(binaries, settings=SETTINGS) as server, TcpProxy(server.port) as proxy:
        made = MySqlStage(server, proxy, tmp_path, SEED)
        yield made
        made.close()


@pytest.mark.parametrize(
    "scenario", parameters((*EVERYWHERE, *POSTGRES), {each.name for each in (*EVERYWHERE, *POSTGRES) if not each.slow})
)
def test_scenario(stage: PostgresStage, scenario: Scenario):
    play(stage, scenario)


@pytest.mark.parametrize(
    "scenario",
    parameters(
        (*(each for each in EVERYWHERE if each.name in ALSO_ON_MYSQL), *MYSQL),
        QUICK_ON_MYSQL | {each.name for each in MYSQL if not each.slow},
    ),
)
def test_mysql_scenario(mysql_stage: MySqlStage, scenario: Scenario):
    play(mysql_stage, scenario)


def play(stage: Stage, scenario: Scenario) -> None:
    stage.set_up()
    with stage.watching(), stage.writing():
        if not scenario.cold:
            stage.pipeline.start()
            assert stage.pipeline.wait_ready().ready, stage.pipeline.output()
            stage.batches(1)
        scenario.fault(stage)
        if scenario.says:
            held = None
            if not stage.pipeline.running():
                held = stage.positions_or_none()
                stage.pipeline.start()
            stage.require_stop(scenario.says, scenario.status, held)
            scenario.remedy(stage)
        if not stage.pipeline.running():
            stage.pipeline.start()
        stage.batches(1)
    stage.require_equal()
