"""The publication: which tables, columns and rows the server hands out. Created before the slot.

Knows SQL only. A publication dropped and recreated poisons a lagging slot, so ours is altered, never
replaced.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from headwater.errors import Stop, Usage
from headwater.event import TableSchema
from headwater.journal.folder import read_json, write_atomically
from headwater.sources.postgres.options import PostgresOptions


@dataclass(frozen=True)
class Publication:
    """One row of pg_publication."""

    # The operations that it hands out, in SQL's words.
    operations: tuple[str, ...]
    # Whether changes of partitions come under their root's name.
    via_root: bool


FILE = "publication.json"
OPERATIONS = ("insert", "update", "delete", "truncate")


@dataclass(frozen=True)
class Published:
    """One table of a publication: the columns and rows that it hands out."""

    # None: all columns (server older than 15).
    columns: tuple[str, ...] | None
    row_filter: str | None


def find_publication(connection: psycopg.Connection[Any], name: str) -> Publication | None:
    """The publication of that name in this database, or None."""
    row = connection.execute(
        "select pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot from pg_publication where pubname = %s",
        [name],
    ).fetchone()
    if row is None:
        return None
    return Publication(tuple(name for name, has in zip(OPERATIONS, row, strict=False) if has), row[4])


def published_tables(connection: psycopg.Connection[Any], name: str) -> dict[tuple[str, str], Published]:
    """(schema, table) → what the publication hands out of it."""
    if connection.info.server_version >= 150000:
        rows = connection.execute(
            "select schemaname, tablename, attnames, rowfilter from pg_publication_tables where pubname = %s", [name]
        ).fetchall()
        return {(s, t): Published(tuple(columns), row_filter) for s, t, columns, row_filter in rows}
    rows = connection.execute(
        "select schemaname, tablename from pg_publication_tables where pubname = %s", [name]
    ).fetchall()
    return {(s, t): Published(None, None) for s, t in rows}


def ensure_publication(
    connection: psycopg.Connection[Any], options: PostgresOptions, tables: Sequence[TableSchema]
) -> list[str]:
    """Create the publication for `tables`, or add the ones it lacks; returns what was added."""
    name = options.publication
    exists = find_publication(connection, name) is not None
    if options.publication_autocreate == "disabled":
        if not exists:
            raise missing_publication(options, tables, "publication_autocreate is disabled")
        return []
    if not exists:
        _execute(connection, create_statement(options, tables), options)
        return [table.table for table in tables]
    have = published_tables(connection, name)
    lacking = [table for table in tables if (table.schema, table.name) not in have]
    if lacking:
        _execute(connection, add_statement(options, lacking), options)
    return [table.table for table in lacking]


def refuse_narrowed(connection: psycopg.Connection[Any], options: PostgresOptions, folder: Path | None) -> None:
    """Stop when the publication hands out less than it did: what it leaves out is gone from the log without a word.

    `folder` remembers what it handed out."""
    publication = find_publication(connection, options.publication)
    if publication is None or folder is None or not folder.is_dir():
        # One that is missing is told by whoever reads the slot.
        return
    known = (read_json(folder / FILE) or {}).get("operations", [])
    gone = [name for name in known if name not in publication.operations]
    if gone:
        name = sql.Identifier(options.publication).as_string(connection)
        raise Stop(
            f'the publication "{options.publication}" leaves out every {" and ".join(gone)}, which it did not before',
            f"To mend it: alter publication {name} set (publish = '{', '.join(known)}');",
            "then load the tables anew: drop the slot, remove the state folder and the tables in the lake, run again",
            f"If you mean it: remove {folder / FILE}, and run again",
            cause="Somebody altered it; changes of that kind since then are not in the log, and never will be",
        )
    if set(known) != set(publication.operations):
        write_atomically(folder / FILE, json.dumps({"operations": publication.operations}))


def create_statement(options: PostgresOptions, tables: Sequence[TableSchema]) -> sql.Composed:
    """CREATE PUBLICATION for exactly these tables (or for all, when asked to)."""
    parts: list[sql.Composable] = [sql.SQL("create publication"), sql.Identifier(options.publication)]
    if options.publication_autocreate == "all_tables":
        parts.append(sql.SQL("for all tables"))
    elif tables:
        parts.append(sql.SQL("for table {}").format(_names(tables)))
    if options.publish_via_partition_root:
        parts.append(sql.SQL("with (publish_via_partition_root = true)"))
    return sql.SQL(" ").join(parts)


def add_statement(options: PostgresOptions, tables: Sequence[TableSchema]) -> sql.Composed:
    """ALTER PUBLICATION … ADD TABLE for these tables."""
    return sql.SQL("alter publication {} add table {}").format(sql.Identifier(options.publication), _names(tables))


def missing_publication(options: PostgresOptions, tables: Sequence[TableSchema], cause: str) -> Usage:
    """The error that carries the statement a privileged person can paste."""
    statement = create_statement(options, tables).as_string(None)
    return Usage(
        f'the publication "{options.publication}" does not exist and was not created',
        f"Run as the tables' owner: {statement};",
        cause=cause,
    )


def _names(tables: Sequence[TableSchema]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(table.schema, table.name) for table in tables)


def _execute(connection: psycopg.Connection[Any], statement: sql.Composed, options: PostgresOptions) -> None:
    try:
        connection.execute(statement)
    except psycopg.errors.InsufficientPrivilege as error:
        raise Usage(
            f'this role may not change the publication "{options.publication}"',
            f"Run as the tables' owner: {statement.as_string(None)};",
            "or set publication_autocreate: disabled and publish what you like",
            cause=str(error.diag.message_primary),
        ) from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise Usage(
            f'the publication "{options.publication}" cannot be changed on a standby',
            f"Run on the primary: {statement.as_string(None)};",
        ) from error
    except (psycopg.ProgrammingError, psycopg.NotSupportedError, psycopg.DataError) as error:
        raise Usage(
            f'the publication "{options.publication}" cannot be made as wanted: {error.diag.message_primary}',
            f"Run it yourself, changed as needed: {statement.as_string(None)};",
            "and set publication_autocreate: disabled",
        ) from error
