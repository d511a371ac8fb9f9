"""One transaction of millions of rows: it passes through the tail without the tail growing."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from tests.conftest import Database
from tests.integration.postgres_source import make_source

from headwater.event import ORIGIN
from headwater.journal import Journal, JournalReader, Limits
from headwater.tail import TailProcess, tail_state
from headwater.testing import wait_until

pytestmark = [pytest.mark.server, pytest.mark.slow]

ROWS = int(os.environ.get("HEADWATER_GIANT_ROWS", "5000000"))
FILL = "insert into t select n, md5(n::text), n * 1.5 from generate_series(%s::bigint, %s::bigint) n"


def peak_megabytes(pid: int) -> float:
    """The most memory that a process has ever had resident."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    assert found
    return int(found[1]) / 1024


def test_a_giant_transaction_passes_in_constant_memory(database: Database, tmp_path: Path):
    if shutil.disk_usage(tmp_path).free < ROWS * 500:
        pytest.skip("not enough disk for so many rows")
    database.execute("create table t (id bigint primary key, a text, b numeric(20, 2))")
    source = make_source(database)
    begin = source.prepare(None)
    source.close()
    journal = Journal(tmp_path / "journal")
    journal.create(source.type, source.identity(), source.facts())
    journal.set_begin(begin)
    tail = TailProcess(journal, tmp_path, source.type, source.options, Limits(40 << 30))
    tail.ensure()
    pid = tail.pid
    assert pid is not None
    seen: dict[str, float] = {"open": 0, "spilled": 0}

    def delivered(changes: int) -> bool:
        tail.ensure()
        status = tail_state(journal)
        seen["open"] = max(seen["open"], status.get("open_transactions", 0))
        seen["spilled"] = max(seen["spilled"], status.get("spilled_bytes", 0))
        return status.get("changes", 0) >= changes

    try:
        with database.connect() as connection, connection.transaction():
            connection.execute(FILL, [1, ROWS // 2])
            connection.execute("savepoint s")
            connection.execute(FILL, [ROWS // 2 + 1, ROWS // 2 + ROWS // 10])
            connection.execute("rollback to s")
            connection.execute(FILL, [ROWS + 1, ROWS + ROWS // 2])
        wait_until(lambda: delivered(ROWS // 2 * 2), 1800, "the transaction is in the journal")
        peak = peak_megabytes(pid)
        print(f"{ROWS:,} rows: tail's peak {peak:.0f} MB, spilled {seen['spilled'] / 1e6:.0f} MB")
        assert peak < 512
        assert seen["open"] == 1
        assert seen["spilled"] > ROWS * 20
        assert not tail_state(journal).get("spilled_bytes")
    finally:
        tail.stop()
    index = JournalReader(journal)
    index.refresh()
    blocks = index.between(ORIGIN, index.end)
    assert sum(block.header.changes for block in blocks) == ROWS // 2 * 2
    assert len({block.header.last.commit for block in blocks}) == 1
