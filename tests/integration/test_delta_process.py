"""What delta-rs leaves running does not keep a process from its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

LOOKS = """
import sys
from headwater.sinks.delta.place import Folder
from headwater.sinks.delta.read import read_table
held = read_table(Folder(sys.argv[1], {}))
"""


def test_a_table_that_was_looked_at_and_not_read_lets_the_process_end(tmp_path: Path) -> None:
    for number in range(20):
        rows = pa.table({"id": list(range(number * 1000, number * 1000 + 1000))})
        write_deltalake(str(tmp_path / "t"), rows, mode="append")

    ended = subprocess.run(
        [sys.executable, "-c", LOOKS, str(tmp_path / "t")], capture_output=True, check=False, timeout=60
    )

    assert (ended.returncode, ended.stderr) == (0, b"")
