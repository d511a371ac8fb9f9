"""Sessions that see one snapshot, and a door through which tasks read from them.

A transaction of MySQL cannot be shared between connections, and tasks run in processes of their own. So the
driver opens some sessions at one position, keeps them, and hands their results on: a task connects, names its chunk,
and gets the rows' packets as they are. It needs no password, and can ask for nothing but the chunks that were planned.

    task   → token (32 letters), chunk number (4 bytes)
    driver → blocks: size (4 bytes), bytes. The first has the columns' types, the others rows; a size of 0 ends them,
             0xFFFFFFFF is followed by the size and the JSON of an error.
"""

from __future__ import annotations

import json
import queue
import secrets
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pymysql

from headwater.errors import HeadwaterError, Retry, Stop
from headwater.sources.mysql.connection import Server, server_error
from headwater.sources.mysql.result import rows_of

BLOCK_BYTES = 4 << 20
_SIZE = struct.Struct("<I")
_FAILED = 0xFFFFFFFF


class Relay:
    """Serves `statements` by number, each on one of `sessions`."""

    def __init__(self, sessions: Sequence[Server], statements: Sequence[str]) -> None:
        # None: there will be no more, for everybody who waits for one.
        self._free: queue.Queue[Server | None] = queue.Queue()
        for session in sessions:
            self._free.put(session)
        self._left = len(sessions)
        self._counting = threading.Lock()
        self._statements = statements
        self._token = secrets.token_hex(16)
        # Where tasks reach the server we are reachable too: on the address we reach it from.
        lent: Any = sessions[0].connection
        self._listener = socket.create_server((lent._sock.getsockname()[0], 0), family=lent._sock.family)
        threading.Thread(target=self._accept, name="headwater-relay", daemon=True).start()

    @property
    def door(self) -> dict[str, Any]:
        """What a task needs to know."""
        host, port = self._listener.getsockname()[:2]
        return {"host": host, "port": port, "token": self._token}

    def close(self) -> None:
        self._listener.close()
        self._free.put(None)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            client.settimeout(3600)
            asked = _exactly(client, 36)
            number = int.from_bytes(asked[32:], "little")
            if not secrets.compare_digest(asked[:32], self._token.encode()) or number >= len(self._statements):
                return
            session = self._free.get()
            if session is None:
                self._free.put(None)
                self._fail(client, Retry("the snapshot is gone: no session that sees it is left"))
                return
            whole = False
            try:
                for block in rows_of(session, self._statements[number], BLOCK_BYTES):
                    client.sendall(_SIZE.pack(len(block)) + block)
                whole = True
                client.sendall(_SIZE.pack(0))
            except HeadwaterError as error:
                self._fail(client, error)
            except pymysql.Error as error:
                self._fail(client, server_error(error, session.address))
            finally:
                if whole:
                    self._free.put(session)
                else:
                    # In the middle of a result: of no use to the next task. Without any session left tasks fail.
                    session.close()
                    with self._counting:
                        self._left -= 1
                        gone = self._left == 0
                    if gone:
                        self.close()

    def _fail(self, client: socket.socket, error: HeadwaterError) -> None:
        kind = "stop" if isinstance(error, Stop) else "retry"
        text = json.dumps({"kind": kind, "what": error.what, "cause": error.cause, "remedies": error.remedies}).encode()
        client.sendall(_SIZE.pack(_FAILED) + _SIZE.pack(len(text)) + text)


def read_door(door: dict[str, Any], number: int) -> Iterator[bytes]:
    """The blocks of one chunk, from a task."""
    try:
        client = socket.create_connection((door["host"], door["port"]), timeout=3600)
    except OSError as error:
        raise Retry("the snapshot is gone: the driver that held it has ended", cause=str(error)) from None
    with client:
        try:
            client.sendall(door["token"].encode() + _SIZE.pack(number))
            while (size := int.from_bytes(_exactly(client, 4), "little")) != 0:
                if size == _FAILED:
                    raise _error(_exactly(client, int.from_bytes(_exactly(client, 4), "little")))
                yield _exactly(client, size)
        except OSError as error:
            raise Retry("the snapshot is gone: the driver that held it has ended", cause=str(error)) from None


def _error(text: bytes) -> HeadwaterError:
    read = json.loads(text)
    kind = Stop if read["kind"] == "stop" else Retry
    return kind(read["what"], *read["remedies"], cause=read["cause"])


def _exactly(client: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        count = client.recv_into(view[got:])
        if not count:
            raise OSError("closed early")
        got += count
    return bytes(data)
