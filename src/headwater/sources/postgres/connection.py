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

from headwater.errors import HeadwaterError, Retry, Stop, Usage
from headwater.options import MASK
from headwater.sources.postgres.options import PostgresOptions

OLDEST_VERSION = 140000

# The text form of every value depends on these. pgoutput runs in our replication session, so it obeys too.
# Set once connected: what the environment says (PGTZ, PGDATESTYLE, …) would win over start-up options.
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
    "idle_session_timeout": "0",
    "lock_timeout": "0",
    "client_min_messages": "warning",
    # A policy must never leave rows out of a snapshot without a word: this makes it an error.
    "row_security": "off",
}
# Servers before 17 do not have it.
_TRANSACTION_TIMEOUT = (
    "(select pg_catalog.set_config(name, '0', false) from pg_catalog.pg_settings where name = 'transaction_timeout')"
)
_SETTLE = "select " + ", ".join(
    [*(f"pg_catalog.set_config('{k}', '{v}', false)" for k, v in SESSION_SETTINGS.items()), _TRANSACTION_TIMEOUT]
)

# libpq gives a text and nothing else when a connection fails. A server that says one of these is there and
# will take us in a moment; any other refusal is about who we are and where we want to go.
_FOR_NOW = (
    "is starting up",
    "is shutting down",
    "in recovery mode",
    "not yet accepting connections",
    "not accepting connections",
    "too many clients",
    "too many connections",
    "connection slots are reserved",
    "exceeds max_wal_senders",
    'exceeds "max_wal_senders"',
    "terminating connection",
)


class Unreachable(Retry):
    """Nobody answers at that address, for now."""


class Refused(Usage):
    """The server answered and refused: password, role, database."""


def conninfo(options: PostgresOptions, **extra: str) -> str:
    """libpq's connection string for the options; contains the password, so it is never printed."""
    try:
        parts: dict[str, Any] = conninfo_to_dict(options.url.reveal()) if options.url else {}
    except psycopg.ProgrammingError:
        # libpq's own words would show the URL, and the password in it.
        raise Usage(
            "source.url is not a PostgreSQL URL",
            "Write it as postgresql://user@host:5432/database",
            "A password with other characters than letters and digits is better given as source.password",
        ) from None
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
    # A password over TLS takes six round trips; links by satellite or through a busy bastion take seconds for one.
    parts.setdefault("connect_timeout", "30")
    return make_conninfo(**{**parts, **extra})


def address(options: PostgresOptions) -> str:
    """Where we connect to, for people: no password in it."""
    parts = conninfo_to_dict(conninfo(options))
    return f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"


@contextmanager
def connect(options: PostgresOptions) -> Iterator[psycopg.Connection[Any]]:
    """An ordinary SQL session in autocommit. A connection that breaks meanwhile raises Retry."""
    try:
        connection = psycopg.connect(conninfo(options), autocommit=True)
    except psycopg.OperationalError as error:
        raise connection_error(options, str(error)) from None
    with connection:
        if (version := connection.info.server_version) < OLDEST_VERSION:
            raise Usage(
                f"PostgreSQL at {address(options)} is version {version // 10000}, older than 14",
                "Upgrade the server to 14 or newer",
            )
        try:
            connection.execute(_SETTLE)
            yield connection
        except psycopg.OperationalError as error:
            if not connection.broken:
                raise
            raise Unreachable(
                f"the connection to PostgreSQL at {address(options)} broke", cause=" ".join(str(error).split())
            ) from error


def connect_replication(options: PostgresOptions) -> PGconn:
    """A libpq connection in replication mode, for START_REPLICATION and exported snapshots."""
    pgconn = pq.PGconn.connect(conninfo(options, replication="database").encode())
    if pgconn.status != pq.ConnStatus.OK:
        message = pgconn.error_message.decode(errors="replace")
        pgconn.finish()
        raise connection_error(options, message)
    try:
        command(pgconn, _SETTLE.encode())
    except ServerError as error:
        pgconn.finish()
        raise Unreachable(f"PostgreSQL at {address(options)} does not answer", cause=error.text) from error
    return pgconn


def connection_error(options: PostgresOptions, message: str) -> HeadwaterError:
    """libpq's message as our error. The only place that looks into a text: libpq gives nothing else."""
    text = " ".join(message.strip().split())
    if secret := conninfo_to_dict(conninfo(options)).get("password"):
        text = text.replace(str(secret), MASK)
    if "FATAL" in text and not any(phrase in text for phrase in _FOR_NOW):
        remedy = "Check user, password and database under `source`; pg_hba.conf must admit this role"
        if "WAL sender" in text or "walsender" in text:
            remedy = "alter role … replication;   -- as a superuser"
        return Refused(f"PostgreSQL at {address(options)} refused the connection", remedy, cause=text)
    return Unreachable(
        f"cannot reach PostgreSQL at {address(options)}",
        "Check host and port under `source`, and that the server is running",
        cause=text,
    )


# A character that is not one in the database's encoding, or that UTF-8 has not.
NOT_UTF8 = ("22021", "22P05")


def not_utf8(where: str, cause: str) -> Stop:
    """The server cannot send a text as UTF-8. It never will."""
    return Stop(
        f"{where} has a text that is not in the encoding of its database",
        "Correct such rows at the source, or leave the table out: source.exclude",
        "then drop the slot if its log has them, and load the tables anew: remove the state folder and the tables in"
        " the lake, and run again",
        cause=f"{cause}; a database in SQL_ASCII takes any bytes",
    )


def command(pgconn: PGconn, text: bytes) -> PGresult:
    """Run one command of the replication protocol and wait for its result."""
    result = pgconn.exec_(text)
    if result.status in (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE):
        raise ServerError(result)
    return result


class ServerError(Exception):
    """A command sent through libpq failed; `sqlstate` says how, `text` in the server's words."""

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
