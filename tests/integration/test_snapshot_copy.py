"""Copying tables: exactly the rows of the snapshot, whatever is in them and whatever happens meanwhile."""

from __future__ import annotations

import time

import pytest
from psycopg import sql
from tests.conftest import Database
from tests.integration.postgres_source import changes, make_source, open_log, read_changes, snapshot_rows

from headwater.errors import Retry, Stop
from headwater.sources.postgres import chunks as chunks_module
from headwater.sources.postgres import copy as copy_module
from headwater.sources.postgres import wire
from headwater.testing import PostgresServer

pytestmark = pytest.mark.server

AWKWARD = ["", "\\N", "\\", "\\\\N", "\t", "\n", "a\tb\nc\\d\re", "\\t", "\b\f\v", "N", "é中𝄞", " ", "\\.", "'\""]


def test_awkward_values_come_back_and_are_the_same_in_the_stream(database: Database):
    database.execute("create table t (id int primary key, v text)")
    source = make_source(database)
    with open_log(source) as log:
        for number, value in enumerate([*AWKWARD, None]):
            database.execute("insert into t values (%s, %s)", number, value)
        streamed = [row["after"] for row in changes(log, read_changes(log, len(AWKWARD) + 1))]

    copied = sorted(({"id": row["id"], "v": row["v"]} for row in snapshot_rows(source)), key=lambda row: row["id"])

    assert [row["v"] for row in copied] == [*AWKWARD, None]
    assert copied == streamed


@pytest.fixture(params=["socket", "libpq"])
def small_reads(request, monkeypatch):
    """COPY read by both ways, in pieces smaller than some rows."""
    monkeypatch.setattr(wire, "READ_BYTES", 500)
    monkeypatch.setattr(copy_module, "READ_BYTES", 500)
    if request.param == "libpq":
        monkeypatch.setattr(copy_module, "speaks_plainly", lambda _connection: False)


@pytest.mark.usefixtures("small_reads")
def test_ranges_cover_every_row_once(database: Database, monkeypatch):
    monkeypatch.setattr(chunks_module, "SMALL_PAGES", 2)
    database.execute("create table t (id int primary key, v text)")
    database.execute("insert into t select n, repeat('x', 100) from generate_series(1, 2000) n")
    database.execute("delete from t where id % 7 = 0")
    source = make_source(database)
    source.prepare(None)

    with source.snapshot(source.tables(), 8) as snapshot:
        assert len(snapshot.chunks) > 4
    rows = snapshot_rows(source, tasks=8)

    assert sorted(row["id"] for row in rows) == [n for n in range(1, 2001) if n % 7]
    source.close()


def test_rows_written_meanwhile_are_in_the_snapshot_or_in_the_stream_never_in_both(database: Database):
    database.execute("create table t (id int primary key)")
    database.execute("insert into t select generate_series(1, 100)")
    source = make_source(database)
    begin = source.prepare(None)
    database.execute("insert into t select generate_series(101, 200); delete from t where id <= 10")
    copied = {row["id"] for row in snapshot_rows(source)}
    with open_log(source, begin) as log:
        found = changes(log, read_changes(log, 110))

    assert copied == set(range(1, 101))
    assert [row["op"] for row in found] == ["c"] * 100 + ["d"] * 10


def test_a_table_without_rows_gives_none(database: Database):
    database.execute("create table t (id int primary key)")
    source = make_source(database)
    source.prepare(None)
    assert snapshot_rows(source) == []
    source.close()


def test_row_filters_and_column_lists_hold_for_the_snapshot_too(database: Database):
    if database.execute("show server_version_num")[0][0] < "150000":
        pytest.skip("row filters come with PostgreSQL 15")
    database.execute("create schema s; create type s.kind as enum ('a', 'b')")
    database.execute("create table t (id int primary key, k s.kind, v text, g int generated always as (id) stored)")
    database.execute(
        "insert into t select n, case n % 2 when 0 then 'a' else 'b' end::s.kind, '{}%' from generate_series(1, 9) n"
    )
    database.execute("create publication pub for table t (id, v) where (id > 3 and id <> 5 or id = 1)")
    source = make_source(database)
    source.prepare(None)

    rows = snapshot_rows(source, tasks=3)

    assert sorted(row["id"] for row in rows) == [1, 4, 6, 7, 8, 9]
    assert all(set(row) == {"_table", "id", "v"} for row in rows)
    source.close()


@pytest.mark.parametrize("root", [True, False])
def test_partitioned_tables_are_copied_leaf_by_leaf(database: Database, root):
    database.execute("create table p (id int primary key, v text) partition by range (id)")
    database.execute("create table p1 partition of p for values from (0) to (10)")
    database.execute("create table p2 (v text, gone int, id int not null); alter table p2 drop gone")
    database.execute("alter table p attach partition p2 for values from (10) to (20)")
    database.execute("insert into p values (1, 'a'), (11, 'b')")
    source = make_source(database, publish_via_partition_root=root)
    source.prepare(None)

    rows = snapshot_rows(source)

    names = ("public.p", "public.p") if root else ("public.p1", "public.p2")
    assert sorted((row["_table"], row["id"], row["v"]) for row in rows) == [(names[0], 1, "a"), (names[1], 11, "b")]
    source.close()


def test_inherited_tables_are_copied_apart(database: Database):
    database.execute(
        "create table parent (id int primary key); create table child (primary key (id)) inherits (parent)"
    )
    database.execute("insert into parent values (1); insert into child values (2)")
    source = make_source(database)
    source.prepare(None)
    rows = snapshot_rows(source)
    assert sorted((row["_table"], row["id"]) for row in rows) == [("public.child", 2), ("public.parent", 1)]
    source.close()


def test_hostile_identifiers_are_copied(database: Database):
    schema, table, column = 'we"ird; drop', "t'a\nb\\c%s{}", "c" * 60 + "ü'"
    name = sql.Identifier(schema, table)
    database.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
    database.execute(sql.SQL("create table {} (id int primary key, {} text)").format(name, sql.Identifier(column)))
    database.execute(sql.SQL("insert into {} values (1, 'x')").format(name))
    source = make_source(database, publication='p"u')
    source.prepare(None)
    assert snapshot_rows(source) == [{"_table": f"{schema}.{table}", "id": 1, column: "x"}]
    source.close()


@pytest.mark.parametrize(
    "rewrite", ["alter table t alter v type varchar(9)", "truncate t", "vacuum full t", "drop table t"]
)
def test_a_table_rewritten_after_the_snapshot_is_not_taken_for_an_empty_one(database: Database, rewrite):
    database.execute("create table t (id int primary key, v text)")
    database.execute("insert into t select n, 'x' from generate_series(1, 100) n")
    source = make_source(database)
    source.prepare(None)
    tables = source.tables()

    def copy_after_rewrite() -> None:
        with source.snapshot(tables, 1) as snapshot:
            with database.connect() as connection:
                connection.execute(rewrite)
            for chunk in snapshot.chunks:
                list(source.copy(chunk, snapshot))

    with pytest.raises(Retry, match=r"rewritten|dropped"):
        copy_after_rewrite()
    source.close()


def test_rows_that_a_policy_hides_are_an_error_and_not_left_out(database: Database):
    role = f"role_{database.name}"
    database.execute(f"create role {role} login replication")
    database.execute("create table t (id int primary key); insert into t values (1), (2)")
    database.execute(f"grant select on t to {role}; create publication pub for table t")
    database.execute("alter table t enable row level security; create policy one on t using (id = 1)")
    source = make_source(database, url=database.server.url(database.name, role))
    source.prepare(None)
    try:
        with pytest.raises(Stop, match="row-level security") as refused:
            snapshot_rows(source)
        assert "bypassrls" in str(refused.value)
        assert any("row-level security" in finding.text for finding in source.check())
    finally:
        source.close()
        database.execute(f"drop owned by {role}; drop role {role}")


def test_a_role_that_may_not_read_a_table_is_told_the_statement(database: Database):
    role = f"role_{database.name}"
    database.execute(f"create role {role} login replication")
    database.execute('create table "T" (id int primary key); create publication pub for table "T"')
    source = make_source(database, url=database.server.url(database.name, role))
    source.prepare(None)
    try:
        with pytest.raises(Stop, match="cannot copy") as refused:
            snapshot_rows(source)
        assert 'grant select on "public"."T" to' in str(refused.value)
    finally:
        source.close()
        database.execute(f"drop owned by {role}; drop role {role}")


def test_a_snapshot_that_is_gone_is_worth_another_try(database: Database):
    database.execute("create table t (id int primary key); insert into t values (1)")
    source = make_source(database)
    source.prepare(None)
    source.close()
    with source.snapshot(source.tables(), 1) as snapshot:
        chunk = snapshot.chunks[0]
    with pytest.raises(Retry, match="snapshot is gone"):
        list(source.copy(chunk, snapshot))


@pytest.mark.usefixtures("small_reads")
def test_no_timeout_of_the_database_ends_a_long_snapshot(database: Database):
    database.execute("create table t (id int primary key); insert into t values (1)")
    names = ["statement_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout", "transaction_timeout"]
    known = [name for (name,) in database.execute("select name from pg_settings") if name in names]
    assert len(known) >= 3
    for name in known:
        database.execute(f"alter database {database.name} set {name} = '200ms'")
    source = make_source(database)
    source.prepare(None)

    with source.snapshot(source.tables(), 1) as snapshot:
        time.sleep(0.5)
        assert [len(rows) for rows in source.copy(snapshot.chunks[0], snapshot)] == [1]
    source.close()


def test_a_copy_may_be_left_in_the_middle(database: Database):
    database.execute("create table t (id int primary key); insert into t select generate_series(1, 100000)")
    source = make_source(database)
    source.prepare(None)
    with source.snapshot(source.tables(), 1) as snapshot:
        rows = source.copy(snapshot.chunks[0], snapshot)
        next(rows)
        rows.close()
    source.close()


@pytest.mark.usefixtures("small_reads")
def test_a_connection_cut_during_copy_is_worth_another_try(database: Database):
    database.execute("create table t (id int primary key, v text)")
    database.execute("insert into t select n, repeat('x', 1000) from generate_series(1, 20000) n")
    source = make_source(database)
    source.prepare(None)

    def cut() -> None:
        with source.snapshot(source.tables(), 1) as snapshot:
            rows = source.copy(snapshot.chunks[0], snapshot)
            next(rows)
            database.execute("select pg_terminate_backend(pid) from pg_stat_activity where query like 'copy (%'")
            list(rows)

    with pytest.raises(Retry):
        cut()
    source.close()


@pytest.mark.usefixtures("small_reads")
def test_a_text_that_is_not_utf8_stops_snapshot_and_stream(postgres: PostgresServer):
    name = "in_ascii"
    postgres.execute(f"create database {name} encoding 'SQL_ASCII' template template0 lc_collate 'C' lc_ctype 'C'")
    database = Database(postgres, name)
    try:
        database.execute("create table t (id int primary key, v text)")
        source = make_source(database)
        found = {finding.subject: finding for finding in source.check()}
        assert "SQL_ASCII" in found["encoding"].text
        with open_log(source) as log:
            database.execute("insert into t values (1, E'caf\\xe9')")
            with pytest.raises(Stop, match="not in the encoding of its database"):
                read_changes(log, 1)
        with pytest.raises(Stop, match=r"public.t has a text that is not"):
            snapshot_rows(source)
        source.close()
    finally:
        database.drop()
