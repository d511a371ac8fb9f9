"""Cutting tables into key ranges for parallel copying."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from headwater.event import TableSchema
from headwater.sources.base import CopyChunk
from headwater.sources.mysql.connection import Server, quote
from headwater.sources.mysql.types import INTEGERS

# One task's share of a table: about a second of reading, and one Parquet file of 10-30 MB.
CHUNK_BYTES = 64 << 20
# Below this a table is not worth a second task.
SMALL_BYTES = 4 << 20


def plan_chunks(server: Server, tables: Sequence[TableSchema], tasks: int) -> tuple[list[CopyChunk], list[str]]:
    """Key ranges of every table, and the statement that reads each. Ranges of a whole-number key; a table with
    another key, or none, is one chunk."""
    sizes = {
        (str(row["db"]), str(row["tbl"])): int(row["size"] or 0)
        for row in server.dicts(
            "select table_schema as db, table_name as tbl, data_length as size from information_schema.tables"
        )
    }
    chunks: list[CopyChunk] = []
    statements: list[str] = []
    for table in tables:
        columns = ", ".join(quote(column.name) for column in table.columns)
        select = f"select {columns} from {quote(table.schema, table.name)}"  # noqa: S608 - quoted
        size = sizes.get((table.schema, table.name), 0)
        conditions = _ranges(server, table, size, tasks)
        for condition in conditions:
            chunks.append(CopyChunk(table, {"number": len(chunks)}, size // len(conditions)))
            statements.append(select + condition)
    return chunks, statements


def _ranges(server: Server, table: TableSchema, size: int, tasks: int) -> list[str]:
    """Conditions that part the table; the outer ones are open, so that no row is left out."""
    parts = min(-(-size // SMALL_BYTES), max(tasks, -(-size // CHUNK_BYTES)))
    if parts < 2 or not table.key or table.column(table.key[0]).detail["type"] not in INTEGERS:
        return [""]
    key = quote(table.key[0])
    row = server.rows(f"select min({key}), max({key}) from {quote(table.schema, table.name)}")[0]  # noqa: S608
    if row[0] is None or int(row[1]) - int(row[0]) < parts:
        return [""]
    low, high = int(row[0]), int(row[1]) + 1
    bounds = [low + (high - low) * n // parts for n in range(1, parts)]
    conditions = [f" where {key} < {bounds[0]}"]
    conditions += [f" where {key} >= {a} and {key} < {b}" for a, b in pairwise(bounds)]
    return [*conditions, f" where {key} >= {bounds[-1]}"]
