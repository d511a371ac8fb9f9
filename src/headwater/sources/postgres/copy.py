"""Copying one row range of a table by `COPY … TO STDOUT`; `chunks.py` has cut the ranges.

COPY's text and pgoutput's are the same representation of a value, so the stream's parsers read both and
snapshot and stream are equal by construction.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg
import pyarrow as pa
from psycopg import pq, sql
from psycopg.pq.abc import PGresult

from headwater.errors import Retry, Stop
from headwater.event import ChangeBatch, Chunk, Position, TableRun, TableSchema, change_schema
from headwater.sources.base import CopyChunk, Snapshot
from headwater.sources.postgres import kernels, values
from headwater.sources.postgres.connection import NOT_UTF8, ServerError, connect, not_utf8
from headwater.sources.postgres.options import PostgresOptions
from headwater.sources.postgres.types import made_fitting, text_in_events
from headwater.sources.postgres.wire import READ_BYTES, Refused, copy_out, speaks_plainly

# Ends a row of COPY text; inside a value it is escaped.
NEWLINE = ord("\n")


def copy_rows(
    connection: psycopg.Connection[Any], chunk: CopyChunk, snapshot: Snapshot, snapshot_name: str, *, events: bool
) -> Iterator[ChangeBatch]:
    """The rows of one chunk as they were in the exported snapshot, as changes with op `r`."""
    for lines in copy_text(connection, chunk, snapshot_name):

        def rows(table: TableSchema, text: npt.NDArray[np.uint8] = lines) -> ChangeBatch:
            # Events may have to read the text again, and parsing changes it.
            parsed = parse_text(text.copy() if events else text, table)
            return read_batch(table, parsed, snapshot.position, snapshot.taken, snapshot.detail.get("xid"))

        yield made_fitting(rows, chunk.table, text_in_events) if events else rows(chunk.table)


def copy_chunks(options: PostgresOptions, snapshot: Snapshot, after: Position) -> Iterator[Chunk]:
    """All rows of a snapshot as COPY text, for the journal."""
    for chunk in snapshot.chunks:
        with connect(options) as connection:
            for lines in copy_text(connection, chunk, snapshot.detail["snapshot"]):
                table, rows = chunk.table, int(np.count_nonzero(lines == NEWLINE))
                upto = Position(after.commit, after.ordinal + rows)
                yield Chunk(
                    frames=lines.tobytes(),
                    lengths=np.array([len(lines)], np.uint32),
                    first=after,
                    last=upto,
                    whole=False,
                    tables=(TableRun(table.detail["oid"], table.table, table.id, rows),),
                    context={"copy": True, "time": snapshot.taken, "xid": snapshot.detail["xid"]},
                    commit_time=snapshot.taken,
                )
                after = upto


def copy_text(
    connection: psycopg.Connection[Any], chunk: CopyChunk, snapshot_name: str
) -> Iterator[npt.NDArray[np.uint8]]:
    """The same rows as COPY's own text, whole lines, several megabytes at a time; the caller may change them."""
    lines = copy_out if speaks_plainly(connection) else _lines
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        try:
            connection.execute(sql.SQL("set transaction snapshot {}").format(sql.Literal(snapshot_name)))
        except (psycopg.errors.UndefinedObject, psycopg.errors.InvalidParameterValue) as error:
            raise Retry(
                "the exported snapshot is gone: the connection that held it has ended", cause=str(error).strip()
            ) from error
        table = _lock(connection, chunk)
        try:
            yield from lines(connection, _statement(table, chunk).as_bytes(connection))
        except Refused as error:
            if error.sqlstate in NOT_UTF8:
                raise not_utf8(chunk.table.table, error.text) from error
            if error.begun:
                raise Retry("COPY ended early", cause=error.text) from error
            raise _cannot_copy(chunk, table.as_string(connection), error.text) from error
        except GeneratorExit:
            # Nobody wants the rest; it would have to be read before this connection could say anything else.
            connection.pgconn.finish()
            raise


def _lock(connection: psycopg.Connection[Any], chunk: CopyChunk) -> sql.Identifier:
    """The table's name, once nobody can rewrite the table any more and nobody has since the snapshot.

    A rewritten table (ALTER … TYPE, TRUNCATE, VACUUM FULL) shows its rows to no older snapshot, or in other
    places than our ranges were cut for."""
    row = connection.execute(
        "select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = %s",
        [chunk.where["oid"]],
    ).fetchone()
    if row is None:
        raise Retry(f"the table {chunk.table.table} was dropped before it could be copied")
    name = sql.Identifier(*row)
    try:
        connection.execute(sql.SQL("lock table only {} in access share mode").format(name))
    except psycopg.errors.UndefinedTable as error:
        raise Retry(f"the table {chunk.table.table} was renamed or dropped before it could be copied") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise _cannot_copy(chunk, name.as_string(connection), str(error.diag.message_primary)) from error
    # pg_class is read under the snapshot, pg_relation_filenode() sees what is there now.
    same = connection.execute(
        "select relfilenode = pg_relation_filenode(oid) from pg_class where oid = %s", [chunk.where["oid"]]
    ).fetchone()
    if same is None or not same[0]:
        raise Retry(f"the table {chunk.table.table} was rewritten while it was being copied")
    return name


def _cannot_copy(chunk: CopyChunk, name: str, cause: str) -> Stop:
    return Stop(
        f"cannot copy {chunk.table.table}",
        f"If it is a privilege:         grant select on {name} to …;",
        "If it is row-level security:  alter role … bypassrls;",
        cause=cause,
    )


def _statement(table: sql.Identifier, chunk: CopyChunk) -> sql.Composed:
    conditions: list[sql.Composable] = []
    if chunk.where["first"]:
        conditions.append(sql.SQL("ctid >= {}::tid").format(sql.Literal(f"({chunk.where['first']},0)")))
    if chunk.where["last"] is not None:
        conditions.append(sql.SQL("ctid < {}::tid").format(sql.Literal(f"({chunk.where['last']},0)")))
    if chunk.where["filter"]:
        # The publication's own row filter, as the server prints it: fully qualified.
        conditions.append(sql.SQL("({})").format(sql.SQL(chunk.where["filter"])))
    return sql.SQL("copy (select {} from only {}{}) to stdout").format(
        sql.SQL(", ").join(sql.Identifier(column.name) for column in chunk.table.columns),
        table,
        sql.SQL(" where {}").format(sql.SQL(" and ").join(conditions)) if conditions else sql.SQL(""),
    )


def _lines(connection: psycopg.Connection[Any], statement: bytes) -> Iterator[npt.NDArray[np.uint8]]:
    """What `wire.copy_out` does, by libpq: through TLS."""
    pgconn = connection.pgconn
    result = pgconn.exec_(statement)
    if result.status != pq.ExecStatus.COPY_OUT:
        raise _refused(result, begun=False)
    gathered: list[memoryview] = []
    size = 0
    while True:
        try:
            count, data = pgconn.get_copy_data(0)
        except psycopg.OperationalError as error:
            raise Retry("COPY ended early", cause=" ".join(str(error).split())) from error
        if count < 0:
            break
        gathered.append(data)
        size += count
        if size >= READ_BYTES:
            yield _joined(gathered)
            gathered, size = [], 0
    # Before the last rows are handed on: rows of a COPY that failed are not all of them.
    while (final := pgconn.get_result()) is not None:
        if final.status == pq.ExecStatus.FATAL_ERROR:
            raise _refused(final, begun=True)
    if gathered:
        yield _joined(gathered)


def _refused(result: PGresult, *, begun: bool) -> Refused:
    error = ServerError(result)
    return Refused(error.sqlstate, error.text, begun=begun)


def _joined(lines: list[memoryview]) -> npt.NDArray[np.uint8]:
    return np.frombuffer(bytearray().join(lines), dtype=np.uint8)


def parse_text(text: npt.NDArray[np.uint8], table: TableSchema) -> pa.StructArray:
    """Lines of COPY text as typed rows. Undoes the escapes in place: the text is not COPY's any more then."""
    rows = int(np.count_nonzero(text == NEWLINE))
    columns = len(table.columns)
    start, size = np.empty((columns, rows), np.int64), np.empty((columns, rows), np.int32)
    bad = kernels.copy_bounds(text, columns, start, size)
    if bad >= 0:
        raise Stop(f"COPY of {table.table} gave a line that does not have {columns} columns (line {bad})")
    arrays = [values.parse(column, text, start[c], size[c], table.table) for c, column in enumerate(table.columns)]
    return pa.StructArray.from_arrays(arrays, fields=list(table.arrow))


def read_batch(
    table: TableSchema,
    after: pa.StructArray,
    position: Position,
    taken: int,
    xid: int | None,
    *,
    numbered: bool = False,
) -> ChangeBatch:
    """Snapshot rows as changes: op `r`, all at the snapshot's position, or `numbered` from behind it. `xid` is the
    newest transaction that the snapshot sees."""
    rows = len(after)
    # As long as the next power of two, to serve the next batch too: filling them took a fifth of a snapshot's time.
    room = 1 << max(0, rows - 1).bit_length()
    same = _same_for_all(table.arrow, room, position.commit, position.ordinal, taken, xid)
    op, commit, ordinal, time, transaction, before, unchanged = (column.slice(0, rows) for column in same)
    if numbered:
        ordinal = pa.array(np.arange(1, rows + 1) + position.ordinal)
    arrays = [op, commit, ordinal, commit, time, transaction, before, after, unchanged]
    return ChangeBatch(table, pa.RecordBatch.from_arrays(arrays, schema=change_schema(table)))


@lru_cache(maxsize=4)
def _same_for_all(
    row: pa.DataType, rows: int, commit: int, ordinal: int, taken: int, xid: int | None
) -> tuple[pa.Array, ...]:
    """The columns in which the changes of a snapshot do not differ."""

    def constant(value: object, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), rows)

    return (
        constant("r", pa.string()),
        constant(commit, pa.int64()),
        constant(ordinal, pa.int64()),
        constant(taken, pa.timestamp("us", tz="UTC")),
        constant(xid, pa.int64()),
        pa.nulls(rows, row),
        pa.nulls(rows, pa.list_(pa.string())),
    )
