"""A MySQL or MariaDB source on a test's own database, and its log read to the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from headwater.event import ChangeBatch, Chunk, Position
from headwater.options import Secret
from headwater.sources.base import Log
from headwater.sources.mysql import MySql
from headwater.sources.mysql.options import MySqlOptions
from headwater.testing.mysql import MySqlServer

SetGlobal = Callable[[str, str], None]


def source_of(server: MySqlServer, database: str, **options: Any) -> MySql:
    given = {"url": Secret(server.url()), "client": f"test_{database}", "tables": [f"{database}.*"]} | options
    return MySql(MySqlOptions(**given))


@contextmanager
def reading(source: MySql, after: Position | None = None) -> Iterator[Log]:
    log = source.log(after or source.prepare(None))
    try:
        yield log
    finally:
        log.close()


def read_up(source: MySql, log: Log, timeout: float = 60) -> list[Chunk]:
    """Chunks up to where the server is now."""
    target, deadline, chunks = source.end(), time.monotonic() + timeout, []
    while log.lag()["received"] < target:
        assert time.monotonic() < deadline, f"the log did not reach {target}: {log.lag()}"
        if (chunk := log.read(0.2)) is not None:
            chunks.append(chunk)
    return chunks


def changes(source: MySql, log: Log, timeout: float = 60) -> list[dict[str, Any]]:
    """The changes up to where the server is now, in log order."""
    rows = [row for batch in batches(source, log, timeout) for row in with_table(batch)]
    return sorted(rows, key=lambda row: (row["commit"], row["ordinal"]))


def batches(source: MySql, log: Log, timeout: float = 60) -> list[ChangeBatch]:
    found = []
    for chunk in read_up(source, log, timeout):
        found += source.decode(chunk, {run.schema: log.schema(run.schema) for run in chunk.tables})
    return found


def with_table(batch: ChangeBatch) -> list[dict[str, Any]]:
    return [{**row, "table": batch.table.table} for row in batch.records.to_pylist()]


def shown(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["op"], row["before"], row["after"]) for row in rows]
