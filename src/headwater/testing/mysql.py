"""A real MariaDB or MySQL server for tests and benchmarks, started from plain binaries.

It listens on a free loopback port, writes a row-based binlog with full metadata, does not sync to disk, and ends
with this process. `root` has no password.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pymysql

from headwater.errors import Retry
from headwater.testing.mysql_binaries import Binaries, mysql_binaries
from headwater.testing.process import remove_folder, unprivileged
from headwater.testing.server import Server

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


class MySqlServer(Server):
    """One server with a data folder of its own.

    `settings` are options of the server program; they go over SETTINGS and are read at every start."""

    title = "MySQL server"

    def __init__(self, binaries: Binaries | None = None, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.binaries = binaries or mysql_binaries()
        flavour = MARIADB_SETTINGS if self.binaries.mariadb else MYSQL_SETTINGS
        self.settings = {**SETTINGS, **flavour, **(settings or {})}

    # -- life --------------------------------------------------------------------------------------

    def prepare(self) -> None:
        if not self.data.exists():
            self._initialize()

    def command(self) -> list[str]:
        command = [self._program(), "--no-defaults", f"--basedir={self._base()}", f"--datadir={self.data}"]
        command += [f"--port={self.port}", f"--socket={self.directory}/socket", f"--pid-file={self.directory}/pid"]
        command += [f"--log-bin={self.data}/binlog"]
        return command + [f"--{name}={value}" for name, value in self.settings.items()]

    def environment(self) -> dict[str, str]:
        own = self.directory / "lib"
        libraries = sorted(own.iterdir()) if own.exists() else self.binaries.libraries
        return {
            "PATH": os.environ.get("PATH", ""),
            "LC_ALL": "C",
            "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
            # A server that starts removes what others have there of temporary tables.
            "TMPDIR": str(self.directory),
        }

    def ready(self) -> bool:
        try:
            pymysql.connect(host="127.0.0.1", port=self.port, user="root", connect_timeout=5).close()
        except (pymysql.Error, OSError):
            return False
        return True

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

    # -- inside ------------------------------------------------------------------------------------

    def _base(self) -> Path:
        """The installation; copied beside the data when it lies where the server's user cannot go."""
        copied = self.directory / "install"
        if copied.exists():
            return copied
        if runnable_with(self.binaries.program, self.environment()):
            return self.binaries.base
        shutil.copytree(self.binaries.base, copied, symlinks=True)
        for number, library in enumerate(self.binaries.libraries):
            shutil.copytree(library, self.directory / "lib" / str(number), symlinks=True)
        return copied

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
            env=self.environment(),
            check=False,
            **unprivileged(),
        )
        if done.returncode:
            remove_folder(self.data)
            raise Retry(f"the server's data folder could not be made in {self.directory}", cause=done.stdout[-2000:])


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
