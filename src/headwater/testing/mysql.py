"""A real MariaDB or MySQL server for tests and benchmarks, started from plain binaries.

It listens on a free loopback port, writes a row-based binlog with full metadata, does not sync to disk, and ends
with this process. `root` has no password.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import pymysql

from headwater.errors import Retry, Usage
from headwater.testing.mysql_binaries import Binaries, mysql_binaries
from headwater.testing.process import ServerProcess, free_port, give_away, remove_folder, unprivileged

SETTINGS = {
    "server-id": "1",
    "bind-address": "127.0.0.1",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "binlog-row-metadata": "FULL",
    "log-slave-updates": "ON",
    "innodb-flush-log-at-trx-commit": "2",
    "innodb-buffer-pool-size": "64M",
    "sync-binlog": "0",
    "max-allowed-packet": "256M",
    "default-time-zone": "+00:00",
    "character-set-server": "utf8mb4",
}
MARIADB_SETTINGS = {"gtid-strict-mode": "ON", "plugin-maturity": "unknown", "skip-name-resolve": "ON"}
# Without skip-name-resolve: 127.0.0.1 is `localhost` then, the only place from where MySQL's root may come.
MYSQL_SETTINGS = {"gtid-mode": "ON", "enforce-gtid-consistency": "ON", "mysqlx": "OFF"}
# A crashed server recovers before it is ready: seconds on a slow disk, never a minute in our tests.
START_SECONDS = 60.0
STOP_SECONDS = 60.0


class MySqlServer:
    """One server with a data folder of its own.

    `settings` are options of the server program; they go over SETTINGS and are read at every start."""

    def __init__(self, binaries: Binaries | None = None, settings: Mapping[str, str] | None = None) -> None:
        self.binaries = binaries or mysql_binaries()
        flavour = MARIADB_SETTINGS if self.binaries.mariadb else MYSQL_SETTINGS
        self.settings = {**SETTINGS, **flavour, **(settings or {})}
        self.port = 0
        self._directory: Path | None = None
        self._processes: list[ServerProcess] = []
        self._finalizer: weakref.finalize[Any, Any] | None = None

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start, with an empty data folder at the first time, and wait until it takes connections."""
        if self._processes:
            raise Usage("this server is already running", f"it listens on port {self.port}")
        if self._directory is None:
            self._directory = self._make_directory()
        if not self.data.exists():
            self._initialize()
        for _ in range(5):
            port = self.port or free_port()
            if self._launch(port):
                self.port = port
                return self
        raise Retry("the server lost the race for a free port five times", cause=self.log_text()[-2000:])

    def stop(self) -> None:
        """End in good order."""
        if self._processes:
            self._processes[0].end(signal.SIGTERM, STOP_SECONDS)
            self._processes.clear()

    def kill(self) -> None:
        """SIGKILL. `start` recovers."""
        if self._processes:
            self._processes[0].crash()
            self._processes.clear()

    def restart(self) -> None:
        """Stop and start on the same port, with the settings as they are now."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop, and remove the folder."""
        if self._finalizer is not None:
            self._finalizer()
            self._directory = self._finalizer = None

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether the server process is alive."""
        return any(process.alive() for process in self._processes)

    # -- use ---------------------------------------------------------------------------------------

    def url(self, database: str = "", user: str = "root", password: str = "") -> str:
        """A connection URL."""
        who = quote(user, safe="") + (":" + quote(password, safe="") if password else "")
        return f"mysql://{who}@127.0.0.1:{self.port}/{quote(database, safe='')}"

    def connect(self, database: str = "") -> pymysql.connections.Connection[Any]:
        """A new connection of root, in autocommit mode."""
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            database=database or None,
            autocommit=True,
            charset="utf8mb4",
            local_infile=False,
            connect_timeout=10,
        )

    def execute(self, *statements: str, database: str = "") -> list[tuple[Any, ...]]:
        """Run statements on a connection of their own; the last one's rows."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def log_text(self) -> str:
        """Everything the server has logged, over all its starts."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def directory(self) -> Path:
        """The folder that holds data and log."""
        if self._directory is None:
            raise Usage("this server has no folder yet", "call start() first")
        return self._directory

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log(self) -> Path:
        return self.directory / "server.log"

    # -- inside ------------------------------------------------------------------------------------

    def _make_directory(self) -> Path:
        # /tmp and not $TMPDIR: when we are root the server's user must be able to walk there.
        directory = Path(tempfile.mkdtemp(prefix="headwater-mysql-", dir="/tmp"))
        give_away(directory)
        self._finalizer = weakref.finalize(self, _end, self._processes, directory)
        return directory

    def _base(self) -> Path:
        """The installation; copied beside the data when it lies where the server's user cannot go."""
        copied = self.directory / "install"
        if copied.exists():
            return copied
        if runnable_with(self.binaries.program, self._environment()):
            return self.binaries.base
        shutil.copytree(self.binaries.base, copied, symlinks=True)
        for number, library in enumerate(self.binaries.libraries):
            shutil.copytree(library, self.directory / "lib" / str(number), symlinks=True)
        return copied

    def _environment(self) -> dict[str, str]:
        own = self._directory / "lib" if self._directory else None
        copied = own is not None and own.exists()
        libraries = sorted(own.iterdir()) if own is not None and copied else self.binaries.libraries
        return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "LD_LIBRARY_PATH": ":".join(map(str, libraries))}

    def _program(self) -> str:
        return str(self._base() / self.binaries.program.relative_to(self.binaries.base))

    def _initialize(self) -> None:
        base = self._base()
        if self.binaries.mariadb:
            script = next(path for path in base.rglob("*install-db") if path.parent.name in ("bin", "scripts"))
            command = [str(script), "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]
        else:
            command = [self._program(), "--no-defaults", "--initialize-insecure"]
        done = subprocess.run(
            [*command, f"--basedir={base}", f"--datadir={self.data}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd="/",
            env=self._environment(),
            check=False,
            **unprivileged(),
        )
        if done.returncode:
            remove_folder(self.data)
            raise Retry(f"the server's data folder could not be made in {self.directory}", cause=done.stdout[-2000:])

    def _launch(self, port: int) -> bool:
        """Start the server; False when another process took the port first."""
        command = [self._program(), "--no-defaults", f"--basedir={self._base()}", f"--datadir={self.data}"]
        command += [f"--port={port}", f"--socket={self.directory}/socket", f"--pid-file={self.directory}/pid"]
        command += [f"--log-bin={self.data}/binlog"]
        command += [f"--{name}={value}" for name, value in self.settings.items()]
        logged = len(self.log_text())
        process = ServerProcess(
            command,
            log=self.log,
            env=self._environment(),
            temporary=self.directory,
            last_signal=signal.SIGKILL,
        )
        deadline = time.monotonic() + START_SECONDS
        while not self._ready(port):
            log = self.log_text()[logged:]
            if not process.alive():
                process.end(signal.SIGKILL, STOP_SECONDS)
                if "Address already in use" in log and not self.port:
                    return False
                raise Retry("the server did not start", cause=log.strip()[-2000:])
            if time.monotonic() > deadline:
                process.end(signal.SIGKILL, STOP_SECONDS)
                raise Retry(f"the server was not ready after {START_SECONDS:g} s", cause=log.strip()[-2000:])
            time.sleep(0.02)
        self._processes.append(process)
        return True

    def _ready(self, port: int) -> bool:
        try:
            pymysql.connect(host="127.0.0.1", port=port, user="root", connect_timeout=5).close()
        except (pymysql.Error, OSError):
            return False
        return True


def runnable_with(program: Path, environment: Mapping[str, str]) -> bool:
    """As `process.runnable`, with the libraries that the program needs."""
    try:
        done = subprocess.run(
            [program, "--no-defaults", "--version"],
            capture_output=True,
            cwd="/",
            env=environment,
            check=False,
            **unprivileged(),
        )
    except PermissionError:
        return False
    return done.returncode == 0


def _end(processes: list[ServerProcess], temporary: Path) -> None:
    """What is left to do when a server object is closed or forgotten, or Python ends."""
    while processes:
        processes.pop().end(signal.SIGKILL, STOP_SECONDS)
    remove_folder(temporary)
