"""The publication: which tables, columns and rows the server hands out. Created before the slot.

Knows SQL only. A publication dropped and recreated poisons a lagging slot, so ours is altered, never
replaced.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from headwater.errors import Stop, Usage
from headwater.event import TableSchema, qualified
from headwater.journal import SourceFiles
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
    # None: dropped a moment ago.
    oid: int | None


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
    rows = connection.execute(
        # By the catalog: `regclass` would ask for the use of schemas that are none of our business.
        sql.SQL(
            "select p.schemaname, p.tablename, c.oid::bigint, {} from pg_publication_tables p"
            " left join pg_namespace n on n.nspname = p.schemaname"
            " left join pg_class c on c.relnamespace = n.oid and c.relname = p.tablename where p.pubname = %s"
        ).format(sql.SQL("p.attnames, p.rowfilter" if connection.info.server_version >= 150000 else "null, null")),
        [name],
    ).fetchall()
    return {
        (schema, table): Published(None if columns is None else tuple(columns), row_filter, oid)
        for schema, table, oid, columns, row_filter in rows
    }


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


def refuse_narrowed(
    connection: psycopg.Connection[Any],
    options: PostgresOptions,
    captured: Callable[[str, str], bool],
    files: SourceFiles | None,
) -> None:
    """Stop when the publication hands out less than it did: what it leaves out is gone from the log without a word.

    `files` remembers what it handed out."""
    publication = find_publication(connection, options.publication)
    if publication is None or files is None:
        # One that is missing is told by whoever reads the slot.
        return
    known = files.read_json(FILE) or {}
    tables = published_tables(connection, options.publication)
    name = sql.Identifier(options.publication).as_string(connection)
    gone = [each for each in known.get("operations", ()) if each not in publication.operations]
    if gone:
        mended = f"alter publication {name} set (publish = '{', '.join(known['operations'])}');"
        raise _narrowed(options, f"every {' and '.join(gone)}", mended, files)
    for schema, table, row_filter, *oid in known.get("tables", ()):
        now = tables.get((schema, table))
        quoted = sql.Identifier(schema, table).as_string(connection)
        if not captured(schema, table):
            continue
        if now is None and _is_left_out(connection, schema, table, tables):
            mended = f"alter publication {name} add table {quoted};"
            # An earlier version did not remember it.
            if oid and oid[0] != _oid_now(connection, schema, table):
                raise _made_anew(options, qualified(schema, table), mended)
            raise _narrowed(options, qualified(schema, table), mended, files)
        if now is not None and now.row_filter not in (None, row_filter):
            mended = f"alter publication {name} drop table {quoted}; alter publication {name} add table {quoted}"
            mended += f" where {row_filter};" if row_filter else ";"
            raise _narrowed(options, f"rows of {qualified(schema, table)} (where {now.row_filter})", mended, files)
    handed_out = [[*key, each.row_filter, each.oid] for key, each in sorted(tables.items()) if captured(*key)]
    told = {"operations": list(publication.operations), "tables": handed_out}
    if told != known:
        files.write(FILE, json.dumps(told))


def _oid_now(connection: psycopg.Connection[Any], schema: str, table: str) -> int | None:
    row = connection.execute(
        "select c.oid::bigint from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = %s and c.relname = %s",
        [schema, table],
    ).fetchone()
    return row[0] if row else None


def _is_left_out(
    connection: psycopg.Connection[Any], schema: str, table: str, tables: Mapping[tuple[str, str], Published]
) -> bool:
    """Whether a table that is not published is still there, and not published as a part of a partitioned one."""
    rows = connection.execute(
        "select an.nspname, a.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " cross join lateral pg_partition_ancestors(c.oid) as above(oid)"
        " join pg_class a on a.oid = above.oid join pg_namespace an on an.oid = a.relnamespace"
        " where n.nspname = %s and c.relname = %s and c.relispartition"
        " union all select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = %s and c.relname = %s and c.relkind in ('r', 'p')",
        [schema, table, schema, table],
    ).fetchall()
    return bool(rows) and not any(tuple(row) in tables for row in rows)


def _narrowed(options: PostgresOptions, what: str, mended: str, files: SourceFiles) -> Stop:
    return Stop(
        f'the publication "{options.publication}" leaves out {what}, which it did not before',
        f"To mend it: {mended}",
        "then load what it left out anew: headwater snapshot FILE TABLE…, and run again",
        f"If you mean it: remove {files.where(FILE)}, and run again",
        cause="Somebody altered it; such changes since then are not in the log, and never will be",
    )


def _made_anew(options: PostgresOptions, table: str, mended: str) -> Stop:
    return Stop(
        f'{table} is another table than before, and the publication "{options.publication}" does not have it',
        f"To go on with it: {mended}",
        f"then headwater snapshot FILE {table}, and run again",
        cause="It was dropped and made anew, or another was renamed to its name; the log has none of its rows yet",
    )


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
