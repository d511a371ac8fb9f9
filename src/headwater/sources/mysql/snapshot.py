"""A consistent snapshot: several sessions that see the tables as of exactly one position of the log.

MariaDB tells each session the position its snapshot was taken at, so when all of them say the same no lock is needed;
writers that are too busy for that, and MySQL, need a global read lock for the milliseconds it takes to open them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from headwater.errors import Retry, Usage
from headwater.sources.mysql.connection import Server
from headwater.sources.mysql.options import MySqlOptions
from headwater.sources.mysql.position import Progress, file_address, parse_mariadb
from headwater.sources.mysql.state import written, written_file

# Sessions open so many times without a lock before one is taken.
ATTEMPTS = 3
# How long others may wait for us to get the lock; a statement that runs for longer keeps us from it.
LOCK_SECONDS = 10
_START = "start transaction with consistent snapshot"


@dataclass(frozen=True)
class Sessions:
    """Open transactions that see the same."""

    progress: Progress
    servers: Sequence[Server]
    # The same place in the log's files.
    address: int
    # For how long writers were kept waiting; None: there was no lock.
    locked_seconds: float | None = None


@contextmanager
def consistent_sessions(options: MySqlOptions, count: int) -> Iterator[Sessions]:
    """`count` sessions at one position, for as long as the context lasts; fewer when it cannot be had otherwise."""
    with ExitStack() as stack:
        servers = [_session(options, stack) for _ in range(count)]
        yield _without_lock(servers) or _with_lock(servers) or _one(servers)


def _session(options: MySqlOptions, stack: ExitStack) -> Server:
    server = Server(options)
    stack.callback(server.close)
    server.rows("set session transaction isolation level repeatable read")
    return server


def _without_lock(servers: list[Server]) -> Sessions | None:
    if not servers[0].mariadb:
        return None
    for _ in range(ATTEMPTS):
        places = [_begin(server) for server in servers]
        if len(set(places)) == 1:
            return Sessions(_progress(servers[0], places[0]), servers, file_address(*places[0]))
    return None


def _with_lock(servers: list[Server]) -> Sessions | None:
    """None when the lock is not to be had and one session alone can do without."""
    first = servers[0]
    first.rows("rollback")
    first.rows(f"set session lock_wait_timeout = {LOCK_SECONDS}")
    began = time.monotonic()
    try:
        first.rows("flush tables with read lock")
    except (Usage, Retry) as error:
        if first.mariadb:
            return None
        raise Usage(
            f"cannot take a consistent snapshot: {error.what}",
            "grant reload on *.* to …;   -- for FLUSH TABLES WITH READ LOCK, held for milliseconds",
        ) from error
    try:
        for server in servers[1:]:
            server.rows("rollback")
            server.rows(_START)
        progress, address = written(first), written_file(first).coordinate
        # Under the lock still, and after it in the same session: what it sees is what the others see.
        first.rows(_START)
    finally:
        first.rows("unlock tables")
    return Sessions(progress, servers, address, time.monotonic() - began)


def _one(servers: list[Server]) -> Sessions:
    for server in servers[1:]:
        server.close()
    place = _begin(servers[0])
    return Sessions(_progress(servers[0], place), servers[:1], file_address(*place))


def _begin(server: Server) -> tuple[str, int]:
    """Take a snapshot; MariaDB says at which place of the binlog."""
    server.rows("rollback")
    server.rows(_START)
    found = {str(name).lower(): value for name, value in server.rows("show status like 'binlog_snapshot_%'")}
    return str(found["binlog_snapshot_file"]), int(found["binlog_snapshot_position"])


def _progress(server: Server, place: tuple[str, int]) -> Progress:
    return parse_mariadb(str(server.value("select binlog_gtid_pos(%s, %s)", place) or ""))
