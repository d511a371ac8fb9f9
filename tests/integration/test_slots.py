"""`headwater slots` on a real server: everybody's slots, what becomes of them, and nothing dropped that lives."""

from __future__ import annotations

import json

import pytest
from tests.conftest import Database
from tests.integration.postgres_source import make_source, open_log

from headwater.cli import main
from headwater.operate.slots import observe
from headwater.testing import PostgresServer, wait_until

pytestmark = pytest.mark.server


def listed(capsys, url: str) -> dict[str, dict]:
    assert main(["slots", url, "--json"]) == 0
    return {slot["name"]: slot for slot in json.loads(capsys.readouterr().out)["slots"]}


def test_every_slot_is_listed_with_its_reader_and_what_it_retains(database: Database, capsys):
    database.execute("create table t (id int primary key)")
    database.execute(f"select pg_create_physical_replication_slot('{database.name}_physical', true)")
    source = make_source(database)
    with open_log(source):
        found = listed(capsys, database.url)
    database.execute(f"select pg_drop_replication_slot('{database.name}_physical')")

    ours, other = found[database.name], found[f"{database.name}_physical"]
    assert ours["active_pid"] is not None
    assert ours["ours"]
    assert ours["owner"] == "headwater"
    assert ours["status"] == "reserved"
    assert ours["database"] == database.name
    assert not other["ours"]
    assert other["owner"] == "physical"
    assert other["active_pid"] is None
    assert "nobody reads from it" in other["advice"]
    assert main(["slots", database.url]) == 0
    assert database.name in capsys.readouterr().out


def test_a_slot_is_dropped_when_it_is_dead_and_somebody_means_it(database: Database, capsys):
    assert main(["slots", "create", database.slot, database.url]) == 0
    exists = "select count(*) from pg_replication_slots where slot_name = %s"

    assert main(["slots", "drop", database.slot, database.url]) == 2
    assert "--yes" in capsys.readouterr().err
    assert database.execute(exists, database.slot) == [(1,)]
    assert main(["slots", "drop", database.slot, database.url, "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"dropped": database.slot}
    assert database.execute(exists, database.slot) == [(0,)]
    assert main(["slots", "drop", database.slot, database.url, "--yes"]) == 2


def test_a_slot_that_is_read_from_is_neither_dropped_nor_advanced(database: Database, capsys):
    database.execute("create table t (id int primary key)")
    with open_log(make_source(database)):
        for words in (["drop", database.name], ["advance", database.name, "now"]):
            assert main(["slots", *words, database.url, "--yes"]) == 3
            assert "reads from it" in capsys.readouterr().err
    assert database.execute("select count(*) from pg_replication_slots where slot_name = %s", database.name) == [(1,)]


def test_advancing_gives_up_what_was_kept(database: Database, capsys):
    main(["slots", "create", database.slot, database.url])
    database.execute("create table t (id int); insert into t select generate_series(1, 1000)")
    here = database.execute("select pg_current_wal_flush_lsn()::text")[0][0]
    capsys.readouterr()

    assert main(["slots", "advance", database.slot, here, database.url, "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["to"]
    behind = "select confirmed_flush_lsn >= %s::pg_lsn from pg_replication_slots where slot_name = %s"
    assert database.execute(behind, here, database.slot) == [(True,)]
    assert main(["slots", "advance", database.slot, "yesterday", database.url, "--yes"]) == 2


def test_a_slot_running_out_of_room_is_forecast_and_then_lost(capsys):
    with PostgresServer(settings={"max_slot_wal_keep_size": "16MB", "max_wal_size": "32MB"}) as server:
        server.create_database("shop")
        database = Database(server, "shop")
        database.execute("create table t (v text)")
        main(["slots", "create", "headwater_shop", database.url])
        fill = "insert into t select repeat('x', 1000) from generate_series(1, 8000)"
        database.execute(fill)
        source = make_source(database)
        (before,) = observe(source, 0.1).outlooks
        assert before.holder.safe_bytes is not None
        assert before.holder.retained_bytes > 1 << 20

        def lost() -> bool:
            database.execute(f"{fill}; select pg_switch_wal(); checkpoint")
            return source.holders()[0].lost

        wait_until(lost, 60, "the slot is lost")
        capsys.readouterr()
        assert main(["slots", database.url]) == 3
        assert "load the tables anew" in capsys.readouterr().out
