"""What a real MariaDB sent (tests/golden/mysql), and a builder to feed it to."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from headwater.event import Chunk, TableSchema
from headwater.sources.mysql.frames import ChunkBuilder
from headwater.sources.mysql.position import MariaDbProgress, at
from headwater.sources.mysql.relation import relation_schema
from headwater.sources.mysql.table_map import TableMap

PACKETS = (Path(__file__).parents[3] / "golden" / "mysql" / "mariadb.packets").read_bytes()
# Collations that the recording names.
CHARSETS = {45: "utf8mb4", 63: "binary", 8: "latin1", 33: "utf8mb3", 224: "utf8mb4"}


class Reader:
    """A builder, and the schemas it has named."""

    def __init__(self, captured: str = "") -> None:
        self.schemas: dict[str, TableSchema] = {}
        self._captured = captured
        start = MariaDbProgress()
        self.builder = ChunkBuilder(at(start), start, self.describe, lambda _database, _table: [])

    def describe(self, found: TableMap) -> TableSchema | None:
        if self._captured not in ("", found.name):
            return None
        schema = relation_schema(found, None, CHARSETS, {})
        self.schemas[schema.id] = schema
        return schema

    def feed(self, data: bytes) -> list[Chunk]:
        """Packets, as a connection would bring them; what is handed on when it falls silent."""
        buffer = np.frombuffer(data, dtype=np.uint8).copy()
        place, chunks = 0, []
        while True:
            why, place = self.builder.take_packets(buffer, place, buffer.size)
            if why != 2:
                break
            while (chunk := self.builder.buffer.take()) is not None:
                chunks.append(chunk)
        self.rest = data[place:]
        while (chunk := self.builder.buffer.take()) is not None:
            chunks.append(chunk)
        return chunks


def events(data: bytes = PACKETS) -> list[bytes]:
    """The events of packets, with their checksums."""
    found, place = [], 0
    while place < len(data):
        size = int.from_bytes(data[place : place + 3], "little")
        found.append(data[place + 5 : place + 4 + size])
        place += 4 + size
    return found
