"""Our events for the recorded cases, from a real server through the real decoder, against Debezium's recordings.

Needs PostgreSQL but no Java; `test_oracle.py` asks Debezium itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.testing.postgres import PostgresServer

from .better import better
from .cases import CASES, Case
from .compare import RECORDED, differences
from .drive import record_headwater
from .recording import golden_file, load
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
}


def parameters() -> Iterator[object]:
    for case in (*CASES, *TRANSFORM_CASES):
        # A table that changes its shape is looked up when its change is met: only live, block by block.
        if not case.paced and not case.needs_xml:
            yield pytest.param(case, id=case.name, marks=[] if case.name in SHORT else [pytest.mark.slow])


@pytest.mark.parametrize("case", list(parameters()))
def test_events_equal_the_recording(postgres: PostgresServer, case: Case) -> None:
    ours = record_headwater(postgres, case, case.name)
    theirs = list(better(case, load(golden_file(case)).events))
    assert differences(theirs, ours, RECORDED) == []
