"""The slot and the connection to it: every way it can be unusable ends with the right error and remedy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.conftest import Database
from tests.integration.postgres_source import make_source, open_log, read_changes

from headwater.errors import Retry, Stop, Usage
from headwater.event import Position
from headwater.journal import Journal
from headwater.sources.base import Log
from headwater.sources.postgres import source as source_module
from headwater.sources.postgres.connection import Refused, Unreachable, connect
from headwater.sources.postgres.position import at_lsn, flush_lsn
from headwater.sources.postgres.slot import SlotInUse, create_slot, find_slot
from headwater.testing import PostgresServer, wait_until

pytestmark = pytest.mark.server

CANARY = "canary-Pa55word"


@pytest.fixture
def table(database: Database) -> Database:
    database.execute("create table t (id int primary key)")
    return database


@pytest.fixture
def role(database: Database) -> Iterator[str]:
    """A login without privileges; dropped at the end with what it owns."""
    name = f"role_{database.name}"
    database.execute(f"create role {name} login password '{CANARY}'")
    yield name
    database.execute(f"drop owned by {name}; drop role {name}")


def test_prepare_makes_the_publication_before_the_slot_and_finds_both_again(table: Database):
    source = make_source(table)
    begin = source.prepare(None)
    source.close()

    assert make_source(table).prepare(None) == begin
    assert make_source(table).prepare(begin) == begin
    # A slot made before its publication would fail on the first change.
    with open_log(source, begin) as log:
        table.execute("insert into t values (1)")
        assert read_changes(log, 1)


@contextmanager
def reading(log: Log) -> Iterator[None]:
    """A reader that is alive: it answers the server."""
    stopping = threading.Event()

    def read() -> None:
        while not stopping.is_set():
            log.read(0.1)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def test_a_slot_in_use_names_the_reader(table: Database, monkeypatch):
    monkeypatch.setattr(source_module, "SLOT_RELEASE_SECONDS", 0.3)
    source = make_source(table)
    with open_log(source) as log, reading(log):
        pid = table.execute("select active_pid from pg_replication_slots where slot_name = %s", table.name)[0][0]
        with pytest.raises(SlotInUse, match=f"PID {pid}") as refused:
            make_source(table).prepare(None)
        assert f"pg_terminate_backend({pid})" in str(refused.value)
        assert refused.value.exit_status == 3


def test_a_reader_that_lets_go_in_a_moment_is_waited_for(table: Database):
    source = make_source(table)
    begin = source.prepare(None)
    source.close()
    for _ in range(5):
        log = source.log(begin)
        log.close()


def test_a_slot_of_another_plugin_is_refused(table: Database):
    table.execute("select pg_create_logical_replication_slot(%s, 'test_decoding')", table.name)
    with pytest.raises(Stop, match="test_decoding, not pgoutput") as refused:
        make_source(table).prepare(None)
    assert "source.slot" in str(refused.value)


def test_a_physical_slot_is_refused(table: Database):
    table.execute("select pg_create_physical_replication_slot('physical_one')")
    try:
        with pytest.raises(Stop, match=r"none \(physical\), not pgoutput"):
            make_source(table, slot="physical_one").prepare(None)
    finally:
        table.execute("select pg_drop_replication_slot('physical_one')")


def test_a_slot_of_another_database_is_refused(table: Database):
    table.server.create_database(other := f"{table.name}_other")
    Database(table.server, other).execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", table.name)
    try:
        with pytest.raises(Stop, match=f'belongs to the database "{other}"'):
            make_source(table).prepare(None)
    finally:
        Database(table.server, other).drop()


def test_a_slot_that_is_gone_or_moved_on_stops(table: Database):
    source = make_source(table)
    begin = source.prepare(None)
    source.close()
    with pytest.raises(Stop, match="ahead of the last durable position"):
        source.prepare(at_lsn(flush_lsn(begin) - 8))

    table.execute("select pg_drop_replication_slot(%s)", table.name)

    with pytest.raises(Stop, match="is gone"):
        source.prepare(begin)
    with pytest.raises(Stop, match="does not exist any more"):
        source.log(begin)


def test_a_bad_slot_name_is_a_usage_error(table: Database):
    with pytest.raises(Usage, match="cannot create the replication slot"):
        make_source(table, slot="Not-Allowed").prepare(None)


def test_an_exported_snapshot_shows_the_database_at_exactly_the_slots_position(table: Database):
    table.execute("insert into t values (1)")
    source = make_source(table)
    begin = source.prepare(None)
    table.execute("insert into t values (2)")
    with source.snapshot(source.tables(), 1) as snapshot:
        rows = [row for chunk in snapshot.chunks for batch in source.copy(chunk, snapshot) for row in batch.after]
        assert [row.as_py() for row in rows] == [{"id": 1}]
        assert snapshot.position == begin
    with open_log(source, begin) as log:
        chunks = read_changes(log, 1)
        assert sum(chunk.changes for chunk in chunks) == 1


def test_a_temporary_slot_is_gone_with_its_connection(table: Database):
    options = make_source(table).options
    before = table.execute("select count(*) from pg_replication_slots")
    with create_slot(options, None) as exported:
        assert exported.snapshot
        assert table.execute("select count(*) from pg_replication_slots where temporary") == [(1,)]
    wait_until(lambda: table.execute("select count(*) from pg_replication_slots") == before, 10, "slot gone")


def test_the_identity_names_system_database_and_slot_and_another_journal_refuses(table: Database, tmp_path):
    source = make_source(table)
    system = table.execute("select system_identifier::text from pg_control_system()")[0][0]
    assert source.identity() == f"postgres:{system}/{table.name}/{table.name}"

    journal = Journal(tmp_path / "journal")
    journal.create(source.type, source.identity(), source.facts())
    with pytest.raises(Stop, match="belongs to another log"):
        journal.create(source.type, make_source(table, slot="elsewhere").identity(), source.facts())


# -- connecting ------------------------------------------------------------------------------------


def test_wrong_password_user_or_database_is_the_users_to_mend_and_shows_no_secret(table: Database, role):
    guarded = table.server.data / "pg_hba.conf"
    trusting = guarded.read_text()
    guarded.write_text(f"host all {role} 127.0.0.1/32 scram-sha-256\n{trusting}")
    table.execute("select pg_reload_conf()")
    host = {"url": "", "host": "127.0.0.1", "port": table.execute("show port")[0][0], "database": table.name}
    try:
        wrong = f"{CANARY}-wrong"
        for given in (
            {**host, "user": role, "password": wrong},
            {"url": table.server.url(table.name, role, wrong)},
            {**host, "user": "nobody_here", "password": wrong},
            {**host, "user": "postgres", "password": wrong, "database": "no_such_database"},
        ):
            for act in (lambda s: s.identity(), lambda s: s.prepare(None)):
                with pytest.raises(Refused) as refused:
                    act(make_source(table, **given))
                assert refused.value.exit_status == 2
                error = refused.value
                assert CANARY not in f"{error} {error!r} {error.__cause__!r} {make_source(table, **given).options!r}"
    finally:
        guarded.write_text(trusting)
        table.execute("select pg_reload_conf()")


def test_nobody_at_the_address_is_worth_another_try(table: Database):
    source = make_source(table, url=f"postgresql://u:{CANARY}@127.0.0.1:1/shop")
    for act in (source.identity, source.end):
        with pytest.raises(Unreachable) as refused:
            act()
        assert isinstance(refused.value, Retry)
        assert "127.0.0.1:1/shop" in str(refused.value)
        assert CANARY not in str(refused.value)


@pytest.mark.parametrize("url", [f"postgresql://u:{CANARY}@[::1/shop", f"mysql://u:{CANARY}@h/d", f"host=a {CANARY}"])
def test_a_url_that_is_none_is_refused_without_showing_it(table: Database, url):
    with pytest.raises(Usage, match="not a PostgreSQL URL") as refused:
        make_source(table, url=url).end()
    assert CANARY not in f"{refused.value} {refused.value.__cause__!r}"


def test_a_role_without_replication_is_told_the_statement(table: Database, role):
    table.execute(f"grant all on t to {role}; grant create on database {table.name} to {role}")
    table.execute(f"alter table t owner to {role}")
    with pytest.raises(Refused, match=r"alter role … replication"):
        make_source(table, url=table.server.url(table.name, role)).prepare(None)


def test_a_connection_that_breaks_in_the_middle_is_worth_another_try(table: Database):
    def break_it() -> None:
        with connect(make_source(table).options) as connection:
            table.execute("select pg_terminate_backend(%s)", connection.info.backend_pid)
            find_slot(connection, "any")

    with pytest.raises(Unreachable):
        break_it()


# -- servers of their own --------------------------------------------------------------------------


def test_a_server_that_does_not_decode_is_told_how_to(postgres: PostgresServer):
    with PostgresServer(bindir=postgres._bindir, settings={"wal_level": "replica"}) as server:
        database = Database(server, "postgres")
        database.execute("create table t (id int primary key)")
        source = make_source(database, slot="s")
        with pytest.raises(Usage, match="wal_level") as refused:
            source.prepare(None)
        assert "alter system set wal_level = logical" in str(refused.value)
        assert any(f.subject == "wal_level" and f.severity == "error" for f in source.check())


def test_a_lost_slot_stops_and_is_not_taken_for_a_gap_of_nothing(postgres: PostgresServer):
    settings = {"max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB"}
    with PostgresServer(bindir=postgres._bindir, settings=settings) as server:
        database = Database(server, "postgres")
        database.execute("create table t (id int primary key)")
        source = make_source(database, slot="s")
        begin = source.prepare(None)
        source.close()

        def lost() -> bool:
            database.execute("select pg_switch_wal()")
            database.execute("create table if not exists filler (v text); insert into filler values ('x'); checkpoint")
            return database.execute("select wal_status from pg_replication_slots")[0][0] == "lost"

        wait_until(lost, 60, "the slot is lost")

        for act in (lambda: source.prepare(begin), lambda: source.log(begin), lambda: source.prepare(None)):
            with pytest.raises(Stop, match="is lost") as refused:
                act()
            assert "pg_drop_replication_slot('s')" in str(refused.value)
        assert any('slot "s"' in f.subject and f.severity == "error" for f in source.check())


def test_a_slot_that_was_idle_for_too_long_says_so(postgres: PostgresServer):
    if postgres.execute("show server_version_num")[0][0] < "180000":
        pytest.skip("idle_replication_slot_timeout comes with PostgreSQL 18")
    with PostgresServer(bindir=postgres._bindir, settings={"idle_replication_slot_timeout": "1s"}) as server:
        database = Database(server, "postgres")
        source = make_source(database, slot="s")
        begin = source.prepare(None)
        source.close()
        warned = [finding.text for finding in source.check() if finding.subject == "wal"]
        assert "idle_replication_slot_timeout is 1s" in warned[-1]

        def lost() -> bool:
            database.execute("checkpoint")
            return database.execute("select wal_status from pg_replication_slots") == [("lost",)]

        wait_until(lost, 30, "the slot is lost")
        with pytest.raises(Stop, match="idle_replication_slot_timeout passed"):
            source.prepare(begin)


def test_a_position_of_before_the_slot_is_never_skipped_over(table: Database):
    source = make_source(table)
    begin = source.prepare(None)
    with open_log(source, begin) as log:
        table.execute("insert into t values (1)")
        last = read_changes(log, 1)[-1].last
        log.confirm(last)
        confirmed = "select confirmed_flush_lsn > %s::pg_lsn from pg_replication_slots where slot_name = %s"
        wait_until(lambda: table.execute(confirmed, begin.resume, table.name)[0][0], 10, "confirmed")

    with pytest.raises(Stop, match="ahead of the last durable position"):
        source.log(begin)
    with pytest.raises(Stop, match="ahead of the last durable position"):
        source.prepare(Position(begin.commit, 0, begin.resume))
