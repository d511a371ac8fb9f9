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
from headwater.operate.status import Report, read_report
from headwater.pipeline.definition import read_definition
from headwater.testing.process import Watchdog
from headwater.testing.waiting import wait_until


class PipelineProcess:
    """`headwater run` on one pipeline file, again and again."""

    def __init__(self, directory: Path, definition: Mapping[str, Any], *, spark: bool = True) -> None:
        self.directory = directory
        # Without Spark: the same pipeline in threads (`local_run`), started in a second.
        self._module = "headwater.cli" if spark else "headwater.testing.local_run"
        self._verb = ["run"] if spark else []
        self.state = directory / "state"
        self.lake = directory / "lake"
        self.file = directory / "pipeline.yaml"
        self.log = directory / "run.log"
        sinks = [{"type": "delta", "path": str(self.lake), "mode": "upsert"}]
        whole = {"name": "shop", "sinks": sinks, "state": str(self.state), **definition}
        self.file.write_text(yaml.safe_dump(whole))
        self._journal = str(whole.get("journal") or self.state / "journal")
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: Watchdog | None = None

    @property
    def journal(self) -> Journal:
        return Journal(self._journal)

    def start(self, *arguments: str, failpoints: str = "", **environment: str) -> None:
        """Start in the background; `failpoints` as in `headwater.failpoints`. It ends when this process does."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, *self._verb, str(self.file), *arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, VARIABLE: failpoints, **environment},
                start_new_session=True,
            )
        self._watchdog = Watchdog(self._process.pid, signal.SIGTERM)

    def available_now(self, *, failpoints: str = "", timeout: float = 180) -> int:
        """Run until everything is delivered; the exit status (negative: killed by that signal)."""
        self.start("--available-now", failpoints=failpoints)
        return self.wait(timeout)

    def wait(self, timeout: float = 180) -> int:
        """Until the process ends by itself."""
        assert self._process is not None  # noqa: S101
        try:
            return self._reaped(timeout)
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
            self._reaped(None)

    def _reaped(self, timeout: float | None) -> int:
        """The exit status, once it has ended; then its number may be another's."""
        assert self._process is not None  # noqa: S101
        status = self._process.wait(timeout)
        if self._watchdog is not None:
            self._watchdog.dismiss()
            self._watchdog = None
        return status

    def kill_tail(self) -> bool:
        """kill -9 of the tail, if there is one."""
        return _kill(int(self.journal.status().get("pid", 0)), "headwater.tail")

    def kill_workers(self) -> int:
        """kill -9 of every Python worker of this run's JVM; how many there were."""
        return sum(_kill(pid, "pyspark") for pid in self._descendants() if _command(pid).endswith("pyspark.worker"))

    def kill_jvm(self) -> int:
        """kill -9 of this run's JVM; how many there were."""
        return sum(_kill(pid, "java") for pid in self._descendants() if "org.apache.spark" in _command(pid))

    def close(self) -> None:
        """End everything that this run started, the hard way."""
        below = self._descendants()
        self.kill()
        for pid in below:
            _kill(pid, "")

    def running(self) -> bool:
        if self._process is None:
            return False
        if self._process.poll() is None:
            return True
        self._reaped(None)
        return False

    def report(self) -> Report:
        """How it is, as `headwater status` would say."""
        return read_report(read_definition(self.file))

    def wait_ready(self, timeout: float = 120) -> Report:
        """Until data flows, or the process has ended."""
        wait_until(lambda: not self.running() or self.report().ready, timeout, lambda: str(self.report().reasons))
        return self.report()

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
