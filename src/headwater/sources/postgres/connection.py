"""Connections: ordinary SQL ones by psycopg, replication ones by libpq itself.

Every session gets the same text settings, so that a value has one text form in snapshot and stream.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq.abc import PGconn, PGresult

from headwater.errors import HeadwaterError, Retry, Usage
from headwater.sources.postgres.options import PostgresOptions

# The text form of every value depends on these. pgoutput runs in our replication session, so it obeys too.
SESSION_SETTINGS = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "search_path": "pg_catalog",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "0",
}


class Unreachable(Retry):
    """Nobody answers at that address, for now."""


class Refused(Usage):
    """The server answered and refused: password, role, database."""


def conninfo(options: PostgresOptions, **extra: str) -> str:
    """libpq's connection string for the options; contains the password, so it is never printed."""
    try:
        parts: dict[str, Any] = conninfo_to_dict(options.url.reveal()) if options.url else {}
    except psycopg.ProgrammingError as error:
        raise Usage("source.url is not a PostgreSQL URL", "Write it as postgresql://user@host:5432/database") from error
    given = {
        "host": options.host,
        "port": options.port,
        "user": options.user,
        "password": options.password.reveal(),
        "dbname": options.database,
        "sslmode": options.sslmode,
        "sslrootcert": options.sslrootcert,
        "sslcert": options.sslcert,
        "sslkey": options.sslkey,
    }
    parts.update({key: value for key, value in given.items() if value})
    parts.setdefault("application_name", "headwater")
    parts.setdefault("connect_timeout", "10")
    settings = " ".join(f"-c {key}={value}" for key, value in SESSION_SETTINGS.items())
    return make_conninfo(**{**parts, "options": settings, **extra})


def address(options: PostgresOptions) -> str:
    """Where we connect to, for people: no password in it."""
    parts = conninfo_to_dict(conninfo(options))
    return f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"


@contextmanager
def connect(options: PostgresOptions) -> Iterator[psycopg.Connection[Any]]:
    """An ordinary SQL session in autocommit."""
    try:
        connection = psycopg.connect(conninfo(options), autocommit=True)
    except psycopg.OperationalError as error:
        raise connection_error(options, str(error)) from None
    with connection:
        yield connection


def connect_replication(options: PostgresOptions) -> PGconn:
    """A libpq connection in replication mode, for START_REPLICATION and exported snapshots."""
    pgconn = pq.PGconn.connect(conninfo(options, replication="database").encode())
    if pgconn.status != pq.ConnStatus.OK:
        message = pgconn.error_message.decode(errors="replace")
        pgconn.finish()
        raise connection_error(options, message)
    return pgconn


def connection_error(options: PostgresOptions, message: str) -> HeadwaterError:
    """libpq's message as our error. The only place that looks into a text: libpq gives nothing else."""
    text = " ".join(message.strip().split())
    secret = options.password.reveal() or conninfo_to_dict(conninfo(options)).get("password")
    if secret:
        text = text.replace(str(secret), "******")
    if "FATAL" in text and "starting up" not in text and "shutting down" not in text and "recovery" not in text:
        return Refused(
            f"PostgreSQL at {address(options)} refused the connection",
            "Check user, password and database under `source`; pg_hba.conf must admit this role, also for replication",
            cause=text,
        )
    return Unreachable(
        f"cannot reach PostgreSQL at {address(options)}",
        "Check host and port under `source`, and that the server is running",
        cause=text,
    )


def command(pgconn: PGconn, text: bytes) -> PGresult:
    """Run one command of the replication protocol and wait for its result."""
    result = pgconn.exec_(text)
    if result.status in (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE):
        raise ReplicationError(result)
    return result


class ReplicationError(Exception):
    """A replication command failed; `sqlstate` says how, `text` in the server's words."""

    def __init__(self, result: PGresult) -> None:
        self.sqlstate = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        self.text = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")
        super().__init__(f"{self.sqlstate}: {self.text}")


def wait_readable(pgconn: PGconn, timeout: float) -> bool:
    """Sleep until the server sent something. libpq's blocking read would hold the GIL."""
    ready, _, _ = select.select([pgconn.socket], [], [], max(0.0, timeout))
    return bool(ready)


def now_microseconds() -> int:
    """Wall clock, microseconds since the Unix epoch."""
    return time.time_ns() // 1000
