"""The proxy does to a connection what it is told, and to no other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from headwater.testing.proxy import TcpProxy


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def talk(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(100):
                    connection.sendall(data)
            except OSError:
                pass

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.fixture
def proxy(echo: int) -> Iterator[TcpProxy]:
    with TcpProxy(echo) as proxy:
        yield proxy


def connect(proxy: TcpProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), 10)


def said(connection: socket.socket, words: bytes) -> bytes:
    connection.sendall(words)
    return connection.recv(100)


def is_dead(connection: socket.socket) -> bool:
    try:
        return said(connection, b"x") == b""
    except ConnectionError:
        return True


def test_bytes_pass_both_ways_late_or_not(proxy: TcpProxy):
    with connect(proxy) as client:
        assert said(client, b"one") == b"one"
        proxy.latency = 0.05
        assert said(client, b"two") == b"two"


def test_a_cut_resets_what_is_open_and_lets_new_ones_in(proxy: TcpProxy):
    with connect(proxy) as client:
        said(client, b"one")
        proxy.cut()
        assert is_dead(client)
    with connect(proxy) as client:
        assert said(client, b"two") == b"two"


def test_held_bytes_arrive_after_the_release(proxy: TcpProxy):
    with connect(proxy) as client:
        said(client, b"one")
        proxy.hold()
        client.sendall(b"two")
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(100)
        proxy.release()
        client.settimeout(10)
        assert client.recv(100) == b"two"


def test_a_stranded_connection_is_dead_and_the_next_one_is_not(proxy: TcpProxy):
    with connect(proxy) as dead, connect(proxy) as other:
        said(dead, b"one")
        said(other, b"one")
        proxy.strand()
        dead.sendall(b"two")
        dead.settimeout(0.1)
        with connect(proxy) as client:
            assert said(client, b"three") == b"three"
        with pytest.raises(TimeoutError):
            dead.recv(100)


def test_a_refusal_resets_new_connections(proxy: TcpProxy):
    proxy.refuse = True
    try:
        client = connect(proxy)
    except ConnectionError:
        return  # reset before we had it
    with client:
        assert is_dead(client)
