"""What hurts a pipeline on PostgreSQL after weeks rather than at its start, each with the SQL that mends it.

Only looks; `check.py` says what prevents starting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
from psycopg import sql

from headwater.event import TableSchema
from headwater.sources.base import Finding, Holder, Severity
from headwater.sources.postgres.catalog import describe
from headwater.sources.postgres.connection import connect
from headwater.sources.postgres.options import PostgresOptions
from headwater.sources.postgres.publication import find_publication, published_tables
from headwater.sources.postgres.retention import find_holders

_OK, _WARNING, _ERROR = Severity.OK, Severity.WARNING, Severity.ERROR

# A transaction open for longer keeps the slot from letting WAL go, and vacuum from cleaning up.
LONG_SECONDS = 300.0

Captured = Callable[[str, str], bool]


def examine(
    options: PostgresOptions, captured: Captured, *, running: bool, long_seconds: float = LONG_SECONDS
) -> list[Finding]:
    """What `Source.examine` adds to `check`."""
    with connect(options) as connection:
        tables = [table for table in describe(connection) if captured(table.schema, table.name)]
        return [
            *_timeouts(connection),
            *_long_transactions(connection, long_seconds),
            *_prepared_transactions(connection, long_seconds),
            *_slots(options, find_holders(options), running),
            *_tables(connection, options, tables, running),
        ]


def _timeouts(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    # Our own session has set it to 0; `reset_val` is what everybody else gets.
    row = connection.execute(
        "select reset_val from pg_settings where name = 'idle_in_transaction_session_timeout'"
    ).fetchone()
    if row and row[0] == "0":
        text = "idle_in_transaction_session_timeout is unset: a forgotten transaction keeps WAL for ever"
        remedy = "alter system set idle_in_transaction_session_timeout = '10min'; select pg_reload_conf();"
        yield Finding("timeouts", _WARNING, text, remedy)


def _long_transactions(connection: psycopg.Connection[Any], long_seconds: float) -> Iterator[Finding]:
    """Not the query's text: it may hold what nobody should read here."""
    for pid, user, state, seconds, began, query_began in connection.execute(
        "select pid, usename, state, extract(epoch from clock_timestamp() - xact_start)::float8,"
        " date_trunc('second', xact_start)::text, date_trunc('second', query_start)::text"
        " from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
        " and (backend_xid is not null or backend_xmin is not null)"
        " and clock_timestamp() - xact_start > %s * interval '1 second' order by xact_start",
        [long_seconds],
    ):
        text = (
            f"PID {pid} of {user} has a transaction open for {seconds / 60:.0f} min (since {began}; {state},"
            f" its query began {query_began}): it holds the slot back"
        )
        yield Finding("transactions", _WARNING, text, f"select pg_terminate_backend({pid});")


def _prepared_transactions(connection: psycopg.Connection[Any], long_seconds: float) -> Iterator[Finding]:
    for gid, prepared in connection.execute(
        "select gid, date_trunc('second', prepared)::text from pg_prepared_xacts"
        " where database = current_database() and clock_timestamp() - prepared > %s * interval '1 second'",
        [long_seconds],
    ):
        text = f"the prepared transaction {gid!r} has been waiting since {prepared}: it holds the slot back"
        remedy = sql.SQL("rollback prepared {};   -- or commit prepared").format(sql.Literal(gid)).as_string(connection)
        yield Finding("transactions", _WARNING, text, remedy)


def _slots(options: PostgresOptions, holders: list[Holder], running: bool) -> Iterator[Finding]:
    for holder in holders:
        subject = f'slot "{holder.name}"'
        own = holder.name == options.slot
        drop = f"headwater slots drop {holder.name} URL"
        if holder.lost:
            # Ours is an error of `check`.
            if not own:
                yield Finding(subject, _WARNING, "lost: of no use to its reader any more", drop)
        elif holder.status in ("extended", "unreserved"):
            left = "" if holder.safe_bytes is None else f", {max(0, holder.safe_bytes) >> 20} MB before it is lost"
            text = f"wal_status {holder.status}: it retains {holder.retained_bytes >> 20} MB of WAL{left}"
            remedy = "Let its reader catch up, or raise max_slot_wal_keep_size" if own else drop
            yield Finding(subject, _ERROR if holder.status == "unreserved" and own else _WARNING, text, remedy)
        if own and running and holder.active_pid is None:
            yield Finding(subject, _ERROR, "the pipeline runs, but nobody reads from its slot", "See: headwater status")
        elif not own and holder.active_pid is None and not holder.lost:
            text = f"nobody reads from it; it retains {holder.retained_bytes >> 20} MB of WAL"
            yield Finding(subject, _WARNING, text, f"Start its reader, or: {drop}")


def _tables(
    connection: psycopg.Connection[Any], options: PostgresOptions, tables: list[TableSchema], running: bool
) -> Iterator[Finding]:
    for table in tables:
        name = sql.Identifier(table.schema, table.name).as_string(connection)
        if table.detail["persistence"] == "u":
            text = "unlogged: its changes are never in the log, and it is not captured"
            yield Finding(table.table, _WARNING, text, f"alter table {name} set logged;   -- or exclude it")
        elif not table.key and table.columns:
            text = "no primary key: an upsert sink cannot tell its rows apart"
            yield Finding(table.table, _WARNING, text, f"alter table {name} add primary key (…);")
    if find_publication(connection, options.publication) is None:
        return
    have = published_tables(connection, options.publication)
    lacking = [
        table.table
        for table in tables
        if table.detail["persistence"] == "p" and table.detail["kind"] == "r" and "root" not in table.detail
        if (table.schema, table.name) not in have
    ]
    subject = f'publication "{options.publication}"'
    if lacking and options.publication_autocreate != "disabled":
        text = f"does not hold {', '.join(lacking[:5])} yet" + f" and {len(lacking) - 5} more" * (len(lacking) > 5)
        remedy = "Restart the pipeline: it adds them" if running else "headwater run adds them"
        yield Finding(subject, _WARNING if running else _OK, text, remedy)
    known = {(table.schema, table.name) for table in tables}
    if strangers := [f"{schema}.{name}" for schema, name in have if (schema, name) not in known]:
        text = f"also publishes {', '.join(strangers[:5])}" + " …" * (len(strangers) > 5)
        yield Finding(subject, _OK, f"{text}, which nobody captures here: read and left out")
