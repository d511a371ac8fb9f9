"""Real Debezium and Headwater on the same database, event by event. Needs the `oracle` extra and Java."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.debezium_records import heartbeat_record
from headwater.testing.debezium import DebeziumEvent
from headwater.testing.postgres import PostgresServer

from .better import better
from .cases import CASES, Case
from .compare import LIVE, RECORDED, differences
from .database import Database
from .drive import both, debezium, record_debezium
from .mysql_cases import MARIADB_CASES, MYSQL_CASES
from .postgres import Postgres
from .recording import load
from .transform_cases import TRANSFORM_CASES

pytestmark = [pytest.mark.server, pytest.mark.spark]
ALL = (*CASES, *TRANSFORM_CASES, *MARIADB_CASES, *MYSQL_CASES)
# `make test` asks Debezium for these on PostgreSQL, `make test-oracle` for all.
SHORT = {"operations.transactions", "types.defaults"}


def parameters() -> Iterator[object]:
    for case in ALL:
        short = case.database == "postgres" and case.name in SHORT
        yield pytest.param(case, id=case.id, marks=[] if short else [pytest.mark.slow])


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL, ids=lambda case: case.id)
def test_the_recording_is_what_debezium_gives_today(server: Database, case: Case, tmp_path: Path) -> None:
    events = record_debezium(server, case, tmp_path)
    assert differences(load(case.golden).events, events, RECORDED) == []


@pytest.mark.parametrize("case", list(parameters()))
def test_headwater_gives_what_debezium_gives(server: Database, case: Case, tmp_path: Path) -> None:
    theirs, ours = both(server, case, tmp_path)
    assert differences(list(better(case, theirs)), ours, LIVE) == []


@pytest.mark.slow
def test_a_heartbeat_is_debezium_s(postgres: PostgresServer, tmp_path: Path) -> None:
    case = Case("snapshot", "heartbeat", {"heartbeat.interval.ms": "200"})
    server = Postgres(postgres)
    with server.prepared(case, case.name), debezium(server, case, tmp_path) as engine:
        engine.wait_until(lambda event: event.topic.startswith("__debezium-heartbeat"))
        theirs = next(event for event in engine.events() if event.topic.startswith("__debezium-heartbeat"))
    ours = heartbeat_record(DebeziumOptions(topic_prefix="srv", schemas_enable=True), 1)
    assert differences([theirs], [DebeziumEvent(ours.topic, ours.key, ours.value)], LIVE) == []
