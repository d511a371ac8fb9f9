"""Cutting tables into row ranges for parallel copying."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from headwater.event import TableSchema
from headwater.sources.base import CopyChunk
from headwater.sources.postgres.publication import Published

PAGE_BYTES = 8192
# One task's share of a table: 64 MB of heap is about a second of COPY and one Parquet file of 10-30 MB.
CHUNK_PAGES = (64 << 20) // PAGE_BYTES
# Below this a table is not worth a second task.
SMALL_PAGES = (4 << 20) // PAGE_BYTES


def plan_chunks(
    connection: psycopg.Connection[Any],
    tables: Sequence[TableSchema],
    published: Mapping[tuple[str, str], Published],
    tasks: int,
) -> list[CopyChunk]:
    """Row ranges of every table. `ctid` ranges: exact, need no key, read each page once (PostgreSQL 14+)."""
    chunks = []
    for table in tables:
        row_filter = published[(table.schema, table.name)].row_filter
        for oid, pages in _heaps(connection, table):
            step = chunk_pages(pages, tasks)
            starts = range(0, max(pages, 1), step)
            for first in starts:
                last = first + step if first != starts[-1] else None
                where = {"oid": oid, "first": first, "last": last, "filter": row_filter}
                chunks.append(CopyChunk(table, where, min(step, pages - first) * PAGE_BYTES))
    return chunks


def table_bytes(connection: psycopg.Connection[Any], tables: Sequence[TableSchema]) -> dict[str, int]:
    """How much there is to copy of each table."""
    return {t.table: sum(pages for _oid, pages in _heaps(connection, t)) * PAGE_BYTES for t in tables}


def chunk_pages(pages: int, tasks: int) -> int:
    """Pages a chunk, so that all tasks are busy to the end: 1.3 chunks for each would take as long as 2."""
    turns = -(-pages // (CHUNK_PAGES * tasks))
    return max(SMALL_PAGES, -(-pages // (max(1, turns) * tasks)))


def _heaps(connection: psycopg.Connection[Any], table: TableSchema) -> list[tuple[int, int]]:
    """(oid, pages) of the table itself, or of every leaf when it is partitioned."""
    rows = connection.execute(
        "select t.relid::oid::int8, pg_relation_size(t.relid) / %s"
        " from pg_partition_tree(%s::oid::regclass) t where t.isleaf"
        if table.detail["kind"] == "p"
        else "select c.oid::int8, pg_relation_size(c.oid) / %s from pg_class c where c.oid = %s",
        [PAGE_BYTES, table.detail["oid"]],
    ).fetchall()
    return [(oid, pages) for oid, pages in rows]
