"""The publication: made, extended and left alone; which tables and columns it hands out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg import sql
from tests.conftest import Database
from tests.integration.postgres_source import changes, make_source, open_log, read_changes

from headwater.errors import Stop, Usage
from headwater.journal import Journal
from headwater.sources.postgres.position import at_lsn

pytestmark = pytest.mark.server


@pytest.fixture
def role(database: Database) -> Iterator[str]:
    """A role that may replicate and owns nothing."""
    name = f"role_{database.name}"
    database.execute(f"create role {name} login replication")
    yield name
    database.execute(f"drop owned by {name}; drop role {name}")


def published(database: Database, name: str = "pub") -> set[str]:
    rows = database.execute("select schemaname || '.' || tablename from pg_publication_tables where pubname = %s", name)
    return {row[0] for row in rows}


def prepare(source) -> None:
    source.prepare(None)
    source.close()


def test_it_is_made_for_the_chosen_tables_and_grows_with_them(database: Database):
    database.execute("create table a (id int primary key); create table b (id int primary key)")
    database.execute("create unlogged table fleeting (id int); create table empty ()")
    prepare(make_source(database, tables="public.a"))
    assert published(database) == {"public.a"}

    prepare(make_source(database, tables="public.*"))

    assert published(database) == {"public.a", "public.b"}


def test_it_is_never_narrowed(database: Database):
    database.execute("create table a (id int primary key); create table b (id int primary key)")
    prepare(make_source(database))
    prepare(make_source(database, tables="public.a"))
    assert published(database) == {"public.a", "public.b"}
    assert [table.table for table in make_source(database, tables="public.a").tables()] == ["public.a"]


def test_rows_of_a_published_table_that_is_not_captured_are_left_out(database: Database):
    database.execute("create table a (id int primary key); create table b (id int primary key)")
    source = make_source(database, publication_autocreate="all_tables", exclude="public.b")
    with open_log(source) as log:
        database.execute("insert into b values (1)")
        database.execute("insert into a values (2)")
        found = changes(log, read_changes(log, 1))
    assert [(row["table"], row["after"]) for row in found] == [("public.a", {"id": 2})]


def test_missing_and_not_to_be_made_gives_the_statement(database: Database):
    database.execute('create table "A b" (id int primary key)')
    with pytest.raises(Usage, match='publication "pub" does not exist') as refused:
        make_source(database, publication_autocreate="disabled").prepare(None)
    assert 'create publication "pub" for table "public"."A b";' in str(refused.value)
    assert database.execute("select count(*) from pg_replication_slots where database = %s", database.name) == [(0,)]


def test_a_role_that_may_not_make_it_is_given_the_statement(database: Database, role):
    database.execute(f"create table t (id int primary key); grant select on t to {role}")
    with pytest.raises(Usage, match="may not change the publication") as refused:
        make_source(database, url=database.server.url(database.name, role)).prepare(None)
    assert 'create publication "pub" for table "public"."t";' in str(refused.value)
    assert refused.value.exit_status == 2
    # The owner runs it, and all is well.
    database.execute('create publication "pub" for table "public"."t"')
    prepare(make_source(database, url=database.server.url(database.name, role)))


def test_one_with_tables_of_schemas_that_the_role_may_not_use_is_read(database: Database, role, tmp_path):
    database.execute("create table t (id int primary key); create schema hidden; create table hidden.t (id int)")
    database.execute(f"grant select on t to {role}; create publication pub for all tables")
    source = make_source(database, user=role, tables=["public.*"], publication_autocreate="disabled")
    source.files = Journal(tmp_path).source

    begin = source.prepare(None)
    source.close()

    assert source.prepare(begin) == begin
    assert [table.table for table in source.tables()] == ["public.t"]


def test_one_made_by_hand_with_the_roots_of_partitions_is_used_as_it_is(database: Database):
    database.execute("create table p (id int primary key) partition by range (id)")
    database.execute("create table p1 partition of p for values from (0) to (10)")
    database.execute("create publication pub for table p with (publish_via_partition_root = true)")
    for _ in range(2):
        prepare(make_source(database))
    assert published(database) == {"public.p"}
    assert [table.table for table in make_source(database).tables()] == ["public.p"]


def test_a_column_list_and_generated_columns_narrow_both_catalog_and_stream(database: Database):
    if database.execute("show server_version_num")[0][0] < "150000":
        pytest.skip("column lists come with PostgreSQL 15")
    database.execute("create table t (id int primary key, a text, b text, g int generated always as (id * 2) stored)")
    database.execute("create table u (id int primary key, g int generated always as (id * 2) stored)")
    database.execute("create publication pub for table t (id, b), u")
    source = make_source(database)
    with open_log(source) as log:
        database.execute("insert into t (id, a, b) values (1, 'secret', 'open'); insert into u (id) values (3)")
        found = changes(log, read_changes(log, 2))
    columns = {table.table: [column.name for column in table.columns] for table in source.tables()}
    assert columns == {"public.t": ["id", "b"], "public.u": ["id"]}
    assert [row["after"] for row in found] == [{"id": 1, "b": "open"}, {"id": 3}]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("alter publication pub drop table a", "leaves out public.a"),
        ("alter publication pub drop table root", "leaves out public.leaf"),
        ("alter publication pub set (publish = 'insert')", "leaves out every update and delete and truncate"),
        ("alter publication pub drop table a; alter publication pub add table a where (id > 5)", "rows of public.a"),
        ("drop table a; alter publication pub drop table b", ""),
        ("alter publication pub add table later", ""),
    ],
)
def test_one_that_hands_out_less_than_it_did_stops_the_source(database: Database, tmp_path, change, told):
    if "where" in change and database.execute("show server_version_num")[0][0] < "150000":
        pytest.skip("row filters come with PostgreSQL 15")
    database.execute("create table a (id int primary key); create table b (id int primary key)")
    database.execute("create table root (id int primary key) partition by range (id)")
    database.execute("create table leaf partition of root for values from (0) to (10)")
    database.execute("create publication pub for table a, b, root")
    source = make_source(database, exclude=["public.b", "public.root"], publication_autocreate="disabled")
    source.files = Journal(tmp_path).source
    with open_log(source) as log:
        database.execute("insert into a values (1)")
        read_changes(log, 1)
        end = source.end()
    database.execute("create table later (id int primary key)")

    database.execute(change)

    for anew in (make_source(database, exclude="public.b"), source):
        anew.files = Journal(tmp_path).source
        if told:
            with pytest.raises(Stop, match=told):
                anew.prepare(at_lsn(end))
        else:
            anew.prepare(at_lsn(end))
        anew.close()


TABLES = {
    "plain": "create table t (id int primary key, n numeric(10,2) not null default 3, s varchar(5), x jsonb)",
    "composite key in another order": "create table t (a int, b text, c int, primary key (c, a))",
    "full": "create table t (id int primary key, v text); alter table t replica identity full",
    "full without key": "create table t (id int, v text); alter table t replica identity full",
    "index": "create table t (id int primary key, k int not null unique, j int not null);"
    " create unique index t_jk on t (j, k); alter table t replica identity using index t_jk",
    "generated": "create table t (id int primary key, g int generated always as (id * 2) stored, v text);"
    " alter table t replica identity full",
    "types": "create type mood as enum ('sad', 'ok'); create domain amount as numeric(12,3) check (value > 0);"
    " create type pair as (a int, b text);"
    " create table t (id bigint generated always as identity primary key, m mood, d amount, p pair, a int[][],"
    " tz timestamptz(3), ts timestamp, b bytea, u uuid, i interval, r int4range, e amount[])",
    "dropped column": "create table t (id int primary key, gone int, v text); alter table t drop gone",
    "partition root": "create table t (id int primary key, v text) partition by range (id);"
    " create table t1 partition of t for values from (0) to (10)",
}


@pytest.mark.parametrize("case", TABLES)
def test_catalog_and_stream_name_the_same_schema(database: Database, case):
    """A sink must see no change of schema between snapshot and stream."""
    database.execute(TABLES[case])
    root = case == "partition root"
    source = make_source(database, tables="public.t", publish_via_partition_root=root)
    with open_log(source) as log:
        columns = [column for column in source.tables()[0].columns if column.name in ("id", "a", "c", "k", "j", "b")]
        names = [column.name for column in columns if column.type in ("integer", "text")] or None
        if names is None:
            database.execute("insert into t default values")
        else:
            values = sql.SQL(", ").join(sql.Literal("1") for _ in names)
            listed = sql.SQL(", ").join(map(sql.Identifier, names))
            database.execute(sql.SQL("insert into t ({}) values ({})").format(listed, values))
        (chunk,) = [chunk for chunk in read_changes(log, 1) if chunk.changes]
        streamed = log.schema(chunk.tables[0].schema)

    (catalogued,) = source.tables()
    assert streamed == catalogued
    assert streamed.id == catalogued.id
