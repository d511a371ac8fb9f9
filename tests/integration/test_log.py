"""The log of a real server: slot → chunks → changes equal what SQL says."""

from __future__ import annotations

import random
import time

import pytest
from psycopg import sql
from tests.conftest import Database
from tests.integration.postgres_source import changes, make_source, open_log, read_changes, read_chunks

from headwater.errors import Retry, Stop
from headwater.event import Position
from headwater.sources.postgres import log as log_module
from headwater.sources.postgres.position import at_lsn, flush_lsn, parse_lsn
from headwater.testing import wait_until

pytestmark = pytest.mark.server

# Not compressible, and longer than TOAST keeps in the row.
LONG = random.Random(5).randbytes(6_000).hex()  # noqa: S311


def test_every_operation_comes_once_in_commit_order(database: Database):
    database.execute("create table t (id int primary key, v text)")
    source = make_source(database, tables="public.*")
    with open_log(source) as log:
        database.execute("insert into t values (1, 'a'), (2, null)")
        database.execute("update t set v = 'b' where id = 1")
        database.execute("update t set id = 3 where id = 2")
        database.execute("delete from t where id = 1")
        database.execute("begin; insert into t values (9, 'never'); rollback")
        database.execute("truncate t")
        found = changes(log, read_changes(log, 6))

    assert [(row["op"], row["before"], row["after"]) for row in found] == [
        ("c", None, {"id": 1, "v": "a"}),
        ("c", None, {"id": 2, "v": None}),
        ("u", None, {"id": 1, "v": "b"}),
        ("u", {"id": 2, "v": None}, {"id": 3, "v": None}),
        ("d", {"id": 1, "v": None}, None),
        ("t", None, None),
    ]
    assert [row["ordinal"] for row in found] == [1, 2, 1, 1, 1, 1]
    assert [row["commit"] for row in found] == sorted(row["commit"] for row in found)
    assert all(row["commit_time"] is not None and row["transaction_id"] > 0 for row in found)


def test_random_traffic_replayed_gives_the_table(database: Database):
    dice = random.Random(11)  # noqa: S311
    database.execute("create table t (id int primary key, n int, v text)")
    source = make_source(database)
    expected = 0
    with open_log(source) as log:
        with database.connect() as connection:
            for _ in range(40):
                with connection.transaction():
                    for _ in range(dice.randint(1, 20)):
                        values = {"id": dice.randint(1, 60), "n": dice.randint(0, 9)}
                        statement = dice.choice(
                            [
                                "insert into t values (%(id)s, %(n)s, 'x') on conflict do nothing",
                                "update t set n = %(n)s where id = %(id)s",
                                "update t set id = id + 1000 where id = %(id)s"
                                " and not exists (select from t where id = %(id)s + 1000)",
                                "delete from t where id = %(id)s",
                            ]
                        )
                        expected += connection.execute(statement, values).rowcount
        replayed: dict[int, dict] = {}
        for row in changes(log, read_changes(log, expected)):
            gone = row["before"] if row["op"] in "ud" and row["before"] else row["after"]
            replayed.pop(gone["id"], None)
            if row["after"]:
                replayed[row["after"]["id"]] = row["after"]

    names = ("id", "n", "v")
    assert sorted(replayed.values(), key=lambda row: row["id"]) == [
        dict(zip(names, row, strict=True)) for row in database.execute("select id, n, v from t order by id")
    ]


IDENTITIES = {
    "default": "alter table t replica identity default",
    "index": "alter table t replica identity using index t_k",
    "full": "alter table t replica identity full",
    "nothing": "alter table t replica identity nothing",
}


@pytest.mark.parametrize("identity", IDENTITIES)
def test_unchanged_toast_is_marked_or_filled_under_every_replica_identity(database: Database, identity):
    database.execute("create table t (id int primary key, k int not null, n int, long text)")
    database.execute("create unique index t_k on t (k); alter table t alter long set storage external")
    database.execute(IDENTITIES[identity])
    # With NOTHING the server refuses UPDATE of a published table; insert is what remains.
    updates = identity != "nothing"
    with open_log(make_source(database)) as log:
        database.execute("insert into t values (1, 10, 0, %s)", LONG)
        if updates:
            database.execute("update t set n = 1")
            database.execute("update t set id = 2, k = 20")
            database.execute("delete from t")
        found = changes(log, read_changes(log, 4 if updates else 1))

    assert found[0]["after"] == {"id": 1, "k": 10, "n": 0, "long": LONG}
    if not updates:
        return
    whole = identity == "full"
    for row, (key, k) in zip(found[1:3], [(1, 10), (2, 20)], strict=True):
        assert row["after"] == {"id": key, "k": k, "n": 1, "long": LONG if whole else None}
        assert row["unchanged"] == (None if whole else ["long"])
    before = {"default": {"id": 1}, "index": {"k": 10}, "full": {"id": 1, "k": 10, "n": 1, "long": LONG}}[identity]
    assert found[2]["before"] == {"id": None, "k": None, "n": None, "long": None, **before}
    assert found[3]["op"] == "d"


def test_a_key_long_enough_for_toast_is_known_when_another_column_changes(database: Database):
    key = LONG[:2500]
    database.execute("create table t (id text primary key, n int); alter table t alter id set storage external")
    with open_log(make_source(database)) as log:
        database.execute("insert into t values (%s, 0)", key)
        database.execute("update t set n = 1")
        found = changes(log, read_changes(log, 2))

    assert found[1]["after"] == {"id": key, "n": 1}
    assert found[1]["unchanged"] is None


def test_a_copy_burst_shares_one_lsn_and_no_position(database: Database):
    database.execute("create table t (id int primary key)")
    with open_log(make_source(database)) as log:
        with database.connect() as connection, connection.cursor().copy("copy t from stdin") as copy:
            for n in range(200):
                copy.write_row((n,))
        found = changes(log, read_changes(log, 200))

    positions = [(row["commit"], row["ordinal"]) for row in found]
    assert len({row["lsn"] for row in found}) < 200
    assert len(set(positions)) == 200
    assert [row["after"]["id"] for row in found] == list(range(200))


def test_a_large_transaction_comes_in_pieces_and_its_end_is_never_left_behind(database: Database, monkeypatch):
    database.execute("create table t (id int primary key)")
    # Every row fills a chunk: the commit comes with no row to carry it.
    monkeypatch.setattr(log_module, "CHUNK_BYTES", 1)
    with open_log(make_source(database)) as log:
        database.execute("insert into t select generate_series(1, 3)")
        chunks = read_changes(log, 3)
        end = chunks[-1].last
        assert log.lag()["received"] >= flush_lsn(end)

    assert [chunk.whole for chunk in chunks[:-1]] == [False] * (len(chunks) - 1)
    assert end.ordinal == 3
    assert end.resume


def test_received_never_runs_ahead_of_what_was_handed_out(database: Database, monkeypatch):
    monkeypatch.setattr(log_module, "PING_SECONDS", 0.01)
    # Long enough that keepalives come while a transaction waits to be handed on.
    monkeypatch.setattr(log_module, "GATHER_SECONDS", 0.3)
    database.execute("create table t (id int primary key)")
    with open_log(make_source(database)) as log:
        database.execute("insert into t values (0)")
        read_changes(log, 1)
        for n in range(1, 4):
            database.execute("insert into t values (%s)", n)
            written = parse_lsn(database.execute("select pg_current_wal_flush_lsn()::text")[0][0])
            seen = 0
            while not seen:
                chunk = log.read(0.02)
                if chunk is not None:
                    seen += chunk.changes
                assert seen or log.lag()["received"] < written


def test_an_idle_log_ticks_when_others_write(database: Database, monkeypatch):
    monkeypatch.setattr(log_module, "TICK_BYTES", 100_000)
    monkeypatch.setattr(log_module, "PING_SECONDS", 0.05)
    database.execute("create table t (id int primary key); create table other (v text)")
    source = make_source(database, tables="public.t")
    with open_log(source) as log:
        start = database.execute("select pg_current_wal_lsn()::text")[0][0]
        for _ in range(4):
            database.execute("insert into other select repeat('x', 1000) from generate_series(1, 100)")
        written = parse_lsn(database.execute("select pg_current_wal_flush_lsn()::text")[0][0])
        chunks = read_chunks(log, lambda read: bool(read) and flush_lsn(read[-1].last) >= written - 100_000)
        assert all(chunk.whole and not chunk.changes for chunk in chunks)
        log.confirm(chunks[-1].last)
        confirmed = "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s"
        wait_until(
            lambda: parse_lsn(database.execute(confirmed, database.name)[0][0]) > parse_lsn(start), 10, "confirmed"
        )


def test_a_confirmed_position_is_not_sent_again_and_an_unconfirmed_one_is(database: Database):
    database.execute("create table t (id int primary key)")
    source = make_source(database)
    begin = source.prepare(None)
    with open_log(source, begin) as log:
        database.execute("insert into t values (1)")
        database.execute("insert into t values (2)")
        first = read_changes(log, 2)
    with open_log(source, begin) as log:
        again = changes(log, read_changes(log, 2))
        assert [row["after"]["id"] for row in again] == [1, 2]
        log.confirm(first[-1].last)
    with open_log(source, first[-1].last) as log:
        database.execute("insert into t values (3)")
        assert [row["after"]["id"] for row in changes(log, read_changes(log, 1))] == [3]


def test_a_start_inside_a_transaction_gives_the_rest_of_it(database: Database):
    database.execute("create table t (id int primary key)")
    source = make_source(database)
    begin = source.prepare(None)
    with open_log(source, begin) as log:
        database.execute("insert into t values (1)")
        database.execute("insert into t select generate_series(11, 15)")
        database.execute("insert into t values (2)")
        whole = changes(log, read_changes(log, 7))
    middle = Position(whole[3]["commit"], whole[3]["ordinal"])

    with open_log(source, middle) as log:
        resumed = changes(log, read_changes(log, 6))

    # The transaction comes again from its first change; positions tell what is known.
    assert [row["after"]["id"] for row in resumed] == [11, 12, 13, 14, 15, 2]
    known = [row for row in resumed if Position(row["commit"], row["ordinal"]) > middle]
    assert [row["after"]["id"] for row in known] == [14, 15, 2]


def test_added_and_dropped_columns_are_seen_where_they_happened(database: Database):
    database.execute("create table t (id int primary key, a text)")
    with open_log(make_source(database)) as log:
        with database.connect() as connection, connection.transaction():
            connection.execute("insert into t values (1, 'x')")
            connection.execute("alter table t add b int default 7")
            connection.execute("insert into t values (2, 'y', 8)")
            connection.execute("alter table t drop a")
            connection.execute("insert into t values (3, 9)")
        found = changes(log, read_changes(log, 3))

    assert [row["after"] for row in found] == [{"id": 1, "a": "x"}, {"id": 2, "a": "y", "b": 8}, {"id": 3, "b": 9}]
    assert [row["ordinal"] for row in found] == [1, 2, 3]


def test_hostile_identifiers_pass_through(database: Database):
    schema, table, column = 'we"ird; drop', "t'a\nb\\c%s{}", "c" * 60 + "ü'"
    name = sql.Identifier(schema, table)
    database.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
    database.execute(sql.SQL("create table {} (id int primary key, {} text)").format(name, sql.Identifier(column)))
    source = make_source(database, tables=f"{schema}.*", publication="p\"u'b")
    with open_log(source) as log:
        database.execute(sql.SQL("insert into {} values (1, 'x')").format(name))
        found = changes(log, read_changes(log, 1))

    assert found[0]["table"] == f"{schema}.{table}"
    assert found[0]["after"] == {"id": 1, column: "x"}


def test_partitions_come_as_themselves_or_under_their_root(database: Database):
    database.execute("create table p (id int primary key, v text) partition by range (id)")
    database.execute("create table p1 partition of p for values from (0) to (10)")
    # Attached with its columns in another order.
    database.execute("create table p2 (v text, id int not null)")
    database.execute("alter table p attach partition p2 for values from (10) to (20)")
    leaves = make_source(database, publication="leaves", slot=f"{database.name}_l")
    root = make_source(database, publication="root", slot=f"{database.name}_r", publish_via_partition_root=True)
    begins = leaves.prepare(None), root.prepare(None)
    database.execute("insert into p values (1, 'a'), (11, 'b')")

    with open_log(leaves, begins[0]) as log:
        found = changes(log, read_changes(log, 2))
        assert [(row["table"], row["after"]["id"]) for row in found] == [("public.p1", 1), ("public.p2", 11)]
    with open_log(root, begins[1]) as log:
        found = changes(log, read_changes(log, 2))
        assert [(row["table"], row["after"]) for row in found] == [
            ("public.p", {"id": 1, "v": "a"}),
            ("public.p", {"id": 11, "v": "b"}),
        ]
    leaves.close()
    root.close()


def test_a_server_that_stops_is_a_reason_to_try_again(database: Database):
    database.execute("create table t (id int primary key)")
    with open_log(make_source(database)) as log:
        database.server.execute(
            "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = %s", database.name
        )
        with pytest.raises(Retry):
            read_chunks(log, lambda _read: False)


def test_a_publication_dropped_under_the_slot_stops_and_says_why(database: Database):
    database.execute("create table t (id int primary key)")
    with open_log(make_source(database)) as log:
        database.execute("drop publication pub")
        database.execute("insert into t values (1)")
        with pytest.raises(Stop, match='publication "pub" does not exist') as stopped:
            read_chunks(log, lambda _read: False)
    assert "drop the slot" in str(stopped.value)


def test_while_nothing_can_be_taken_the_connection_is_held(database: Database):
    database.execute("create table t (id int primary key)")
    database.execute("alter role postgres set wal_sender_timeout = '500ms'")
    try:
        with open_log(make_source(database, status_interval_ms=50)) as log:
            deadline = time.monotonic() + 1.5
            while time.monotonic() < deadline:
                log.hold()
                time.sleep(0.05)
            database.execute("insert into t values (1)")
            assert changes(log, read_changes(log, 1))[0]["after"] == {"id": 1}
    finally:
        database.execute("alter role postgres reset wal_sender_timeout")


def test_the_environment_does_not_change_how_values_are_written(database: Database, monkeypatch):
    monkeypatch.setenv("PGTZ", "Asia/Kolkata")
    monkeypatch.setenv("PGDATESTYLE", "German")
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    database.execute("create table t (id int primary key, d date, v text)")
    with open_log(make_source(database)) as log:
        database.execute("insert into t values (1, '2024-02-03', E'\\u00e9\\u4e2d')")
        row = changes(log, read_changes(log, 1))[0]["after"]

    assert row["d"].isoformat() == "2024-02-03"
    assert row["v"] == "é中"


def test_a_position_behind_the_slot_is_refused(database: Database):
    database.execute("create table t (id int primary key)")
    source = make_source(database)
    begin = source.prepare(None)
    source.close()
    with pytest.raises(Stop, match="ahead of the last durable position"):
        source.log(at_lsn(flush_lsn(begin) - 1000))
