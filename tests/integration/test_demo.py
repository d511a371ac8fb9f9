"""The demo ends by itself with the verdict "equal", leaves nothing behind, and closes early when asked."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.testing import wait_until

pytestmark = [pytest.mark.server, pytest.mark.spark]

COMMAND = [sys.executable, "-c", "import sys; from headwater.cli import main; sys.exit(main())", "demo"]


def folder_of(output: str) -> Path:
    said = re.search(r"starting PostgreSQL in (\S+)", output)
    assert said, output
    return Path(said.group(1))


def test_a_short_demo_ends_with_lake_and_source_equal() -> None:
    done = subprocess.run([*COMMAND, "--seconds", "10"], capture_output=True, text=True, timeout=280, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "VERDICT: equal" in done.stdout
    assert done.stdout.count("  equal    public.") == 6
    streamed = re.search(r"rows by snapshot, then ([\d,]+) changes in [\d,]+ batches, (\d+) Spark jobs", done.stdout)
    assert streamed
    assert int(streamed.group(2)) >= 1, "the snapshot at least"
    assert int(streamed.group(1).replace(",", "")) > 1000
    # Spark's banners and log lines go to a file.
    assert done.stderr == ""
    assert not folder_of(done.stdout).exists()


@pytest.mark.slow
def test_ctrl_c_closes_the_shop_and_still_compares(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with output.open("w") as file:
        # A group of its own, signalled as a whole, as a terminal does.
        demo = subprocess.Popen([*COMMAND, "--seconds", "600"], stdout=file, stderr=file, start_new_session=True)
    try:
        wait_until(lambda: "changes/s" in output.read_text() or demo.poll() is not None, 200, output.read_text)
        os.killpg(demo.pid, signal.SIGINT)
        assert demo.wait(100) == 0, output.read_text()
    finally:
        if demo.poll() is None:
            demo.kill()
            demo.wait()

    assert "VERDICT: equal" in output.read_text()
    assert not folder_of(output.read_text()).exists()
