"""Everything that can be wrong with a PostgreSQL source before it starts, each with the SQL that mends it.

Only looks; changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import sql

from headwater.errors import HeadwaterError
from headwater.event import TableSchema
from headwater.sources.base import Finding, Severity
from headwater.sources.postgres.connection import address, connect
from headwater.sources.postgres.options import PostgresOptions
from headwater.sources.postgres.publication import (
    OPERATIONS,
    Publication,
    add_statement,
    create_statement,
    find_publication,
    published_tables,
)
from headwater.sources.postgres.slot import find_slot, refuse_unusable

_OK, _WARNING, _ERROR = Severity.OK, Severity.WARNING, Severity.ERROR

Candidates = Callable[[psycopg.Connection[Any]], list[TableSchema]]


def check(options: PostgresOptions, candidates: Candidates, *, running: bool = False) -> list[Finding]:
    """See `Source.check`. While the pipeline is `running`, somebody reading from its slot is as it should be."""
    try:
        with connect(options) as connection:
            tables = candidates(connection)
            return [
                _server(options, connection),
                *_encoding(connection),
                *_wal_level(connection),
                *_privileges(connection, tables),
                *_capacity(connection, options),
                _slot(connection, options, running),
                *_publication(connection, options, tables),
                *_tables(options, tables),
            ]
    except HeadwaterError as error:
        return [Finding("server", _ERROR, error.what, "; ".join((error.cause, *error.remedies)).strip("; "))]


def _server(options: PostgresOptions, connection: psycopg.Connection[Any]) -> Finding:
    version = connection.info.server_version
    return Finding("server", _OK, f"PostgreSQL {version // 10000}.{version % 10000} at {address(options)}")


def _encoding(connection: psycopg.Connection[Any]) -> list[Finding]:
    if _setting(connection, "server_encoding") != "SQL_ASCII":
        return []
    text = "the database is in SQL_ASCII: a text that is not UTF-8 can be neither read nor passed over"
    return [Finding("encoding", _WARNING, text, "move to a database with encoding UTF8: pg_dump, then restore")]


def _wal_level(connection: psycopg.Connection[Any]) -> list[Finding]:
    level = _setting(connection, "wal_level")
    if level != "logical":
        remedy = "alter system set wal_level = logical;   -- then restart the server"
        return [Finding("wal_level", _ERROR, f"wal_level is {level}, not logical", remedy)]
    found = [Finding("wal_level", _OK, "logical")]
    if _setting(connection, "max_slot_wal_keep_size") == "-1":
        text = "max_slot_wal_keep_size is unlimited: a slot nobody reads can fill the server's disk"
        found.append(Finding("wal", _WARNING, text, "alter system set max_slot_wal_keep_size = '50GB';"))
    # Since PostgreSQL 18.
    if (idle := _setting(connection, "idle_replication_slot_timeout")) not in ("", "None", "0"):
        text = f"idle_replication_slot_timeout is {idle}: the slot is lost when the pipeline is down for longer"
        found.append(Finding("wal", _WARNING, text, "alter system set idle_replication_slot_timeout = 0;"))
    return found


def _privileges(connection: psycopg.Connection[Any], tables: list[TableSchema]) -> list[Finding]:
    # Amazon's servers give REPLICATION through membership in a role of theirs.
    row = connection.execute(
        "select rolreplication or rolsuper or exists (select from pg_roles r where r.rolname = 'rds_replication'"
        " and pg_has_role(current_user, r.oid, 'member')), quote_ident(rolname)"
        " from pg_roles where rolname = current_user"
    ).fetchone() or (False, "current_user")
    may_replicate, role = row
    found = []
    if may_replicate:
        found.append(Finding("role", _OK, f"{role} may replicate"))
    else:
        remedy = f"alter role {role} replication;   -- as a superuser"
        found.append(Finding("role", _ERROR, f"{role} lacks REPLICATION", remedy))
    for table in tables:
        name = sql.Identifier(table.schema, table.name).as_string(connection)
        readable, filtered = connection.execute(
            "select has_table_privilege(%(oid)s::oid, 'select') and has_schema_privilege(%(schema)s, 'usage'),"
            " row_security_active(%(oid)s::oid)",
            {"oid": table.detail["oid"], "schema": table.schema},
        ).fetchone() or (False, False)
        if filtered:
            remedy = f"alter role {role} bypassrls;   -- as a superuser"
            found.append(Finding(table.table, _ERROR, f"row-level security hides rows of it from {role}", remedy))
        if not readable:
            schema = sql.Identifier(table.schema).as_string(connection)
            remedy = f"grant usage on schema {schema} to {role}; grant select on {name} to {role};"
            found.append(Finding(table.table, _ERROR, f"{role} may not read it", remedy))
    return found


def _capacity(connection: psycopg.Connection[Any], options: PostgresOptions) -> list[Finding]:
    found = []
    used = connection.execute("select count(*) from pg_replication_slots").fetchone() or (0,)
    limit = int(_setting(connection, "max_replication_slots"))
    if used[0] >= limit and find_slot(connection, options.slot) is None:
        text = f"all {limit} replication slots are taken"
        found.append(
            Finding("slots", _ERROR, text, f"alter system set max_replication_slots = {limit * 2};   -- restart")
        )
    senders = connection.execute("select count(*) from pg_stat_replication").fetchone() or (0,)
    limit = int(_setting(connection, "max_wal_senders"))
    if senders[0] >= limit:
        text = f"all {limit} WAL senders are busy"
        found.append(Finding("senders", _ERROR, text, f"alter system set max_wal_senders = {limit * 2};   -- restart"))
    return found


def _slot(connection: psycopg.Connection[Any], options: PostgresOptions, running: bool) -> Finding:
    subject = f'slot "{options.slot}"'
    slot = find_slot(connection, options.slot)
    if slot is None:
        return Finding(subject, _OK, "will be created")
    try:
        refuse_unusable(slot, connection.info.dbname)
    except HeadwaterError as error:
        return Finding(subject, _ERROR, error.what, error.remedies[0] if error.remedies else "")
    if slot.active_pid is not None and running:
        return Finding(subject, _OK, f"read by PID {slot.active_pid} on the server, wal_status {slot.wal_status}")
    if slot.active_pid is not None:
        remedy = f"Stop that reader, or: select pg_terminate_backend({slot.active_pid});"
        return Finding(subject, _WARNING, f"in use by PID {slot.active_pid} on the server", remedy)
    return Finding(subject, _OK, f"exists, wal_status {slot.wal_status}")


def _publication(
    connection: psycopg.Connection[Any], options: PostgresOptions, tables: list[TableSchema]
) -> list[Finding]:
    subject = f'publication "{options.publication}"'
    publication = find_publication(connection, options.publication)
    if publication is not None:
        return _existing_publication(connection, options, publication, tables)
    statement = create_statement(options, tables).as_string(connection)
    if options.publication_autocreate == "disabled":
        return [Finding(subject, _ERROR, "does not exist", f"{statement};")]
    foreign = [table.table for table in tables if not _owns(connection, table)]
    may_create = connection.execute("select has_database_privilege(current_database(), 'create')").fetchone()
    if foreign or not (may_create and may_create[0]):
        text = "does not exist, and this role may not create it"
        return [Finding(subject, _ERROR, text, f"{statement};   -- as the tables' owner")]
    return [Finding(subject, _OK, "will be created")]


def _existing_publication(
    connection: psycopg.Connection[Any],
    options: PostgresOptions,
    publication: Publication,
    tables: list[TableSchema],
) -> list[Finding]:
    subject = f'publication "{options.publication}"'
    have = published_tables(connection, options.publication)
    found = [Finding(subject, _OK, f"exists with {len(have)} tables")]
    if missing := [name for name in OPERATIONS if name not in publication.operations]:
        name = sql.Identifier(options.publication).as_string(connection)
        remedy = f"alter publication {name} set (publish = '{', '.join(OPERATIONS)}');"
        found.append(Finding(subject, _WARNING, f"leaves out every {' and '.join(missing)}", remedy))
    lacking = [table for table in tables if (table.schema, table.name) not in have]
    if lacking and options.publication_autocreate == "disabled":
        text = f"does not hold {', '.join(table.table for table in lacking)}"
        remedy = f"{add_statement(options, lacking).as_string(connection)};"
        found.append(Finding(subject, _WARNING, text, remedy))
    return found


def _owns(connection: psycopg.Connection[Any], table: TableSchema) -> bool:
    row = connection.execute(
        "select pg_has_role(current_user, relowner, 'usage') from pg_class where oid = %s", [table.detail["oid"]]
    ).fetchone()
    return bool(row and row[0])


def _tables(options: PostgresOptions, tables: list[TableSchema]) -> list[Finding]:
    if not tables:
        text = f"no table matches {', '.join(options.tables)}"
        return [
            Finding("tables", _ERROR, text, "Check source.tables; system, temporary and unlogged tables never match")
        ]
    found = [Finding("tables", _OK, f"{len(tables)} captured")]
    for table in tables:
        name = sql.Identifier(table.schema, table.name).as_string(None)
        match table.detail["replica_identity"]:
            case "n" | "d" | "i" if not table.identity:
                text = "no replica identity: the server refuses UPDATE and DELETE on it once it is published"
                remedy = f"alter table {name} add primary key (…);   -- or: alter table {name} replica identity full;"
                found.append(Finding(table.table, _ERROR, text, remedy))
            case "i" if set(table.key) - set(table.identity):
                text = "its replica identity index does not contain the primary key: old keys would be unknown"
                remedy = f"alter table {name} replica identity default;"
                found.append(Finding(table.table, _ERROR, text, remedy))
    return found


def _setting(connection: psycopg.Connection[Any], name: str) -> str:
    row = connection.execute("select current_setting(%s, true)", [name]).fetchone()
    return str(row[0]) if row else ""
