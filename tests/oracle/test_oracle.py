"""Real Debezium and Headwater on the same database, event by event. Needs the `oracle` extra and Java."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.debezium_records import heartbeat_record
from headwater.testing.debezium import Debezium, DebeziumEvent
from headwater.testing.postgres import PostgresServer

from .better import better
from .cases import CASES, Case
from .compare import LIVE, RECORDED, differences
from .drive import BASE, both, prepared, record_debezium
from .recording import golden_file, load
from .transform_cases import TRANSFORM_CASES

pytestmark = [pytest.mark.server, pytest.mark.spark]
ALL = (*CASES, *TRANSFORM_CASES)
# `make test` asks Debezium for these, `make test-oracle` for all.
SHORT = {"operations.defaults", "operations.transactions", "types.defaults", "outbox.placed"}


def parameters() -> Iterator[object]:
    for case in ALL:
        yield pytest.param(case, id=case.name, marks=[] if case.name in SHORT else [pytest.mark.slow])


def skip_without_xml(server: PostgresServer, case: Case) -> None:
    if case.needs_xml and not server.execute("select from pg_config where setting like '%%with-libxml%%'"):
        pytest.skip("this server is built without libxml")


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_the_recording_is_what_debezium_gives_today(postgres: PostgresServer, case: Case, tmp_path: Path) -> None:
    skip_without_xml(postgres, case)
    events = record_debezium(postgres, case, case.name, tmp_path)
    assert differences(load(golden_file(case)).events, events, RECORDED) == []


@pytest.mark.parametrize("case", list(parameters()))
def test_headwater_gives_what_debezium_gives(postgres: PostgresServer, case: Case, tmp_path: Path) -> None:
    skip_without_xml(postgres, case)
    theirs, ours = both(postgres, case, case.name, tmp_path)
    assert differences(list(better(case, theirs)), ours, LIVE) == []


@pytest.mark.slow
def test_a_heartbeat_is_debezium_s(postgres: PostgresServer, tmp_path: Path) -> None:
    case = Case("snapshot", "heartbeat", {"heartbeat.interval.ms": "200"})
    with (
        prepared(postgres, case, case.name),
        Debezium(postgres.url(case.name), {**BASE, **case.properties}, tmp_path) as debezium,
    ):
        debezium.wait_until(lambda event: event.topic.startswith("__debezium-heartbeat"))
        theirs = next(event for event in debezium.events() if event.topic.startswith("__debezium-heartbeat"))
    ours = heartbeat_record(DebeziumOptions(topic_prefix="srv", schemas_enable=True), 1)
    assert differences([theirs], [DebeziumEvent(ours.topic, ours.key, ours.value)], LIVE) == []
