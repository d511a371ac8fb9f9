"""Transactions that the server sends before they end: what arrives is what was committed, in the order of commits."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from tests.conftest import Database
from tests.integration.postgres_source import changes, make_source, open_log, read_changes, read_chunks

from headwater.errors import Retry, Stop
from headwater.sources.postgres import log as log_module
from headwater.sources.postgres.source import Postgres

pytestmark = pytest.mark.server

# With so little memory the server sends a transaction after about a hundred rows.
FILL = "insert into t select n, repeat('x', 200) from generate_series(%s::int, %s::int) n"


@pytest.fixture
def table(database: Database) -> Database:
    database.execute("create table t (id int primary key, v text)")
    database.execute(f"alter database {database.name} set logical_decoding_work_mem = '64kB'")
    return database


@pytest.fixture
def source(table: Database, tmp_path: Path) -> Postgres:
    made = make_source(table)
    made.scratch = tmp_path
    return made


def ids(log, chunks) -> list[int]:
    return [row["after"]["id"] for row in changes(log, chunks)]


def test_a_large_transaction_waits_aside_and_others_pass_it(table: Database, source: Postgres):
    with open_log(source) as log, table.connect() as giant:
        with giant.transaction():
            giant.execute(FILL, [1, 2000])
            read_chunks(log, lambda _read: log.lag()["open_transactions"] == 1 and log.spilled > 100_000)
            for n in (-1, -2, -3):
                table.execute("insert into t values (%s, 'quick')", n)
            assert ids(log, read_changes(log, 3)) == [-1, -2, -3]
            giant.execute(FILL, [2001, 3000])
        chunks = read_changes(log, 3000)
        assert ids(log, chunks) == list(range(1, 3001))
        assert {row["commit"] for row in changes(log, chunks)} == {chunks[-1].last.commit}
        assert (log.lag()["open_transactions"], log.spilled) == (0, 0)
        table.execute("insert into t values (-4, 'after')")
        assert ids(log, read_changes(log, 1)) == [-4]


def test_what_was_rolled_back_never_appears(table: Database, source: Postgres):
    with open_log(source) as log:
        with table.connect() as one:
            one.execute("begin")
            one.execute(FILL, [1, 1000])
            read_chunks(log, lambda _read: log.spilled > 0)
            one.execute("rollback")
        with table.connect() as two, two.transaction():
            two.execute(FILL, [1, 500])
            two.execute("savepoint outer_one")
            two.execute(FILL, [501, 1000])
            two.execute("savepoint inner_one")
            two.execute(FILL, [1001, 1500])
            read_chunks(log, lambda _read: log.spilled > 200_000)
            two.execute("release inner_one")
            two.execute("rollback to outer_one")
            two.execute(FILL, [2001, 2500])
            two.execute("savepoint kept")
            two.execute(FILL, [2501, 3000])
            two.execute("release kept")
        assert ids(log, read_changes(log, 1500)) == [*range(1, 501), *range(2001, 3001)]
        assert log.lag()["open_transactions"] == 0


def test_exception_blocks_roll_back_row_by_row(table: Database, source: Postgres):
    with open_log(source) as log:
        table.execute(
            """do $$ begin
              for n in 1..600 loop
                begin
                  insert into t values (n, repeat('x', 300));
                  if n % 3 = 0 then raise exception 'no'; end if;
                exception when raise_exception then null;
                end;
              end loop;
            end $$"""
        )
        assert ids(log, read_changes(log, 400)) == [n for n in range(1, 601) if n % 3]


def test_a_table_that_changes_inside_the_transaction(table: Database, source: Postgres):
    with open_log(source) as log:
        with table.connect() as connection, connection.transaction():
            connection.execute(FILL, [1, 500])
            connection.execute("alter table t add w int default 7")
            connection.execute("insert into t select n, repeat('z', 200), 8 from generate_series(501, 1000) n")
        found = changes(log, read_changes(log, 1000))
        table.execute("insert into t values (0, 'after', 9)")
        (last,) = changes(log, read_changes(log, 1))
    assert [row["after"]["id"] for row in found] == list(range(1, 1001))
    assert {tuple(row["after"]) for row in found[:500]} == {("id", "v")}
    assert {row["after"]["w"] for row in found[500:]} == {8}
    assert last["after"] == {"id": 0, "v": "after", "w": 9}


def test_where_the_server_cannot_decode_in_blocks_the_next_session_does_without(table: Database, source: Postgres):
    begin = source.prepare(None)
    source.close()
    with table.connect() as connection, connection.transaction():
        connection.execute(FILL, [1, 500])
        connection.execute("savepoint s")
        connection.execute("alter table t add undone int default 1")
        connection.execute("insert into t select n, repeat('y', 200), 2 from generate_series(501, 1000) n")
        connection.execute("rollback to s")
        connection.execute(FILL, [501, 1000])
        connection.execute("alter table t add w int default 7")
        connection.execute("insert into t select n, repeat('z', 200), 8 from generate_series(1001, 1500) n")
    with suppress(Retry), open_log(source, begin) as log:
        found = changes(log, read_changes(log, 1500))
    if log.blocks_failed:
        with open_log(source, begin) as log:
            found = changes(log, read_changes(log, 1500))
    assert [row["after"]["id"] for row in found] == list(range(1, 1501))
    assert {tuple(row["after"]) for row in found[:1000]} == {("id", "v")}
    assert {row["after"]["w"] for row in found[1000:]} == {8}


def test_a_transaction_sent_again_has_the_same_positions_whole_or_in_blocks(table: Database, source: Postgres):
    begin = source.prepare(None)
    source.close()
    with table.connect() as connection, connection.transaction():
        connection.execute(FILL, [1, 300])
        connection.execute("savepoint s")
        connection.execute(FILL, [301, 600])
        connection.execute("rollback to s")
        connection.execute(FILL, [601, 900])
    whole = make_source(table)
    found = []
    for each in (source, whole, source):
        with open_log(each, begin) as log:
            found.append(changes(log, read_changes(log, 600)))
    assert found[0] == found[1] == found[2]
    assert [row["ordinal"] for row in found[0]] == list(range(1, 601))


def test_a_published_transaction_comes_in_pieces(table: Database, source: Postgres, monkeypatch):
    monkeypatch.setattr(log_module, "CHUNK_BYTES", 50_000)
    with open_log(source) as log:
        table.execute(FILL, 1, 2000)
        chunks = [chunk for chunk in read_changes(log, 2000) if chunk.first < chunk.last and chunk.changes]
        assert len(chunks) > 5
        assert [chunk.whole for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
        assert ids(log, chunks) == list(range(1, 2001))


def test_a_prepared_transaction_is_a_commit_when_it_is_committed(table: Database, source: Postgres, postgres):
    if postgres.execute("show max_prepared_transactions") == [("0",)]:
        postgres.settings["max_prepared_transactions"] = "10"
        postgres.restart()
    with open_log(source) as log:
        for name, low, high in (("small", 1, 2), ("large", 1001, 2000), ("dropped", 3001, 4000)):
            with table.connect() as connection:
                connection.execute("begin")
                connection.execute(FILL, [low, high])
                connection.execute(f"prepare transaction '{table.name}_{name}'")
        table.execute("insert into t values (-1, 'between')")
        assert ids(log, read_changes(log, 1)) == [-1]
        for name, verb in (("dropped", "rollback"), ("large", "commit"), ("small", "commit")):
            table.execute(f"{verb} prepared '{table.name}_{name}'")
        found = changes(log, read_changes(log, 1002))
    assert [row["after"]["id"] for row in found] == [*range(1001, 2001), 1, 2]
    assert len({row["commit"] for row in found}) == 2


def test_a_slot_made_for_two_phase_commit_is_refused(table: Database, source: Postgres):
    try:
        table.execute("select pg_create_logical_replication_slot(%s, 'pgoutput', false, true)", table.name)
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server has no such slots")
    with pytest.raises(Stop, match="two-phase"):
        source.prepare(None)
