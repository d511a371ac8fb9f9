"""What a test has started ends with it, even when the test is killed."""

from __future__ import annotations

import subprocess
import sys

import psutil

from headwater.testing import wait_until

STARTS = """
import signal, subprocess, sys, time
from headwater.testing.process import Watchdog
started = subprocess.Popen(["sleep", "600"], start_new_session=True)
watchdog = Watchdog(started.pid, signal.SIGTERM)
print(started.pid, flush=True)
time.sleep(600)
"""


def test_a_process_under_the_watchdog_ends_when_its_owner_is_killed():
    with subprocess.Popen([sys.executable, "-c", STARTS], stdout=subprocess.PIPE, text=True) as owner:
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
