"""A large result under the binary protocol: floats come with all their bits, and values need no parsing of text.

Protocol: COM_STMT_PREPARE and COM_STMT_EXECUTE. PyMySQL knows neither; it lends its connection.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from headwater.errors import HeadwaterError, Retry, Stop
from headwater.sources.mysql import result_kernels
from headwater.sources.mysql.binlog import length_encoded
from headwater.sources.mysql.connection import Server
from headwater.sources.mysql.packets import Packets, parse_error

_PREPARE, _EXECUTE, _CLOSE = 0x16, 0x17, 0x19
# A server under load may take long to find the first row.
WAIT_SECONDS = 3600.0
# A row of 16 MB or more comes in several packets; ours has this header, its size in 8 bytes, and is a block by itself.
LARGE = b"\xff" * 4


def rows_of(server: Server, statement: str, block: int) -> Iterator[bytes]:
    """The rows of a statement as whole packets, about `block` bytes at a time. The first item: the columns' types."""
    connection: Any = server.connection
    connection._execute_command(_PREPARE, statement)
    first = connection._read_packet().get_all_data()
    number, columns, parameters = struct.unpack_from("<IHH", first, 1)
    if parameters:
        raise Stop("a statement for copying has parameters")
    types = bytes(_column_type(connection._read_packet().get_all_data()) for _ in range(columns))
    connection._read_packet()
    yield types
    connection._execute_command(_EXECUTE, struct.pack("<IBI", number, 0, 1))
    packets = Packets(connection)
    try:
        # The number of columns, the columns, and the end of them.
        for _ in range(columns + 2):
            _next(packets)
        yield from _blocks(packets, block)
    finally:
        packets.release()
    connection._execute_command(_CLOSE, struct.pack("<I", number))


def _blocks(packets: Packets, block: int) -> Iterator[bytes]:
    state = np.zeros(1, np.int64)
    while True:
        data = packets.data[packets.at : packets.end]
        _rows, end = result_kernels.count_packets(np.ascontiguousarray(data), state)
        if state[0] == 3 and not end and (large := packets.large()) is not None:
            row, packets.at = large
            yield LARGE + len(row).to_bytes(8, "little") + row
            continue
        if end and (state[0] or end >= block):
            yield data[:end].tobytes()
            packets.at += end
            continue
        if state[0] == 2:
            raise result_error(*parse_error(packets.payload()))
        if state[0] == 1:
            packets.at += 4 + len(packets.payload())
            return
        if not packets.receive(WAIT_SECONDS):
            raise Retry("the server has said nothing while a table was being copied")


def count_rows(block: bytes) -> int:
    """How many rows a block has."""
    if block.startswith(LARGE):
        return 1
    rows, _end = result_kernels.count_packets(np.frombuffer(block, dtype=np.uint8).copy(), np.zeros(1, np.int64))
    return int(rows)


def _next(packets: Packets) -> bytes:
    while packets.at + 4 > packets.end or packets.at + 4 + _size(packets) > packets.end:
        if not packets.receive(WAIT_SECONDS):
            raise Retry("the server has said nothing while a table was being copied")
    payload = packets.payload()
    packets.at += 4 + len(payload)
    if payload[:1] == b"\xff":
        raise result_error(*parse_error(payload))
    return payload


def _size(packets: Packets) -> int:
    return int.from_bytes(packets.data[packets.at : packets.at + 3].tobytes(), "little")


def _column_type(definition: bytes) -> int:
    at = 0
    for _ in range(6):
        size, at = length_encoded(definition, at)
        at += size
    # length of what follows, character set, length, type
    return definition[at + 7]


def result_error(code: int, text: str) -> HeadwaterError:
    """Why a table could not be copied to its end."""
    if code == 1412:
        return Retry("a table's definition was changed while it was being copied")
    if code in (1142, 1143):
        return Stop(f"cannot copy a table: {text}", "grant select on … to …;")
    return Retry(f"copying a table ended early: {text} (error {code})")
