"""`check` finds what is wrong before anything starts, and each finding carries the SQL that mends it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conftest import Database
from tests.integration.postgres_source import make_source, open_log

from headwater.sources.base import Finding, Severity
from headwater.testing import PostgresServer

pytestmark = pytest.mark.server


@pytest.fixture
def role(database: Database) -> Iterator[str]:
    name = f"role_{database.name}"
    database.execute(f"create role {name} login")
    yield name
    database.execute(f"drop owned by {name}; drop role {name}")


def bad(findings: list[Finding], severity: Severity = Severity.ERROR) -> dict[str, Finding]:
    return {finding.subject: finding for finding in findings if finding.severity is severity}


def test_a_database_that_is_ready_has_no_errors_and_is_not_changed(database: Database):
    database.execute("create table t (id int primary key)")
    found = make_source(database).check()
    assert bad(found) == {}
    assert {"server", "wal_level", "role", "tables"} <= {finding.subject for finding in found}
    assert database.execute("select count(*) from pg_publication") == [(0,)]
    assert database.execute("select count(*) from pg_replication_slots where database = %s", database.name) == [(0,)]


def test_privileges_are_named_with_the_grants_that_lack(database: Database, role):
    database.execute('create schema "S"; create table "S".t (id int primary key)')
    found = bad(make_source(database, url=database.server.url(database.name, role)).check())
    assert found["role"].remedy.startswith(f"alter role {role} replication;")
    assert found["S.t"].remedy == f'grant usage on schema "S" to {role}; grant select on "S"."t" to {role};'
    assert 'create publication "pub" for table "S"."t";' in found['publication "pub"'].remedy


def test_the_remedies_mend(database: Database, role):
    database.execute("create table t (id int primary key, v text)")
    database.execute("create table keyless (v text); revoke all on schema public from public")
    source = make_source(database, url=database.server.url(database.name, role), publication_autocreate="disabled")
    for finding in source.check():
        if finding.severity is Severity.ERROR:
            # Where there is a choice, the second one needs no knowledge of the table.
            database.execute(finding.remedy.split("-- or: ")[-1])

    assert bad(source.check()) == {}
    source.prepare(None)
    source.close()


def test_tables_without_an_identity_and_with_a_narrow_one_are_found(database: Database):
    database.execute("create table keyless (v text)")
    database.execute("create table narrow (id int primary key, k int not null unique)")
    database.execute("alter table narrow replica identity using index narrow_k_key")
    database.execute("create table nothing (id int primary key); alter table nothing replica identity nothing")
    database.execute("create table whole (v text); alter table whole replica identity full")
    found = bad(make_source(database).check())
    assert set(found) == {"public.keyless", "public.narrow", "public.nothing"}
    assert "replica identity full" in found["public.keyless"].remedy
    assert "replica identity default" in found["public.narrow"].remedy


def test_no_matching_table_is_an_error(database: Database):
    assert "tables" in bad(make_source(database, tables="nowhere.*").check())


def test_a_publication_that_leaves_things_out_is_a_warning_with_the_statement(database: Database):
    database.execute("create table a (id int primary key); create table b (id int primary key)")
    database.execute("create publication pub for table a with (publish = 'insert, update')")
    source = make_source(database, publication_autocreate="disabled")
    remedies = [f.remedy for f in source.check() if f.subject == 'publication "pub"' and f.severity is Severity.WARNING]
    assert remedies == [
        "alter publication \"pub\" set (publish = 'insert, update, delete, truncate');",
        'alter publication "pub" add table "public"."b";',
    ]
    for remedy in remedies:
        database.execute(remedy)
    assert not [f for f in source.check() if f.subject == 'publication "pub"' and f.severity is not Severity.OK]


def test_a_slot_in_use_and_a_strange_one_are_found(database: Database):
    database.execute("create table t (id int primary key)")
    source = make_source(database)
    subject = f'slot "{database.name}"'
    with open_log(source):
        assert "PID" in bad(source.check(), Severity.WARNING)[subject].text
    database.execute("select pg_create_physical_replication_slot('strange')")
    try:
        assert 'slot "strange"' in bad(make_source(database, slot="strange").check())
    finally:
        database.execute("select pg_drop_replication_slot('strange')")


def test_a_server_that_cannot_be_reached_is_one_finding(database: Database):
    (finding,) = make_source(database, url="postgresql://u:canary@127.0.0.1:1/shop").check()
    assert finding.severity is Severity.ERROR
    assert "127.0.0.1:1/shop" in finding.text
    assert "canary" not in f"{finding}"


def test_a_server_without_room_is_found(postgres: PostgresServer):
    settings = {"max_replication_slots": "1", "max_wal_senders": "0"}
    with PostgresServer(bindir=postgres._bindir, settings=settings) as server:
        database = Database(server, "postgres")
        database.execute("create table t (id int primary key)")
        database.execute("select pg_create_physical_replication_slot('taken')")
        found = bad(make_source(database, slot="s").check())
    assert "max_replication_slots = 2" in found["slots"].remedy
    assert "max_wal_senders = " in found["senders"].remedy
