"""Our events for the recorded cases, from a real server through the real decoder, against Debezium's recordings.

Needs the servers but no Java; `test_oracle.py` asks Debezium itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .better import better
from .cases import CASES, Case
from .compare import RECORDED, differences
from .database import Database
from .drive import record_headwater
from .mysql_cases import MARIADB_CASES, MYSQL_CASES
from .recording import load
from .transform_cases import TRANSFORM_CASES

pytestmark = pytest.mark.server

SHORT = {
    "types.defaults",
    "types.connect",
    "operations.transactions",
    "infinities.isostring",
    "columns.masked",
    "columns.keyed",
    "outbox.placed",
    "outbox.expanded",
    "flatten.rewritten_kept",
    "flatten.inserted",
    "shards.named",
    *(
        f"mariadb-{name}"
        for name in ("types.defaults", "types.connect", "operations.transactions", "defaults.defaults")
    ),
}


def parameters() -> Iterator[object]:
    for case in (*CASES, *TRANSFORM_CASES, *MARIADB_CASES, *MYSQL_CASES):
        # A table that changes its shape is looked up when its change is met: only live, block by block.
        if not case.paced and not case.needs_xml:
            yield pytest.param(case, id=case.id, marks=[] if case.id in SHORT else [pytest.mark.slow])


@pytest.mark.parametrize("case", list(parameters()))
def test_events_equal_the_recording(server: Database, case: Case) -> None:
    ours = record_headwater(server, case)
    theirs = list(better(case, load(case.golden).events))
    assert differences(theirs, ours, RECORDED) == []
