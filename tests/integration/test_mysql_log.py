"""The binlog as a replica reads it: order, resuming, definitions that change, and everything that is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.integration.mysql_source import SetGlobal, changes, read_up, reading, shown, source_of

from headwater.errors import HeadwaterError, Retry, Stop, Usage
from headwater.event import Position
from headwater.journal import Journal
from headwater.sources.base import Severity
from headwater.sources.mysql import MySql
from headwater.sources.mysql.connection import connect, replica_id
from headwater.sources.mysql.log import ServerIdTaken
from headwater.sources.mysql.position import parse_progress
from headwater.sources.mysql.state import binlog_files, unread_bytes, written_file
from headwater.testing import wait_until
from headwater.testing.mysql import MySqlServer

pytestmark = pytest.mark.server


def test_only_committed_changes_come_in_commit_order(mysql: MySqlServer, schema: str) -> None:
    mysql.execute(f"create table {schema}.t (id int primary key, v int)")
    source = source_of(mysql, schema)
    with reading(source) as log, mysql.connect(schema) as one, mysql.connect(schema) as two:
        with one.cursor() as first, two.cursor() as second:
            first.execute("begin")
            first.execute("insert into t values (1, 1)")
            second.execute("insert into t values (2, 2)")
            first.execute("savepoint s")
            first.execute("insert into t values (3, 3)")
            first.execute("rollback to s")
            first.execute("commit")
            second.execute("begin")
            second.execute("insert into t values (4, 4)")
            second.execute("rollback")
        found = changes(source, log)

    assert [row["after"]["id"] for row in found] == [2, 1]


def test_a_log_resumes_behind_any_chunk_and_inside_a_transaction(mysql: MySqlServer, schema: str) -> None:
    mysql.execute(f"create table {schema}.t (id int primary key, v varchar(2000))")
    source = source_of(mysql, schema)
    begin = source.prepare(None)
    with mysql.connect(schema) as connection, connection.cursor() as cursor:
        cursor.execute("insert into t values (1, 'a')")
        cursor.execute("begin")
        for n in range(10, 5010, 100):
            rows = ", ".join(f"({k}, repeat('x', 1500))" for k in range(n, n + 100))
            cursor.execute(f"insert into t values {rows}")
        cursor.execute("commit")
        cursor.execute("insert into t values (9999, 'z')")
    with reading(source, begin) as log:
        chunks = read_up(source, log)
        whole = {(p.commit, p.ordinal) for chunk in chunks for p in source.positions(chunk)}
    assert len(whole) == 5002
    assert sum(not chunk.whole for chunk in chunks) >= 1

    inside = next(chunk.last for chunk in chunks if not chunk.whole)
    for after in (begin, inside, source.positions(chunks[0])[0]):
        with reading(source, after) as log:
            again = {(p.commit, p.ordinal) for chunk in read_up(source, log) for p in source.positions(chunk)}
        expected = {p for p in whole if p[0] >= after.commit}
        assert again == expected


def test_tables_that_change_their_shape_are_read_under_the_shape_of_their_rows(mysql: MySqlServer, schema: str) -> None:
    mysql.execute(f"create table {schema}.t (id int primary key, a int, b varchar(10))")
    source = source_of(mysql, schema)
    begin = source.prepare(None)
    mysql.execute(
        f"insert into {schema}.t values (1, 10, 'x')",
        f"alter table {schema}.t drop column a",
        f"insert into {schema}.t values (2, 'y')",
        f"alter table {schema}.t add column a bigint first, change b renamed varchar(300)",
        f"insert into {schema}.t values (77, 3, 'z')",
        f"drop table {schema}.t",
        f"create table {schema}.t (id varchar(5) primary key)",
        f"insert into {schema}.t values ('new')",
    )
    with reading(source, begin) as log:
        found = changes(source, log)

    assert [row["after"] for row in found] == [
        {"id": 1, "a": 10, "b": "x"},
        {"id": 2, "b": "y"},
        {"a": 77, "id": 3, "renamed": "z"},
        # The table was dropped: a truncation to whoever has its rows.
        None,
        {"id": "new"},
    ]


@pytest.mark.parametrize("statement", ["drop table {schema}.t, {schema}.u", "drop database {schema}"])
def test_tables_that_are_dropped_before_anything_was_read_of_them_are_known(
    mysql: MySqlServer, schema: str, tmp_path: Path, statement: str
) -> None:
    mysql.execute(
        f"create table {schema}.t (id int primary key)",
        f"create table {schema}.u (id int primary key, a text)",
        f"insert into {schema}.u values (1, 'x')",
    )
    files = Journal(tmp_path / "journal").source
    source = source_of(mysql, schema)
    source.files = files
    begin = source.prepare(None)
    with reading(source, begin):
        pass
    mysql.execute(statement.format(schema=schema), f"create database if not exists {schema}")

    again = source_of(mysql, schema)
    again.files = files
    with reading(again, begin) as log:
        found = changes(again, log)

    assert sorted((row["op"], row["table"]) for row in found) == [("t", f"{schema}.t"), ("t", f"{schema}.u")]


def test_an_online_migration_s_swap_of_tables_is_followed(mysql: MySqlServer, schema: str) -> None:
    mysql.execute(f"create table {schema}.t (id int primary key, a int)")
    source = source_of(mysql, schema, tables=[f"{schema}.t"])
    with reading(source) as log:
        mysql.execute(
            f"insert into {schema}.t values (1, 1)",
            f"create table {schema}._t_gho (id int primary key, a bigint, extra int)",
            f"insert into {schema}._t_gho select id, a, null from {schema}.t",
            f"rename table {schema}.t to {schema}._t_del, {schema}._t_gho to {schema}.t",
            f"insert into {schema}.t values (2, 2, 2)",
            f"insert into {schema}._t_del values (3, 3)",
        )
        found = changes(source, log)

    assert [(row["table"], row["after"]) for row in found] == [
        (f"{schema}.t", {"id": 1, "a": 1}),
        (f"{schema}.t", {"id": 2, "a": 2, "extra": 2}),
    ]


def test_a_truncation_comes_even_when_it_is_the_first_we_see_of_a_table(mysql: MySqlServer, schema: str) -> None:
    mysql.execute(f"create table {schema}.`t``x` (id int primary key)", f"create table {schema}.other (id int)")
    source = source_of(mysql, schema, exclude=[f"{schema}.other"])
    with reading(source) as log:
        mysql.execute(f"truncate table {schema}.other")
        mysql.execute("truncate `t``x`", "insert into `t``x` values (1)", database=schema)
        found = changes(source, log)

    assert shown(found) == [("t", None, None), ("c", None, {"id": 1})]


def test_rows_larger_than_a_packet_come_whole(mysql: MySqlServer, schema: str) -> None:
    mysql.execute(f"create table {schema}.t (id int primary key, b longblob)")
    source = source_of(mysql, schema)
    with reading(source) as log:
        mysql.execute(f"insert into {schema}.t values (1, repeat('0123456789abcdef', 1100000)), (2, 'small')")
        found = changes(source, log)

    assert [len(row["after"]["b"]) for row in found] == [17_600_000, 5]
    assert found[0]["after"]["b"] == b"0123456789abcdef" * 1_100_000


def test_compressed_events_are_read(mysql: MySqlServer, schema: str) -> None:
    mysql.execute(f"create table {schema}.t (id int primary key, v text)")
    setting = "global log_bin_compress" if mysql.binaries.mariadb else "session binlog_transaction_compression"
    source = source_of(mysql, schema)
    try:
        with reading(source) as log:
            mysql.execute(
                f"set {setting} = 1",
                f"insert into {schema}.t values (1, repeat('a', 5000)), (2, repeat('b', 5000))",
                f"update {schema}.t set v = 'c'",
                f"delete from {schema}.t where id = 1",
            )
            found = changes(source, log)
    finally:
        if mysql.binaries.mariadb:
            mysql.execute(f"set {setting} = 0")

    a, b, c = "a" * 5000, "b" * 5000, "c"
    assert shown(found) == [
        ("c", None, {"id": 1, "v": a}),
        ("c", None, {"id": 2, "v": b}),
        ("u", {"id": 1, "v": a}, {"id": 1, "v": c}),
        ("u", {"id": 2, "v": b}, {"id": 2, "v": c}),
        ("d", {"id": 1, "v": c}, None),
    ]


def test_an_idle_log_reports_that_others_have_moved_it(mysql: MySqlServer, schema: str) -> None:
    mysql.execute(f"create table {schema}.t (id int)", f"create table {schema}.other (id int)")
    source = source_of(mysql, schema, tables=[f"{schema}.t"], heartbeat_interval_ms=100)
    with reading(source) as log:
        begin = source.end()
        mysql.execute(f"insert into {schema}.other values (1)")
        chunks = []

        def moved() -> bool:
            chunk = log.read(0.1)
            if chunk is not None:
                chunks.append(chunk)
            return bool(chunks) and chunks[-1].last.commit > begin

        wait_until(moved, 30, "a chunk without changes")

    assert all(chunk.whole and not chunk.tables for chunk in chunks)


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "value"), [("binlog_format", "MIXED"), ("binlog_row_image", "MINIMAL")])
def test_settings_that_would_lose_rows_are_refused_with_what_mends_them(
    mysql: MySqlServer, schema: str, global_setting: SetGlobal, name: str, value: str
) -> None:
    mysql.execute(f"create table {schema}.t (id int primary key)")
    global_setting(name, value)
    source = source_of(mysql, schema)

    with pytest.raises(Usage) as refused:
        source.prepare(None)
    assert f"set global {name} = " in str(refused.value)
    finding = next(finding for finding in source.check() if finding.subject == name)
    assert finding.severity == Severity.ERROR
    assert f"set global {name} = " in finding.remedy


def test_rows_that_a_session_logged_otherwise_stop_the_log(mysql: MySqlServer, schema: str) -> None:
    mysql.execute(f"create table {schema}.t (id int primary key, a int, b int)")
    mysql.execute(f"insert into {schema}.t values (1, 1, 1)")
    source = source_of(mysql, schema)
    with reading(source) as log:
        mysql.execute("set session binlog_row_image = 'MINIMAL'", f"update {schema}.t set a = 2")
        with pytest.raises(Stop, match="leaves out column"):
            changes(source, log)
    with reading(source) as log:
        mysql.execute("set session binlog_format = 'STATEMENT'", f"insert into {schema}.t values (2, 2, 2)")
        with pytest.raises(Stop, match="as a statement"):
            read_up(source, log)


def test_xa_transactions_are_read_in_one_phase_passed_over_elsewhere_and_otherwise_refused(
    mysql: MySqlServer, schema: str
) -> None:
    mysql.execute(f"create table {schema}.t (id int primary key)", f"create table {schema}.other (id int primary key)")
    source = source_of(mysql, schema, tables=[f"{schema}.t"])
    with reading(source) as log:
        mysql.execute(
            "xa start 'a'", "insert into t values (1)", "xa end 'a'", "xa commit 'a' one phase", database=schema
        )
        for n, end in enumerate(("commit", "rollback")):
            mysql.execute(
                "xa start 'b'", f"insert into other values ({n})", "xa end 'b'", "xa prepare 'b'", database=schema
            )
            mysql.execute(f"xa {end} 'b'")
        mysql.execute(f"insert into {schema}.t values (2)")
        assert [row["after"]["id"] for row in changes(source, log)] == [1, 2]

        mysql.execute("xa start 'c'", "insert into t values (3)", "xa end 'c'", "xa prepare 'c'", database=schema)
        mysql.execute("xa commit 'c'")
        with pytest.raises(Stop, match="XA transaction of captured tables"):
            read_up(source, log)


def test_an_account_without_privileges_is_told_what_to_grant(mysql: MySqlServer, schema: str) -> None:
    from headwater.options import Secret

    mysql.execute(f"create table {schema}.t (id int primary key)")
    user = f"u_{schema}"
    mysql.execute(f"create user {user} identified by 'canary'", f"grant select on {schema}.* to {user}")
    source = source_of(mysql, schema, url=Secret(mysql.url(user=user, password="canary")))

    found = [finding for finding in source.check() if finding.severity == Severity.ERROR]
    assert any(f"grant replication slave on *.* to '{user}'" in finding.remedy for finding in found)
    more = ", replication master admin" if mysql.binaries.mariadb else ""
    mysql.execute(f"grant replication slave, replication client{more} on *.* to {user}")
    assert not [finding for finding in source.check() if finding.severity == Severity.ERROR]
    with reading(source) as log:
        mysql.execute(f"insert into {schema}.t values (1)")
        assert len(changes(source, log)) == 1

    wrong = source_of(mysql, schema, url=Secret(mysql.url(user=user, password="wrong-canary")))
    with pytest.raises(Usage) as refused:
        wrong.prepare(None)
    assert "canary" not in str(refused.value)


def server_id_finding(source: MySql) -> Severity:
    return next(finding.severity for finding in source.check() if finding.subject == "server_id")


def test_a_second_reader_with_our_id_stops_and_the_first_goes_on(mysql: MySqlServer, schema: str) -> None:
    mysql.execute(f"create table {schema}.t (id int primary key)")
    source = source_of(mysql, schema, heartbeat_seconds=0.2)
    with reading(source) as log:
        read_up(source, log)
        with pytest.raises(ServerIdTaken, match=str(replica_id(source.options))):
            source.log(source.prepare(None))
        other = source_of(mysql, schema, client="other", server_id=replica_id(source.options))
        assert [server_id_finding(each) for each in (source, other)] == [Severity.OK, Severity.WARNING]
        mysql.execute(f"insert into {schema}.t values (1)")
        assert len(changes(source, log)) == 1
    # The place is free again as soon as the server has noticed.
    with reading(source) as log:
        mysql.execute(f"insert into {schema}.t values (2)")
        assert len(changes(source, log)) == 1


def test_the_server_s_own_id_is_refused(mysql: MySqlServer, schema: str) -> None:
    source = source_of(mysql, schema, server_id=1)
    with pytest.raises(ServerIdTaken):
        source.log(source.prepare(None))


# -- a server of one's own -------------------------------------------------------------------------


@pytest.fixture
def own(mysql: MySqlServer) -> Iterator[MySqlServer]:
    with MySqlServer(mysql.binaries, {"server-id": "7"}) as server:
        server.execute("create database shop", "create table shop.t (id int primary key)")
        yield server


def test_purged_reset_and_foreign_logs_are_refused_by_their_true_cause(own: MySqlServer) -> None:
    source = source_of(own, "shop")
    begin = source.prepare(None)
    own.execute("insert into shop.t values (1)", "flush binary logs", "insert into shop.t values (2)")
    later = source.prepare(None)
    last = own.execute("show binary logs")[-1][0]

    def purged() -> bool:
        # A server keeps a file that it might need to recover.
        own.execute(f"purge binary logs to '{last}'")
        return bool(own.execute("show binary logs")[0][0] == last)

    wait_until(purged, 30, "the first file is gone")

    with pytest.raises(Stop, match="purged"):
        source.prepare(begin)
    with pytest.raises(Stop, match="purged"):
        source.log(begin)
    assert source.prepare(begin, journaled=later) == begin
    own.execute("reset master")
    with pytest.raises(Stop, match="RESET MASTER"):
        source.prepare(later)
    with pytest.raises(Stop, match="cannot be resumed"):
        source.prepare(Position(5, 0, "0/16B3748"))


def test_a_restarted_server_and_a_killed_one_are_read_on(own: MySqlServer) -> None:
    source = source_of(own, "shop")
    with reading(source) as log:
        own.execute("insert into shop.t values (1)")
        (chunk,) = [chunk for chunk in read_up(source, log) if chunk.tables]
        own.restart()
        own.execute("insert into shop.t values (2)")
        with pytest.raises(Retry):
            wait_until(lambda: log.read(0.2) and False, 30, "the connection broke")
    with reading(source, chunk.last) as log:
        assert [row["after"]["id"] for row in changes(source, log)] == [2]
        after = source.prepare(None)
    own.kill()
    with pytest.raises(HeadwaterError):
        source.prepare(None)
    own.start()
    own.execute("insert into shop.t values (3)")
    with reading(source, after) as log:
        assert [row["after"]["id"] for row in changes(source, log)] == [3]


def test_a_failover_to_a_replica_is_followed_by_gtid(own: MySqlServer) -> None:
    source = source_of(own, "shop")
    with reading(source) as log:
        own.execute("insert into shop.t values (1)")
        (chunk,) = [chunk for chunk in read_up(source, log) if chunk.tables]
    with MySqlServer(own.binaries, {"server-id": "8"}) as replica:
        replicate(own, replica)
        own.execute("insert into shop.t values (2)", "flush binary logs", "insert into shop.t values (3)")
        there = "select count(*) from information_schema.tables where table_schema = 'shop' and table_name = 't'"
        wait_until(lambda: replica.execute(there) == [(1,)], 60, "the replica has the table")
        wait_until(lambda: replica.execute("select count(*) from shop.t") == [(3,)], 60, "the replica caught up")
        own.stop()
        replica.execute("stop slave", "insert into shop.t values (4)")
        moved = source_of(replica, "shop")

        assert moved.prepare(chunk.last) == chunk.last
        with reading(moved, chunk.last) as log:
            found = changes(moved, log)
        assert [row["after"]["id"] for row in found] == [2, 3, 4]
        assert [row["commit"] for row in found] == sorted(row["commit"] for row in found)
        assert min(row["commit"] for row in found) >= chunk.last.commit
        with connect(moved.options) as server:
            assert server.value("select @@server_id") == 8


def replicate(primary: MySqlServer, replica: MySqlServer) -> None:
    """From the beginning of the primary's log."""
    primary.execute("create user repl identified by 'repl'", "grant replication slave on *.* to repl")
    where = f"master_host='127.0.0.1', master_port={primary.port}, master_user='repl', master_password='repl'"
    how = "master_use_gtid=slave_pos" if primary.binaries.mariadb else "master_auto_position=1, get_master_public_key=1"
    reset = "reset master"
    replica.execute(reset, f"change master to {where}, {how}", "start slave")


def test_the_command_line_prints_events(mysql: MySqlServer, schema: str) -> None:
    import json

    mysql.execute(f"create table {schema}.t (id int primary key, v varchar(9))")
    command = [sys.executable, "-m", "headwater.cli", "tail", mysql.url(), "--table", f"{schema}.*", "--limit", "2"]
    tail = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert tail.stderr is not None
    assert "listening" in tail.stderr.readline()
    mysql.execute(f"insert into {schema}.t values (1, 'ä')", f"delete from {schema}.t")
    out, err = tail.communicate(timeout=60)

    events = [json.loads(line) for line in out.splitlines()]
    assert [event["op"] for event in events] == ["c", "d"], err
    source = events[0]["source"]
    assert (source["db"], source["table"], source["row"]) == (schema, "t", 0)
    assert source["file"].startswith("binlog.0")
    assert source["connector"] == ("mariadb" if mysql.binaries.mariadb else "mysql")
    assert parse_progress(("mariadb:" if mysql.binaries.mariadb else "mysql:") + source["gtid"]).coordinate > 0


def test_how_far_behind_we_are_and_how_long_the_log_is_kept(own: MySqlServer) -> None:
    source = source_of(own, "shop")
    own.execute(
        "set global expire_logs_days = 2" if own.binaries.mariadb else "set global binlog_expire_logs_seconds = 172800"
    )
    kept = source.kept()
    assert kept.seconds == 172_800
    assert kept.bytes > 100
    with connect(source.options) as server:
        here = written_file(server)
        own.execute("insert into shop.t values (1)", "flush binary logs", "insert into shop.t values (2)")
        end = written_file(server)
        sizes = [int(row["file_size"]) for row in binlog_files(server)]

        assert unread_bytes(server, here.file, here.offset) == sizes[-2] - here.offset + sizes[-1]
        assert unread_bytes(server, end.file, end.offset) == 0


def test_parts_of_a_snapshot_that_no_session_sees_any_more_fail_at_once(mysql: MySqlServer, schema: str) -> None:
    for table in ("a", "b", "c"):
        mysql.execute(f"create table {schema}.{table} (id int primary key)")
        mysql.execute(f"insert into {schema}.{table} values (1)")
    source = source_of(mysql, schema)
    with source.snapshot(source.tables(), 1) as snapshot:
        # Other tables of these names: what the one session sees of them is nothing.
        for table in ("a", "b", "c"):
            mysql.execute(f"drop table {schema}.{table}")
            mysql.execute(f"create table {schema}.{table} (id int primary key)")

        def copied(number: int) -> str:
            try:
                return str(list(source.copy(snapshot.chunks[number], snapshot)))
            except Retry as error:
                return error.what

        with ThreadPoolExecutor(3) as threads:
            found = list(threads.map(copied, range(3), timeout=60))
    source.close()

    assert sum("the snapshot is gone" in each for each in found) == 2, found
