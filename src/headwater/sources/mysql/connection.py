"""Connections by PyMySQL: it speaks the handshake, every authentication method and TLS; we take its socket from there.

PyMySQL, because it is plain Python (no client library to install), well kept, and leaves the socket reachable:
`mysqlclient` and `asyncmy` hide theirs. Reading a binlog or a large result goes through `packets.py`.
"""

from __future__ import annotations

import re
import ssl
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
from pymysql.constants import CR, ER

from headwater.errors import HeadwaterError, Retry, Usage
from headwater.sources.mysql.options import MySqlOptions

# The server is there and will take us in a moment.
_FOR_NOW = {
    ER.CON_COUNT_ERROR,
    ER.SERVER_SHUTDOWN,
    ER.USER_LIMIT_REACHED,
    CR.CR_SERVER_LOST,
    CR.CR_SERVER_GONE_ERROR,
    CR.CR_CONN_HOST_ERROR,
    CR.CR_CONNECTION_ERROR,
    1927,  # connection was killed
    3169,  # session was killed
}
# Values have one form in every session: UTC, UTF-8, the SQL mode that never pads or hides anything.
_SESSION = (
    "set session time_zone = '+00:00', session sql_mode = '', session wait_timeout = 86400,"
    " session net_write_timeout = 3600, session net_read_timeout = 3600"
)

# Statements of ours are short; a server that says nothing for so long is gone.
READ_SECONDS = 300.0
# The same while a connection is being made.
HANDSHAKE_SECONDS = 30.0


class Unreachable(Retry):
    """Nobody answers at that address, for now."""


class Refused(Usage):
    """The server answered and refused: password, account, privilege."""


@dataclass(frozen=True)
class Address:
    """Where and as whom we connect."""

    host: str
    port: int
    user: str
    password: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"Address({self})"


def address(options: MySqlOptions) -> Address:
    """What URL and single options say together; the single ones win."""
    try:
        parts = urlsplit(options.url.reveal())
        host, port = parts.hostname or "", parts.port or 0
    except ValueError:
        raise Usage("source.url is not a MySQL URL", "Write it as mysql://user@host:3306") from None
    if options.url and parts.scheme not in ("mysql", "mariadb"):
        raise Usage("source.url is not a MySQL URL", "Write it as mysql://user@host:3306 or mariadb://user@host:3306")
    return Address(
        options.host or host or "127.0.0.1",
        options.port or port or 3306,
        options.user or unquote(parts.username or "") or "root",
        options.password.reveal() or unquote(parts.password or ""),
    )


def database_of(options: MySqlOptions) -> str:
    """The database that a URL names, or nothing."""
    return unquote(urlsplit(options.url.reveal()).path.strip("/"))


class Server:
    """An open session. Errors of the server come out as what to do about them."""

    def __init__(self, options: MySqlOptions, patience: float = READ_SECONDS) -> None:
        self.options = options
        self.address = address(options)
        self.connection = _open(options, self.address, patience)

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of one statement."""
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(statement, parameters or None)
                return list(cursor.fetchall())
        except pymysql.Error as error:
            raise server_error(error, self.address) from error

    def dicts(self, statement: str) -> list[dict[str, Any]]:
        """The same with the server's own column names, in lower case: their order differs between versions."""
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(statement)
                names = [column[0].lower() for column in cursor.description or ()]
                return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except pymysql.Error as error:
            raise server_error(error, self.address) from error

    def value(self, statement: str, parameters: Sequence[Any] = ()) -> Any:
        """The first column of the first row, None without one."""
        found = self.rows(statement, parameters)
        return found[0][0] if found else None

    def variable(self, name: str) -> str:
        """A global variable; empty when this server does not have it."""
        found = self.rows("show global variables where variable_name = %s", [name])
        return str(found[0][1]) if found else ""

    @cached_property
    def version(self) -> str:
        return str(self.value("select version()"))

    @property
    def mariadb(self) -> bool:
        return "mariadb" in self.version.lower()

    @property
    def number(self) -> tuple[int, int]:
        found = re.match(r"(\d+)\.(\d+)", self.version)
        return (int(found[1]), int(found[2])) if found else (0, 0)

    @property
    def numeric_version(self) -> int:
        """As comments for some versions count: 80033, 101105."""
        found = re.match(r"(\d+)\.(\d+)\.(\d+)", self.version)
        return int(found[1]) * 10000 + int(found[2]) * 100 + int(found[3]) if found else 0

    def close(self) -> None:
        with suppress(pymysql.Error):
            self.connection.close()


@contextmanager
def connect(options: MySqlOptions, patience: float = READ_SECONDS) -> Iterator[Server]:
    """An ordinary SQL session in autocommit; a server that does not answer for `patience` seconds is gone."""
    server = Server(options, patience)
    try:
        yield server
    finally:
        server.close()


def _open(options: MySqlOptions, where: Address, patience: float) -> pymysql.connections.Connection[Any]:
    settings: dict[str, Any] = {
        "host": where.host,
        "port": where.port,
        "user": where.user,
        "password": where.password,
        "charset": "utf8mb4",
        "autocommit": True,
        # The server could ask for any file of ours otherwise.
        "local_infile": False,
        "connect_timeout": 10,
        "program_name": "headwater",
        "read_timeout": min(patience, HANDSHAKE_SECONDS),
    }
    try:
        connection = _with_tls(options, settings)
        lent: Any = connection
        lent._read_timeout = patience
        with connection.cursor() as cursor:
            cursor.execute(_SESSION)
    except pymysql.Error as error:
        raise server_error(error, where) from None
    except OSError as error:
        raise Unreachable(f"cannot reach {where}", cause=str(error)) from None
    return connection


def _with_tls(options: MySqlOptions, settings: dict[str, Any]) -> pymysql.connections.Connection[Any]:
    mode = options.ssl_mode
    if mode == "disabled":
        return pymysql.connect(**settings, ssl_disabled=True)
    context = _tls(options)
    try:
        return pymysql.connect(**settings, ssl=context)
    except pymysql.OperationalError as error:
        # "SSL connection error: SSL is required but the server doesn't support it"
        if mode != "preferred" or error.args[0] != CR.CR_SSL_CONNECTION_ERROR:
            raise
    return pymysql.connect(**settings, ssl_disabled=True)


def _tls(options: MySqlOptions) -> ssl.SSLContext:
    if options.ssl_mode in ("preferred", "required"):
        # Without the authorities that nobody asks: reading them takes 50 ms, at every connection.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        try:
            context = ssl.create_default_context(cafile=options.ssl_ca or None)
        except OSError as error:
            raise Usage(f"source.ssl_ca: {options.ssl_ca} cannot be read as certificates", cause=str(error)) from None
        context.check_hostname = options.ssl_mode == "verify_identity"
    if options.ssl_cert:
        try:
            context.load_cert_chain(options.ssl_cert, options.ssl_key or None)
        except OSError as error:
            raise Usage(f"source.ssl_cert: {options.ssl_cert} cannot be used", cause=str(error)) from None
    return context


def server_error(error: pymysql.Error, where: Address) -> HeadwaterError:
    """A driver's error as one of ours."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    match code:
        case 0 | CR.CR_SERVER_LOST | CR.CR_SERVER_GONE_ERROR | CR.CR_CONN_HOST_ERROR | CR.CR_CONNECTION_ERROR:
            return Unreachable(f"cannot reach {where}", cause=text)
        case ER.ACCESS_DENIED_ERROR | 1698:
            return Refused(
                f"{where} refuses the account {where.user!r}",
                "Look at source.user and source.password",
                cause="Wrong password, or no such account for this client's address",
            )
        case 1227 | 1142 | 1044 | 1370:
            return Refused(f"{where}: {text}", f"grant … to {where.user};   -- `headwater check` lists what is missing")
        case ER.NO_SUCH_TABLE:
            # We only ask for tables that were there a moment ago.
            return Retry(f"a table was dropped or renamed meanwhile: {text}")
        case _ if code in _FOR_NOW:
            return Unreachable(f"{where} does not take us now", cause=text)
    return Usage(f"{where}: {text} (error {code})")


def replica_id(options: MySqlOptions) -> int:
    """Our id among the server's replicas; a made one lies above 2^31, where people do not choose theirs."""
    return options.server_id or zlib.crc32(options.client.encode()) | 1 << 31


def quote(*names: str) -> str:
    """Identifiers for a statement: `a`.`b`."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def now_microseconds() -> int:
    """The clock."""
    return time.time_ns() // 1000
