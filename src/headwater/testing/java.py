"""A server that runs on Java: a folder of its own, a free port, a log, and the same life as PostgresServer's.

What is started, and when it answers, is for the subclass to say.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
import weakref
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from headwater.errors import Retry, Usage
from headwater.testing.process import ServerProcess

# A broker needs 7 s on a quiet machine; a loaded one may need several times that.
START_SECONDS = 120.0
STOP_SECONDS = 60.0


class JavaServer(ABC):
    """One server on the loopback interface. Its data live in a temporary folder that goes with it."""

    title: str

    def __init__(self) -> None:
        self.port = 0
        self._directory: Path | None = None
        # At most one; a list, because the finalizer must see it without holding `self`.
        self._processes: list[ServerProcess] = []
        self._finalizer: weakref.finalize[Any, Any] | None = None

    @abstractmethod
    def prepare(self) -> list[str]:
        """Choose ports, write settings, and return the command that starts the server."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether it answers."""

    def start(self) -> Self:
        """Start on the same port and data as before, and wait until it answers."""
        if self._processes:
            raise Usage(f"this {self.title} is already running", f"it listens on port {self.port}")
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="headwater-java-"))
            self._finalizer = weakref.finalize(self, _end, self._processes, self._directory)
        process = ServerProcess(
            self.prepare(), log=self.log, env=os.environ, temporary=self._directory, drop_root=False
        )
        self._processes.append(process)
        deadline = time.monotonic() + START_SECONDS
        while not self.ready():
            if not process.alive() or time.monotonic() > deadline:
                self.kill()
                raise Retry(f"{self.title} did not start", cause=self.log_text()[-2000:])
            time.sleep(0.1)
        return self

    def stop(self) -> None:
        """In good order; the data stay."""
        if self._processes:
            self._processes.pop().end(signal.SIGTERM, STOP_SECONDS)

    def kill(self) -> None:
        """SIGKILL; the data stay as they are."""
        if self._processes:
            self._processes.pop().crash()

    def close(self) -> None:
        """End it and remove its folder."""
        if self._finalizer is not None:
            self._finalizer()
            self._directory = self._finalizer = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether its process is alive."""
        return any(process.alive() for process in self._processes)

    @property
    def directory(self) -> Path:
        """Where its data and its log lie."""
        if self._directory is None:
            raise Usage(f"this {self.title} has no folder yet", "call start() first")
        return self._directory

    @property
    def log(self) -> Path:
        """What it prints."""
        return self.directory / "server.log"

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


def _end(processes: list[ServerProcess], directory: Path) -> None:
    while processes:
        # It holds nothing that anybody wants to keep.
        processes.pop().end(signal.SIGKILL, STOP_SECONDS)
    shutil.rmtree(directory, ignore_errors=True)
