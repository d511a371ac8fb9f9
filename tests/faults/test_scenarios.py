"""Every scenario of `scenarios.py`, ended by its rule. `make test` plays the quick ones, `make faults` all."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.conftest import Database
from tests.faults.scenarios import PARAMETERS, Scenario
from tests.faults.stage import ROLE, SECRET, Stage

from headwater.testing import PostgresServer
from headwater.testing.proxy import TcpProxy

pytestmark = [pytest.mark.fault, pytest.mark.server, pytest.mark.timeout(600)]

SEED = int(os.environ.get("HEADWATER_FAULT_SEED", "20261115"))


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of their own, which they may restart, kill and reconfigure; it asks for passwords."""
    settings = {"wal_sender_timeout": "20s", "max_wal_size": "64MB"}
    with PostgresServer(settings=settings, password="superuser") as server:
        server.execute(f"create role {ROLE} login replication password '{SECRET}'")
        yield server


@pytest.fixture
def stage(server: PostgresServer, request: pytest.FixtureRequest, tmp_path) -> Iterator[Stage]:
    database = Database(server, f"fault_{request.node.callspec.params['scenario'].name}"[:60])
    server.create_database(database.name)
    with TcpProxy(server.port) as proxy:
        made = Stage(database, proxy, tmp_path, SEED)
        yield made
        made.close()
    if not server.running:
        server.start()
    database.drop()


@pytest.mark.parametrize("scenario", PARAMETERS)
def test_scenario(stage: Stage, scenario: Scenario):
    stage.set_up()
    with stage.watching_the_slot(), stage.writing():
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
