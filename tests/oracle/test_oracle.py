"""Real Debezium and Headwater on the same database, event by event. Needs the `oracle` extra and Java."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.errors import Usage
from headwater.testing.debezium import jars
from headwater.testing.postgres import PostgresServer

from .cases import CASES, Case
from .compare import LIVE, RECORDED, differences
from .drive import both, record_debezium
from .ours import capture
from .recording import golden_file, load

pytestmark = [pytest.mark.server, pytest.mark.spark]
# One case of each file in the short suite, all in the full one.
SHORT = {"operations.defaults"}


# What is known to differ still; strict, so that whoever closes a gap takes it from this list.
EVERYWHERE = "source.sequence lacks the previous commit, and snapshot rows lack source.txId"
GAPS = {
    "infinities": "NaN in numeric(p,s) stops the decoder before the format is asked",
    "operations": "logical messages and the transaction topic; a key made of a unique index",
    "partitions": "Debezium copies the rows of a partition under the root's name as well",
    "columns": "options that choose, mask and truncate columns",
    "evolution": "the shape of a table that was altered later",
}


def parameters() -> Iterator[object]:
    for case in CASES:
        marks = [] if case.name in SHORT else [pytest.mark.slow]
        marks.append(pytest.mark.xfail(strict=True, reason=GAPS.get(case.sql, EVERYWHERE)))
        yield pytest.param(case, id=case.name, marks=marks)


@pytest.fixture(scope="module", autouse=True)
def debezium_is_installed() -> None:
    try:
        jars()
    except Usage as missing:
        pytest.skip(str(missing))


def skip_without_xml(server: PostgresServer, case: Case) -> None:
    if case.needs_xml and not server.execute("select from pg_config where setting like '%%with-libxml%%'"):
        pytest.skip("this server is built without libxml")


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_recording_is_what_debezium_gives_today(postgres: PostgresServer, case: Case, tmp_path: Path) -> None:
    skip_without_xml(postgres, case)
    events = record_debezium(postgres, case, case.name, tmp_path)
    assert differences(load(golden_file(case)).events, events, RECORDED) == []


@pytest.mark.parametrize("case", list(parameters()))
def test_headwater_gives_what_debezium_gives(postgres: PostgresServer, case: Case, tmp_path: Path) -> None:
    skip_without_xml(postgres, case)
    theirs, ours = both(postgres, case, case.name, tmp_path, capture)
    assert differences(theirs, ours, LIVE) == []
