"""Bytes from a connection: what has come in part is neither silence nor an end."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from headwater.sources.mysql.packets import Packets
from headwater.testing.certificates import write_certificates

TEXT = b"x" * 10_000


def test_part_of_a_tls_record_is_waited_for(tmp_path: Path) -> None:
    certificate = write_certificates(tmp_path)
    (far, near_far), (near, near_near) = socket.socketpair(), socket.socketpair()
    slow = threading.Event()

    def serve() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        with context.wrap_socket(far, server_side=True) as server:
            # Once the handshake is over, its tickets too.
            server.recv(1)
            slow.set()
            server.sendall(TEXT)
            server.recv(1)

    def carry(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                if slow.is_set() and len(data) > 1000:
                    other.sendall(data[:1000])
                    time.sleep(0.3)
                    data = data[1000:]
                other.sendall(data)

    threads = [
        threading.Thread(target=serve, daemon=True),
        threading.Thread(target=carry, args=(near_far, near_near), daemon=True),
        threading.Thread(target=carry, args=(near_near, near_far), daemon=True),
    ]
    for thread in threads:
        thread.start()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(near) as client:
        client.sendall(b"?")
        connection: Any = SimpleNamespace(_sock=client)
        packets = Packets(connection)
        while packets.end < len(TEXT):
            assert packets.receive(10), "half a record was taken for silence"
        assert bytes(packets.data[: packets.end]) == TEXT
        packets.release()
        client.sendall(b"!")
    for each in (near_far, near_near):
        each.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join(5)
    for each in (near_far, near_near):
        each.close()
