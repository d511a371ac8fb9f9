"""A pipeline as its own process, as a user runs it: started, killed, started again, and compared.

For fault tests, ours and our users': `kill` takes the driver, `kill_tail` and `kill_workers` the others.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from headwater.failpoints import VARIABLE
from headwater.journal import Journal
from headwater.testing.waiting import wait_until


class PipelineProcess:
    """`headwater run` on one pipeline file, again and again."""

    def __init__(self, directory: Path, definition: Mapping[str, Any]) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.lake = directory / "lake"
        self.file = directory / "pipeline.yaml"
        self.log = directory / "run.log"
        sinks = [{"type": "delta", "path": str(self.lake), "mode": "upsert"}]
        whole = {"name": "shop", "sinks": sinks, "state": str(self.state), **definition}
        self.file.write_text(yaml.safe_dump(whole))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def journal(self) -> Journal:
        return Journal(self.state / "journal")

    def start(self, *arguments: str, failpoints: str = "") -> None:
        """Start in the background; `failpoints` as in `headwater.failpoints`."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headwater.cli", "run", str(self.file), *arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, VARIABLE: failpoints},
                start_new_session=True,
            )

    def available_now(self, *, failpoints: str = "", timeout: float = 180) -> int:
        """Run until everything is delivered; the exit status (negative: killed by that signal)."""
        self.start("--available-now", failpoints=failpoints)
        return self.wait(timeout)

    def wait(self, timeout: float = 180) -> int:
        """Until the process ends by itself."""
        assert self._process is not None  # noqa: S101
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"the pipeline did not end within {timeout} s:\n{self.output()}") from None

    def stop(self, number: signal.Signals = signal.SIGTERM, timeout: float = 60) -> int:
        """Ask it to finish, as an operator would."""
        assert self._process is not None  # noqa: S101
        self._process.send_signal(number)
        return self.wait(timeout)

    def kill(self) -> None:
        """kill -9 of the driver; its JVM and its tail notice by themselves."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def kill_tail(self) -> bool:
        """kill -9 of the tail, if there is one."""
        return _kill(int(self.journal.status().get("pid", 0)), "headwater.tail")

    def kill_workers(self) -> int:
        """kill -9 of every Python worker of this run's JVM; how many there were."""
        return sum(_kill(pid, "pyspark") for pid in self._descendants() if _command(pid).endswith("pyspark.worker"))

    def close(self) -> None:
        """End everything that this run started, the hard way."""
        below = self._descendants()
        self.kill()
        for pid in below:
            _kill(pid, "")

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait_streaming(self, timeout: float = 120) -> None:
        """Until a sink's position is known and the tail reads."""
        wait_until(
            lambda: not self.running() or any(self.journal.consumer_positions().values()),
            timeout,
            "the pipeline does not stream",
        )

    def wait_for_batch(self, timeout: float = 120) -> None:
        """Until some sink holds more than it does now, or the process has ended."""
        before = self.journal.consumer_positions()
        wait_until(
            lambda: not self.running() or self.journal.consumer_positions() != before,
            timeout,
            "no batch arrives",
        )

    def output(self) -> str:
        """Everything it has printed, over all its runs."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def _descendants(self) -> list[int]:
        """Processes that this run has started, and theirs."""
        if self._process is None:
            return []
        children: dict[int, list[int]] = {}
        for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
            children.setdefault(_parent(pid), []).append(pid)
        found, waiting = [], [self._process.pid]
        while waiting:
            waiting.extend(below := children.get(waiting.pop(), []))
            found.extend(below)
        return found


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return -1


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def _kill(pid: int, word: str) -> bool:
    """kill -9, once we have seen that the process is what we think it is."""
    if pid <= 0 or word not in _command(pid):
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and Path(f"/proc/{pid}").exists() and _command(pid):
        time.sleep(0.01)
    return True
