"""What a test has started ends with it, even when the test is killed."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from headwater.testing import wait_until

STARTS = """
import pathlib, time
from headwater.testing.process import ServerProcess
server = ServerProcess(["sleep", "600"], log=pathlib.Path("/dev/null"), env={{}}, drop_root={drop_root})
print(server.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("drop_root", [True, False])
def test_a_server_ends_when_its_owner_is_killed(drop_root):
    starts = STARTS.format(drop_root=drop_root)
    with subprocess.Popen([sys.executable, "-c", starts], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        started = psutil.Process(int(owner.stdout.readline()))
        assert started.status() != psutil.STATUS_ZOMBIE
        owner.kill()

    def gone() -> bool:
        try:
            return started.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    wait_until(gone, 20, "the process has ended")
