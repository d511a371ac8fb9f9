"""Copying one row range of a table by `COPY … TO STDOUT`; `chunks.py` has cut the ranges.

COPY's text and pgoutput's are the same representation of a value, so the stream's parsers read both and
snapshot and stream are equal by construction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql

from headwater.errors import Retry, Stop
from headwater.event import ChangeBatch, Position, TableSchema, change_schema
from headwater.sources.base import CopyChunk, Snapshot
from headwater.sources.postgres import kernels, values

# Rows are parsed when this much text has come.
PARSE_BYTES = 8 << 20


def copy_rows(
    connection: psycopg.Connection[Any], chunk: CopyChunk, snapshot: Snapshot, snapshot_name: str
) -> Iterator[ChangeBatch]:
    """The rows of one chunk as they were in the exported snapshot, as changes with op `r`."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        try:
            connection.execute(sql.SQL("set transaction snapshot {}").format(sql.Literal(snapshot_name)))
        except (psycopg.errors.UndefinedObject, psycopg.errors.InvalidParameterValue) as error:
            raise Retry(
                "the exported snapshot is gone: the connection that held it has ended", cause=str(error).strip()
            ) from error
        # A row filter was written under the owner's search_path but is printed fully qualified.
        connection.execute("set local search_path = pg_catalog")
        statement = _statement(connection, chunk)
        pgconn = connection.pgconn
        result = pgconn.exec_(statement.as_bytes(connection))
        if result.status != psycopg.pq.ExecStatus.COPY_OUT:
            text = (result.error_field(psycopg.pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")
            raise Stop(f"cannot copy {chunk.table.table}: {text}", f"grant select on {chunk.table.table} to …;")
        for lines in _lines(pgconn):
            yield _parse(lines, chunk.table, snapshot)


def _statement(connection: psycopg.Connection[Any], chunk: CopyChunk) -> sql.Composed:
    row = connection.execute(
        "select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = %s",
        [chunk.where["oid"]],
    ).fetchone()
    if row is None:
        raise Stop(f"the table {chunk.table.table} was dropped while it was being copied", "Run again")
    conditions: list[sql.Composable] = []
    if chunk.where["first"]:
        conditions.append(sql.SQL("ctid >= {}::tid").format(sql.Literal(f"({chunk.where['first']},0)")))
    if chunk.where["last"] is not None:
        conditions.append(sql.SQL("ctid < {}::tid").format(sql.Literal(f"({chunk.where['last']},0)")))
    if chunk.where["filter"]:
        # The publication's own row filter, as the server prints it.
        conditions.append(sql.SQL(chunk.where["filter"]))
    return sql.SQL("copy (select {} from only {}{}) to stdout").format(
        sql.SQL(", ").join(sql.Identifier(column.name) for column in chunk.table.columns),
        sql.Identifier(*row),
        sql.SQL(" where {}").format(sql.SQL(" and ").join(conditions)) if conditions else sql.SQL(""),
    )


def _lines(pgconn: psycopg.pq.abc.PGconn) -> Iterator[bytes]:
    """Whole lines of COPY text, several megabytes at a time."""
    gathered: list[Any] = []
    size = 0
    while True:
        count, data = pgconn.get_copy_data(0)
        if count < 0:
            break
        gathered.append(data)
        size += count
        if size >= PARSE_BYTES:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)
    final = pgconn.get_result()
    while final is not None:
        if final.status == psycopg.pq.ExecStatus.FATAL_ERROR:
            text = (final.error_field(psycopg.pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")
            raise Retry(f"COPY ended early: {text}")
        final = pgconn.get_result()


def _parse(lines: bytes, table: TableSchema, snapshot: Snapshot) -> ChangeBatch:
    text = np.frombuffer(lines, dtype=np.uint8).copy()
    rows = int(np.count_nonzero(text == 10))
    columns = len(table.columns)
    start, size = np.empty((columns, rows), np.int64), np.empty((columns, rows), np.int32)
    bad = kernels.copy_bounds(text, columns, start, size)
    if bad >= 0:
        raise Stop(f"COPY of {table.table} gave a line that does not have {columns} columns (line {bad})")
    arrays = [values.parse(column, text, start[c], size[c], table.table) for c, column in enumerate(table.columns)]
    return read_batch(
        table, pa.StructArray.from_arrays(arrays, fields=list(table.arrow)), snapshot.position, snapshot.taken
    )


def read_batch(table: TableSchema, after: pa.StructArray, position: Position, taken: int) -> ChangeBatch:
    """Snapshot rows as changes: op `r`, all at the snapshot's position."""
    rows = len(after)

    def constant(value: object, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), rows)

    schema = change_schema(table)
    arrays = [
        constant("r", pa.string()),
        constant(position.commit, pa.int64()),
        constant(position.ordinal, pa.int64()),
        constant(position.commit, pa.int64()),
        constant(taken, pa.timestamp("us", tz="UTC")),
        pa.nulls(rows, pa.int64()),
        pa.nulls(rows, table.arrow),
        after,
        pa.nulls(rows, pa.list_(pa.string())),
    ]
    return ChangeBatch(table, pa.RecordBatch.from_arrays(arrays, schema=schema))
