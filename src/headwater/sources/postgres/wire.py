"""COPY … TO STDOUT read from the socket itself, where nothing encrypts it.

libpq hands out one row a call, and a call costs the client as much as the row costs the server. The connection is
libpq's before and after: we speak while it is idle, and read up to ReadyForQuery.
Protocol: "Frontend/Backend Protocol", message formats, in the PostgreSQL manual.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg

from headwater.errors import Retry
from headwater.sources.postgres import kernels

# Rows are handed on when this much has come.
READ_BYTES = 4 << 20
HEADER = struct.Struct("!cI")
READY = HEADER.pack(b"Z", 5)


class Refused(Exception):
    """The server's ErrorResponse, in its own words; `begun` when rows were already on their way."""

    def __init__(self, sqlstate: str, text: str, *, begun: bool) -> None:
        self.sqlstate = sqlstate
        self.text = text
        self.begun = begun
        super().__init__(text)


def speaks_plainly(connection: psycopg.Connection[Any]) -> bool:
    """Whether the socket carries the protocol as it is: neither TLS nor GSSAPI around it."""
    if connection.pgconn.ssl_in_use:
        return False
    row = connection.execute("select encrypted from pg_stat_gssapi where pid = pg_backend_pid()").fetchone()
    return not (row and row[0])


def copy_out(connection: psycopg.Connection[Any], statement: bytes) -> Iterator[npt.NDArray[np.uint8]]:
    """The rows of a COPY statement: whole lines, several megabytes at a time. Raises Refused or Retry.

    Whoever leaves before the end must close the connection: its next answer would be a row."""
    with socket.socket(fileno=os.dup(connection.pgconn.socket)) as server:
        _send(server, HEADER.pack(b"Q", len(statement) + 5) + statement + b"\0")
        rest = np.empty(0, np.uint8)
        begun, ready = False, False
        refused: tuple[str, str] | None = None
        while not ready:
            # Twice the rest: a row may be larger than all we read at once.
            buffer = np.empty(max(READ_BYTES, 2 * len(rest)), np.uint8)
            buffer[: len(rest)] = rest
            held = _fill(server, buffer, len(rest))
            at, size = kernels.copy_data(buffer, 0, held, 0)
            # What is no row, one message at a time: there are five of them in a COPY.
            while (end := _message_end(buffer, at, held)) is not None:
                kind, body = chr(buffer[at]), buffer[at + HEADER.size : end].tobytes()
                begun, ready = begun or kind == "H", kind == "Z"
                refused = _words(body) if kind == "E" else refused
                at, size = kernels.copy_data(buffer, end, held, size)
            # Before the last rows are handed on: rows of a COPY that failed are not all of them.
            if ready and refused:
                raise Refused(*refused, begun=begun)
            rest = buffer[at:held].copy()
            if size:
                yield buffer[:size]


def _send(server: socket.socket, message: bytes) -> None:
    """libpq has made the socket non-blocking."""
    left = memoryview(message)
    while left:
        select.select([], [server], [])
        left = left[server.send(left) :]


def _fill(server: socket.socket, buffer: npt.NDArray[np.uint8], held: int) -> int:
    """Read until the buffer is full or what has come ends as an answer ends; how much is in it then."""
    view = buffer.data
    while held < len(buffer) and view[max(0, held - 6) : held - 1] != READY:
        select.select([server], [], [])
        try:
            count = server.recv_into(view[held:])
        except BlockingIOError:
            continue
        except OSError as error:
            raise Retry("COPY ended early", cause=str(error)) from error
        if not count:
            raise Retry("COPY ended early", cause="the server closed the connection")
        held += count
    return held


def _message_end(buffer: npt.NDArray[np.uint8], at: int, held: int) -> int | None:
    """Where the message that begins at `at` ends; None when it has not come whole."""
    if at + HEADER.size > held:
        return None
    end = at + 1 + int.from_bytes(buffer[at + 1 : at + 5].tobytes(), "big")
    return end if end <= held else None


def _words(fields: bytes) -> tuple[str, str]:
    """SQLSTATE and message of an ErrorResponse: fields of a letter and a string, each ended by a zero."""
    found = {field[:1]: field[1:].decode(errors="replace") for field in fields.split(b"\0")}
    return found.get(b"C", ""), found.get(b"M", "")
