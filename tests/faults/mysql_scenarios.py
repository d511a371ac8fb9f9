"""What happens to a binlog, its readers and its tables. The table goes on behind `scenarios.py`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults.mysql_stage import CLIENT, SETTINGS, MySqlStage
from tests.faults.scenarios import Scenarios
from tests.faults.stage import ROLE, SECRET, pause
from tests.lake import assert_same_rows, lake_rows

from headwater.options import Secret
from headwater.sources.mysql.connection import Server
from headwater.sources.mysql.log import start_dump
from headwater.sources.mysql.options import MySqlOptions
from headwater.sources.mysql.state import written
from headwater.testing import wait_until
from headwater.testing.mysql import MySqlServer
from headwater.testing.pipeline import PipelineProcess

MYSQL = Scenarios()
scenario = MYSQL.add


# -- servers -----------------------------------------------------------------------------------------


@contextmanager
def replica_of(stage: MySqlStage) -> Iterator[MySqlServer]:
    """A second server that follows the first by GTID, from its first transaction on."""
    primary = stage.server
    replica = MySqlServer(primary.binaries, settings={**SETTINGS, "server-id": "2"})
    stage.also_close(replica)
    replica.start()
    by_gtid = "master_use_gtid = slave_pos"
    if not primary.binaries.mariadb:
        # It has transactions of its own from when it was made; the password goes encrypted with the server's key.
        replica.execute("reset master")
        by_gtid = "master_auto_position = 1, get_master_public_key = 1"
    replica.execute(
        f"change master to master_host = '127.0.0.1', master_port = {primary.port}, master_user = '{ROLE}',"
        f" master_password = '{SECRET}', {by_gtid}, master_connect_retry = 1",
        "start slave",
    )
    yield replica


def caught_up(primary: MySqlServer, replica: MySqlServer) -> bool:
    names = ("gtid_binlog_pos", "gtid_slave_pos") if primary.binaries.mariadb else ("gtid_executed", "gtid_executed")
    there, here = (s.execute(f"select @@global.{n}") for s, n in zip((primary, replica), names, strict=True))
    return there == here


def has_tables(server: MySqlServer) -> bool:
    return bool(server.execute("select 1 from information_schema.tables where table_schema = 'shop'"))


@scenario(slow=True)
def failover_to_a_replica(stage: MySqlStage) -> None:
    """Other files, other offsets, the same GTIDs: the stream goes on where it was."""
    with replica_of(stage) as replica:
        primary = stage.server
        wait_until(lambda: has_tables(replica), 60, "the replica has the tables")
        with stage.at_rest:
            wait_until(lambda: caught_up(primary, replica), 60, "the replica has everything")
            primary.kill()
            replica.execute("stop slave", "reset slave all")
            stage.move_to(replica)
        stage.pipeline.wait_ready()


@scenario("behind the stored position", "load the tables anew", slow=True)
def failover_to_a_replica_that_lacks_transactions(stage: MySqlStage) -> None:
    """What we hold was never there: going on would mix two histories."""
    with replica_of(stage) as replica:
        wait_until(lambda: has_tables(replica), 60, "the replica has the tables")
        replica.execute("stop slave")
        stage.batches(2)
        with stage.at_rest:
            stage.stop()
            stage.server.kill()
            replica.execute("reset slave all")
            stage.move_to(replica)


@scenario("were purged", "load the tables anew", slow=True)
def log_purged_while_down(stage: MySqlStage) -> None:
    stage.stop()
    pause(0.3)
    stage.execute("flush binary logs")
    pause(0.3)
    stage.execute("flush binary logs")
    last = stage.execute("show binary logs")[-1][0]

    def purged() -> bool:
        stage.execute("purge binary logs to %s", last)
        return stage.execute("show binary logs")[0][0] == last

    wait_until(purged, 30, "the log is purged")


@scenario("behind the stored position", "load the tables anew", slow=True)
def log_reset(stage: MySqlStage) -> None:
    stage.stop()
    with stage.at_rest:
        stage.execute("reset master")


@scenario("behind the stored position", "load the tables anew", slow=True)
def server_restored_from_an_older_backup(stage: MySqlStage) -> None:
    stage.stop()
    with stage.at_rest:
        stage.backup()
    stage.pipeline.start()
    stage.batches(3)
    stage.stop()
    with stage.at_rest:
        stage.restore()


# -- readers with one id -----------------------------------------------------------------------------


@scenario(slow=True)
def two_pipelines_with_one_server_id(stage: MySqlStage) -> None:
    """The second one stops and says why; the first does not notice."""
    folder = stage.directory / "second"
    folder.mkdir()
    second = PipelineProcess(folder, {"source": stage.source()}, spark=False)
    second.start()
    assert second.wait() == 3, second.output()[-3000:]
    assert "is in use by another replica" in second.output()
    stage.batches(1)
    assert stage.pipeline.running(), stage.pipeline.output()[-3000:]


def end_the_other(stage: MySqlStage) -> None:
    stage.close_others()


@scenario("server_id", "source.server_id", remedy=end_the_other, slow=True)
def another_replica_takes_our_id(stage: MySqlStage) -> None:
    """Somebody who does not look first: we stop, instead of taking turns with them."""
    options = MySqlOptions(url=Secret(stage.server.url()), client=CLIENT)
    rival = Server(options)
    stage.also_close(rival)
    start_dump(rival, options, written(rival))


# -- accounts ----------------------------------------------------------------------------------------


def use_the_new_password(stage: MySqlStage) -> None:
    stage.use(url=stage.url("another"))


@scenario("refuses the account", "source.password", status=2, remedy=use_the_new_password, slow=True)
def password_rotated(stage: MySqlStage) -> None:
    stage.execute(f"alter user {ROLE} identified by 'another'")
    stage.proxy.cut()


def give_replication_back(stage: MySqlStage) -> None:
    stage.execute(f"grant replication slave on *.* to {ROLE}")


@scenario("replication slave", status=3, remedy=give_replication_back, slow=True)
def account_loses_replication(stage: MySqlStage) -> None:
    stage.execute(f"revoke replication slave on *.* from {ROLE}")
    stage.proxy.cut()


# -- definitions -------------------------------------------------------------------------------------


def followed(stage: MySqlStage, table: str) -> None:
    """Until the lake has the table as the source has it now."""

    def equal() -> bool:
        try:
            assert_same_rows(table, lake_rows(stage.lake, table), stage.rows(table))
        except Exception:
            return False
        return True

    try:
        wait_until(lambda: not stage.pipeline.running() or equal(), 60, table)
    finally:
        assert stage.pipeline.running(), stage.pipeline.output()[-3000:]
        assert_same_rows(table, lake_rows(stage.lake, table), stage.rows(table))


@scenario(slow=True)
def storm_of_definitions(stage: MySqlStage) -> None:
    """Columns come and are widened while rows are written; tables come, are renamed, and go."""
    stage.execute("create table shop.storm (id int primary key auto_increment, v varchar(10))")
    for number in range(12):
        stage.execute("insert into shop.storm (v) values ('a'), ('b')")
        stage.execute(f"alter table shop.storm add column c{number} int, modify v varchar({20 + number})")
        stage.execute(f"insert into shop.storm (v, c{number}) values ('with', {number})")
        stage.execute(f"update shop.storm set c{number} = id")
        stage.execute(f"create table shop.short_{number} (id int primary key, v text)")
        stage.execute(f"insert into shop.short_{number} values (1, 'one')")
        stage.execute(f"rename table shop.short_{number} to shop.gone_{number}")
        stage.execute(f"drop table shop.gone_{number}")
    followed(stage, "shop.storm")


@scenario(slow=True)
def table_dropped_and_made_again(stage: MySqlStage) -> None:
    """Under one name, first with other rows, then with other columns."""
    stage.execute("create table shop.reborn (id int primary key, v varchar(10))")
    stage.execute("insert into shop.reborn values (1, 'first'), (2, 'first')")
    followed(stage, "shop.reborn")
    stage.execute("drop table shop.reborn")
    stage.execute("create table shop.reborn (id int primary key, v varchar(10))")
    stage.execute("insert into shop.reborn values (2, 'second'), (3, 'second')")
    followed(stage, "shop.reborn")


@scenario(slow=True)
def tables_swapped_by_rename(stage: MySqlStage) -> None:
    """As gh-ost and pt-online-schema-change do: a shadow with the new definition, filled, then put in place."""
    stage.execute("create table shop.live (id int primary key, v varchar(10))")
    stage.execute("insert into shop.live values (1, 'one'), (2, 'two')")
    followed(stage, "shop.live")
    stage.execute("create table shop._live_gho like shop.live")
    stage.execute("alter table shop._live_gho add column added int, modify v varchar(40)")
    stage.execute("insert into shop._live_gho (id, v) select id, v from shop.live")
    stage.execute("rename table shop.live to shop._live_del, shop._live_gho to shop.live")
    stage.execute("insert into shop.live values (3, 'a longer text than before', 3)")
    stage.execute("update shop.live set added = 7 where id = 1")
    stage.execute("drop table shop._live_del")
    followed(stage, "shop.live")
