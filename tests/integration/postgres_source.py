"""A PostgreSQL source over a test's own database, and its log as plain rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.conftest import Database

from headwater.event import ChangeBatch, Chunk, Position, TableSchema
from headwater.options import parse_options
from headwater.sources.base import Log
from headwater.sources.postgres.options import PostgresOptions
from headwater.sources.postgres.source import Postgres

SECONDS = 20.0


def make_source(database: Database, /, **options: Any) -> Postgres:
    """Slots belong to the whole server, so the slot is named after the database."""
    given = {"url": database.url, "slot": database.name, "publication": "pub", **options}
    return Postgres(parse_options(PostgresOptions, given, where="source", name="test"))


@contextmanager
def open_log(source: Postgres, after: Position | None = None) -> Iterator[Log]:
    """The log from `after` on; without it publication and slot are made first."""
    begin = source.prepare(None) if after is None else after
    source.close()
    log = source.log(begin)
    try:
        yield log
    finally:
        log.close()


def read_chunks(log: Log, until: Callable[[list[Chunk]], bool]) -> list[Chunk]:
    """Chunks until the condition holds of what was read."""
    chunks: list[Chunk] = []
    deadline = time.monotonic() + SECONDS
    while not until(chunks):
        assert time.monotonic() < deadline, f"only {sum(chunk.changes for chunk in chunks)} changes came"
        chunk = log.read(0.2)
        if chunk is not None:
            chunks.append(chunk)
    return chunks


def read_changes(log: Log, count: int) -> list[Chunk]:
    """Whole transactions with at least `count` changes."""
    return read_chunks(log, lambda read: bool(read) and read[-1].whole and sum(c.changes for c in read) >= count)


def batches(log: Log, chunks: list[Chunk]) -> list[ChangeBatch]:
    found = []
    for chunk in chunks:
        schemas: dict[str, TableSchema] = {run.schema: log.schema(run.schema) for run in chunk.tables}
        found.extend(Postgres.decode(chunk, schemas))
    return found


def changes(log: Log, chunks: list[Chunk]) -> list[dict[str, Any]]:
    """Every change as a dict with its table, in log order."""
    rows = [
        {"table": batch.table.table, **record} for batch in batches(log, chunks) for record in batch.records.to_pylist()
    ]
    return sorted(rows, key=lambda row: (row["commit"], row["ordinal"]))


def snapshot_rows(source: Postgres, table: str | None = None, tasks: int = 2) -> list[dict[str, Any]]:
    """The rows of a snapshot, with their `_table`."""
    tables = [each for each in source.tables() if table in (None, each.table)]
    rows = []
    with source.snapshot(tables, tasks) as snapshot:
        for chunk in snapshot.chunks:
            for batch in source.copy(chunk, snapshot):
                rows.extend({"_table": batch.table.table, **row} for row in batch.after.to_pylist())
    return rows
