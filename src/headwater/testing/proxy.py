"""A TCP proxy that misbehaves on request: cut, held half-open, slow, refusing.

Put it between a client and a server, then call what should happen to the network:

    with TcpProxy(server.port) as proxy:
        proxy.hold()        # nothing passes, nothing is closed: a dead peer that nobody has noticed
        proxy.release()
        proxy.strand()      # the same for ever, for today's connections; new ones pass
        proxy.cut()         # every connection is reset
        proxy.latency = 2.0 # seconds, each way
        proxy.refuse = True # new connections are reset at once
        proxy.forward_to(other.port)
"""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Self

CHUNK_BYTES = 64 << 10
# Reset instead of an orderly end: that is what a cut cable or a dead router looks like.
_RESET = struct.pack("ii", 1, 0)


class TcpProxy:
    """Listens on a free loopback port and forwards to `port` on `host`."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.latency = 0.0
        self.refuse = False
        self._target = (host, port)
        self._passing = threading.Event()
        self._passing.set()
        self._stranded: list[threading.Event] = []
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def cut(self) -> None:
        """Reset every connection, on both sides."""
        with self._lock:
            gone, self._open = self._open, set()
        for each in gone:
            _reset(each)

    def forward_to(self, port: int) -> None:
        """New connections go there: a name that moves to another server."""
        self._target = (self._target[0], port)

    def hold(self) -> None:
        """From now on nothing passes and nothing is closed: both sides believe in a connection that is dead."""
        self._passing.clear()

    def release(self) -> None:
        """What was held passes after all."""
        self._passing.set()

    def strand(self) -> None:
        """Today's connections never pass anything again and stay open; new ones work."""
        self._passing.clear()
        self._stranded.append(self._passing)
        self._passing = threading.Event()
        self._passing.set()

    def close(self) -> None:
        """End everything."""
        # Wakes `accept`, which closing alone does not.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for passing in (*self._stranded, self._passing):
            passing.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _address = self._listener.accept()
            except OSError:
                return
            if self.refuse:
                _reset(client)
                continue
            try:
                server = socket.create_connection(self._target, 5)
                server.settimeout(None)
            except OSError:
                _reset(client)
                continue
            with self._lock:
                self._open |= {client, server}
            threading.Thread(target=self._serve, args=(client, server, self._passing), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket, passing: threading.Event) -> None:
        """Both ways at once; closed when both have ended."""
        threads = []
        for here, there in ((client, server), (server, client)):
            waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
            threads.append(threading.Thread(target=self._take, args=(here, waiting), daemon=True))
            threads.append(threading.Thread(target=self._give, args=(here, there, waiting, passing), daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with self._lock:
            self._open -= {client, server}
        client.close()
        server.close()

    def _take(self, here: socket.socket, waiting: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        """What one side sends, each piece with the time it arrived; nothing at the end."""
        while True:
            try:
                data = here.recv(CHUNK_BYTES)
            except OSError:
                data = b""
            waiting.put((time.monotonic(), data))
            if not data:
                return

    def _give(
        self,
        here: socket.socket,
        there: socket.socket,
        waiting: queue.SimpleQueue[tuple[float, bytes]],
        passing: threading.Event,
    ) -> None:
        """Hand it on, as late as it should be, once things pass. Who sends to a peer that is gone gets a reset."""
        while True:
            arrived, data = waiting.get()
            time.sleep(max(0.0, arrived + self.latency - time.monotonic()))
            passing.wait()
            if not data:
                with contextlib.suppress(OSError):
                    there.shutdown(socket.SHUT_WR)
                return
            try:
                there.sendall(data)
            except OSError:
                _reset(here)
                return


def _reset(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        # A thread that waits in recv() keeps the socket alive: this wakes it.
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
