"""Packets from a connection that PyMySQL has opened, in large reads into one buffer.

A packet is its length (3 bytes), a number, and that many bytes; one of 16 MB or more goes on in the next. Kernels look
for packets in the buffer; this module fills it.
"""

from __future__ import annotations

import select
import ssl
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pymysql

from headwater.errors import Retry

# One read takes at most what is free; a socket rarely has more than a megabyte.
BUFFER_BYTES = 4 << 20
LARGEST = 0xFFFFFF


class Packets:
    """What a connection sends, from `at` to `end` in `data`. Used instead of PyMySQL's own reading."""

    def __init__(self, connection: pymysql.connections.Connection[Any]) -> None:
        lent: Any = connection
        self._socket = lent._sock
        self._timeout = self._socket.gettimeout()
        self._socket.setblocking(False)
        self.data: npt.NDArray[np.uint8] = np.empty(BUFFER_BYTES, dtype=np.uint8)
        self.at = 0
        self.end = 0

    def receive(self, timeout: float) -> bool:
        """Take what has come, after waiting for something up to `timeout`; False when nothing did."""
        self._make_room()
        deadline = time.monotonic() + timeout
        while True:
            pending = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()
            left = max(0.0, deadline - time.monotonic())
            if not pending and not select.select([self._socket], [], [], left)[0]:
                return False
            try:
                count = self._socket.recv_into(memoryview(self.data.data)[self.end :])
            except (BlockingIOError, ssl.SSLWantReadError):
                # Part of a TLS record: something has come, and nothing can be read of it yet.
                continue
            except OSError as error:
                raise broken(str(error)) from None
            if not count:
                raise broken("the server closed the connection")
            self.end += count
            return True

    def _make_room(self) -> None:
        if self.at == self.end:
            self.at = self.end = 0
        elif self.end == self.data.size:
            rest = self.end - self.at
            into = self.data if rest <= self.data.size // 2 else np.empty(self.data.size * 2, dtype=np.uint8)
            into[:rest] = self.data[self.at : self.end].copy()
            self.data, self.at, self.end = into, 0, rest

    def release(self) -> None:
        """Give the connection back to PyMySQL."""
        if self._socket.fileno() >= 0:
            self._socket.settimeout(self._timeout)

    def large(self) -> tuple[bytes, int] | None:
        """A payload of 16 MB or more that begins at `at`, and where it ends; None while it has not all come."""
        parts, at = [], self.at
        while True:
            if at + 4 > self.end:
                return None
            size = int.from_bytes(self.data[at : at + 3].tobytes(), "little")
            if at + 4 + size > self.end:
                return None
            parts.append(self.data[at + 4 : at + 4 + size].tobytes())
            at += 4 + size
            if size < LARGEST:
                return b"".join(parts), at

    def payload(self) -> bytes:
        """The packet at `at`, which is there as a whole."""
        size = int.from_bytes(self.data[self.at : self.at + 3].tobytes(), "little")
        return self.data[self.at + 4 : self.at + 4 + size].tobytes()


def broken(text: str) -> Retry:
    """The connection is gone, for now."""
    return Retry("the connection to the server broke", cause=" ".join(text.split()))


def parse_error(payload: bytes) -> tuple[int, str]:
    """(code, text) of an error packet."""
    code = int.from_bytes(payload[1:3], "little")
    text = payload[9:] if payload[3:4] == b"#" else payload[3:]
    return code, text.decode("utf-8", "replace")
