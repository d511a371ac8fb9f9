"""The life of a test server: a folder, a free loopback port, a log, and an end with this process.

What is started, and when it counts as ready, is for a subclass to say.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from headwater.errors import Retry, Usage
from headwater.testing.process import ServerProcess, free_port, give_away, remove_folder

STOP_SECONDS = 60.0


class Server(ABC):
    """One server with a folder of its own: `directory` (used again when it holds data), or a temporary one, which goes
    with the server."""

    title: ClassVar[str]
    # A crashed server recovers before it is ready: seconds on a slow disk, never a minute in our tests.
    start_seconds: ClassVar[float] = 60.0
    # What its log says when somebody else took the port first.
    port_taken: ClassVar[str] = "Address already in use"
    # How it ends when nobody wants its data any more.
    last_signal: ClassVar[signal.Signals] = signal.SIGKILL
    # Databases refuse to be root; what runs from a closed cache folder has to be.
    drops_root: ClassVar[bool] = True

    def __init__(self, directory: str | Path | None = None) -> None:
        self.port = 0
        self._given = Path(directory).absolute() if directory else None
        self._directory: Path | None = None
        # At most one; a list, because the finalizer must see it without holding `self`.
        self._processes: list[ServerProcess] = []
        self._finalizer: weakref.finalize[Any, Any] | None = None

    # -- for a subclass to say ---------------------------------------------------------------------

    @abstractmethod
    def prepare(self) -> None:
        """Make what is not there yet of its data. Called before every start."""

    @abstractmethod
    def command(self) -> Sequence[str]:
        """What starts it on `port`."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether it answers."""

    def environment(self) -> Mapping[str, str]:
        return os.environ

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start, on the same port and data as before, and wait until it answers."""
        if self._processes:
            raise Usage(f"this {self.title} is already running", f"it listens on port {self.port}")
        if self._directory is None:
            self._directory = self._make_directory()
        self.prepare()
        chosen = bool(self.port)
        for _ in range(5):
            self.port = self.port or free_port()
            if self._launch(may_lose=not chosen):
                return self
            self.port = 0
        raise Retry(f"{self.title} lost the race for a free port five times", cause=self.log_text()[-2000:])

    def stop(self) -> None:
        """In good order; the data stay."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the server and all its children at once; the data stay as they are."""
        if self._processes:
            self._processes[0].crash()
            self._processes.clear()

    def restart(self) -> None:
        """Stop and start on the same port, with the settings as they are now."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop, and remove the folder if it was a temporary one."""
        if self._finalizer is not None:
            self._finalizer()
            self._directory = self._finalizer = None

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether its process is alive."""
        return any(process.alive() for process in self._processes)

    @property
    def pid(self) -> int:
        """The server's process id."""
        if not self._processes:
            raise Usage(f"this {self.title} is not running", "call start() first")
        return self._processes[0].pid

    @property
    def directory(self) -> Path:
        """The folder that holds data and log."""
        if self._directory is None:
            raise Usage(f"this {self.title} has no folder yet", "call start() first")
        return self._directory

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.directory / "data"

    @property
    def log(self) -> Path:
        """What it prints."""
        return self.directory / "server.log"

    def log_text(self) -> str:
        """Everything it has printed, over all its starts."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    # -- inside ------------------------------------------------------------------------------------

    def _end(self, how: signal.Signals) -> None:
        if self._processes:
            self._processes[0].end(how, STOP_SECONDS)
            self._processes.clear()

    def _make_directory(self) -> Path:
        if self._given is None:
            # /tmp and not $TMPDIR: when we are root the server's user must be able to walk there.
            kind = type(self).__name__.removesuffix("Server").lower()
            directory = Path(tempfile.mkdtemp(prefix=f"headwater-{kind}-", dir="/tmp"))
        else:
            directory = self._given
            directory.mkdir(parents=True, exist_ok=True)
        if self.drops_root:
            give_away(directory)
        temporary = None if self._given else directory
        self._finalizer = weakref.finalize(self, _forget, self._processes, self.last_signal, temporary)
        return directory

    def _launch(self, *, may_lose: bool) -> bool:
        """Start the process; False when another one took the port first."""
        logged = len(self.log_text())
        process = ServerProcess(
            self.command(),
            log=self.log,
            env=self.environment(),
            temporary=None if self._given else self.directory,
            last_signal=self.last_signal,
            drop_root=self.drops_root,
        )
        self._processes.append(process)
        deadline = time.monotonic() + self.start_seconds
        while not self.ready():
            ended = not process.alive()
            if ended or time.monotonic() > deadline:
                self._end(self.last_signal)
                said = self.log_text()[logged:]
                if ended and may_lose and self.port_taken in said:
                    return False
                what = "did not start" if ended else f"was not ready after {self.start_seconds:g} s"
                raise Retry(f"{self.title} {what}", cause=said.strip()[-2000:])
            time.sleep(0.02)
        return True


def _forget(processes: list[ServerProcess], how: signal.Signals, temporary: Path | None) -> None:
    """What is left to do when a server object is closed or forgotten, or Python ends."""
    while processes:
        processes.pop().end(how, STOP_SECONDS)
    if temporary is not None:
        remove_folder(temporary)
