"""`headwater run` as a user runs it: a process, a pipeline file, a real server, a lake on disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lake import assert_lake_equals_source, lake_rows

from headwater.testing import PostgresServer, wait_until
from headwater.testing.pipeline import PipelineProcess

pytestmark = [pytest.mark.spark, pytest.mark.server]

HOSTILE_SCHEMA = 'a "quoted"; schema'
HOSTILE_TABLE = 'drop table x; -- "t"\n.ü/%'
HOSTILE_COLUMN = "c'\"; ñ\n" + "x" * 50


@pytest.fixture
def pipeline(database, tmp_path) -> Iterator[PipelineProcess]:
    source = {"type": "postgres", "url": database.url, "slot": database.slot}
    # Some batches are small to it and some are not: they are written by the driver and by tasks in turn.
    process = PipelineProcess(tmp_path, {"source": source, "batch_driver_bytes": 2000})
    yield process
    process.close()


@pytest.fixture
def without_spark(database, tmp_path) -> Iterator[PipelineProcess]:
    """The same, for what Spark has no part in: it starts in a second."""
    source = {"type": "postgres", "url": database.url, "slot": database.slot}
    process = PipelineProcess(tmp_path, {"source": source}, spark=False)
    yield process
    process.close()


def test_snapshot_and_stream_end_equal_to_the_source_whatever_the_names_and_values(database, pipeline):
    database.execute("create table public.t (id int primary key, body text, n numeric(8,2))")
    database.execute("alter table public.t alter body set storage external")
    database.execute("insert into public.t select g, repeat('x', 5000), g / 7.0 from generate_series(1, 300) g")
    quoted = [part.replace('"', '""') for part in (HOSTILE_SCHEMA, HOSTILE_TABLE, HOSTILE_COLUMN)]
    hostile = f'"{quoted[0]}"."{quoted[1]}"'
    database.execute(f'create schema "{quoted[0]}"; create table {hostile} (id int primary key, "{quoted[2]}" text)')
    database.execute(f"insert into {hostile} values (1, 'one')")
    # With a dot between the parts both would have the same name.
    database.execute('create schema "a.b"; create schema a; create table "a.b".c (id int primary key)')
    database.execute('create table a."b.c" (id int primary key); insert into "a.b".c values (1), (2)')

    pipeline.start()
    pipeline.wait_streaming()
    database.execute("update public.t set n = -1 where id <= 50")  # leaves `body` out of the log
    database.execute("update public.t set id = id + 1000 where id = 60")  # key change with unchanged TOAST
    database.execute(
        "insert into public.t values (500, repeat('y', 9000), 1); update public.t set n = 2 where id = 500"
    )
    database.execute("delete from public.t where id = 70")
    database.execute(
        'insert into "a.b".c values (3); insert into a."b.c" values (1), (4); delete from "a.b".c where id = 1'
    )
    database.execute(f"insert into {hostile} values (2, 'two'); update {hostile} set id = 3 where id = 1")
    database.execute("alter table public.t add column late int; update public.t set late = 5 where id < 5")
    database.execute(
        "create table public.born_late (id int primary key, v text); insert into born_late values (1, 'a')"
    )
    wait_until(
        lambda: any(row["late"] == 5 for row in lake_rows(pipeline.lake, "public.t") if "late" in row), 90, "late"
    )
    assert pipeline.stop(signal.SIGINT) == 0, pipeline.output()[-3000:]

    assert_lake_equals_source(database, pipeline.lake, ["public.t"])
    assert pipeline.available_now() == 0, pipeline.output()[-3000:]
    assert_lake_equals_source(database, pipeline.lake, ["public.t", "public.born_late"])
    assert {row["id"] for row in _rows_at(pipeline.lake / "a.b" / "c")} == {2, 3}
    assert {row["id"] for row in _rows_at(pipeline.lake / "a" / "b.c")} == {1, 4}
    stored = [path for path in pipeline.lake.glob("*/*/_delta_log") if path.parts[-3] not in ("public", "a", "a.b")]
    assert len(stored) == 1
    rows = _rows_at(stored[0].parent)
    assert sorted(row["id"] for row in rows) == [2, 3]
    assert {row[HOSTILE_COLUMN] for row in rows} == {"one", "two"}


def test_an_idle_database_does_not_pin_wal_while_others_write(database, pipeline):
    database.execute("create table public.t (id int primary key); create table public.other (x text)")
    pipeline.file.write_text(
        pipeline.file.read_text().replace("type: postgres", "type: postgres\n  tables: [public.t]")
    )
    pipeline.start()
    pipeline.wait_streaming()
    behind = "select pg_current_wal_lsn() - confirmed_flush_lsn from pg_replication_slots where slot_name = %s"
    for _ in range(6):
        database.execute("insert into public.other select repeat('x', 1000) from generate_series(1, 12000)")
        time.sleep(0.5)
    wait_until(lambda: database.execute(behind, database.slot)[0][0] < 2 * (16 << 20), 60, "the slot follows")
    assert pipeline.stop() == 0


def test_a_second_run_of_the_same_pipeline_is_refused_by_name(database, without_spark):
    database.execute("create table public.t (id int primary key)")
    without_spark.start()
    without_spark.wait_streaming()

    second = _headwater("run", str(without_spark.file))

    assert second.returncode == 3
    assert "in use by process" in second.stderr
    without_spark.kill()


def test_a_table_without_a_key_stops_an_upsert_with_the_remedy(database, without_spark):
    database.execute("create table public.log (line text); insert into public.log values ('a')")

    assert without_spark.available_now() == 3
    assert "public.log has no primary key" in without_spark.output()
    assert "REPLICA IDENTITY FULL" in without_spark.output()


def test_append_keeps_every_event_of_a_table_without_a_key(database, tmp_path):
    database.execute("create table public.log (line text); alter table public.log replica identity full")
    lake = tmp_path / "changelog"
    pipeline = PipelineProcess(
        tmp_path,
        {
            "source": {"type": "postgres", "url": database.url, "slot": database.slot},
            "sinks": [{"type": "delta", "path": str(lake), "mode": "append"}],
        },
        spark=False,
    )
    database.execute("insert into public.log values ('before')")
    assert pipeline.available_now() == 0, pipeline.output()[-3000:]
    database.execute("insert into public.log values ('a'); update public.log set line = 'b' where line = 'a'")
    database.execute("delete from public.log where line = 'b'; truncate public.log")
    assert pipeline.available_now() == 0, pipeline.output()[-3000:]

    rows = sorted(lake_rows(lake, "public.log"), key=lambda row: (row["_headwater_commit"], row["_headwater_ordinal"]))
    told = [(row["_headwater_op"], (row["before"] or {}).get("line"), (row["after"] or {}).get("line")) for row in rows]
    assert told == [
        ("r", None, "before"),
        ("c", None, "a"),
        ("u", "a", "b"),
        ("d", "b", None),
        ("t", None, None),
    ]


def test_no_secret_is_left_anywhere(tmp_path):
    canary = "c4nary-p4ssw0rd"
    with PostgresServer(password=canary) as server:
        server.execute("create table public.t (id int primary key); insert into public.t values (1)")
        os.environ["CANARY"] = canary
        pipeline = PipelineProcess(
            tmp_path,
            {
                "source": {
                    "type": "postgres",
                    "url": server.url(password="${CANARY}").replace("%24%7BCANARY%7D", "${CANARY}"),
                },
                # Everything by tasks, which the secret must reach and be left nowhere by.
                "batch_driver_bytes": 0,
            },
        )
        try:
            pipeline.start()
            pipeline.wait_streaming()
            server.execute("insert into public.t values (2)")
            wait_until(lambda: len(lake_rows(pipeline.lake, "public.t")) == 2, 60, "the row arrives")
            arguments = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
            assert not any(canary.encode() in text for text in arguments)
            assert pipeline.stop() == 0
        finally:
            del os.environ["CANARY"]
            pipeline.close()
    leaks = [path for path in tmp_path.rglob("*") if path.is_file() and canary.encode() in path.read_bytes()]
    assert leaks == []


@pytest.mark.parametrize(
    ("change", "status", "told"),
    [
        ({"source": {"type": "postgres", "url": "mysql://x"}}, 2, "not a PostgreSQL URL"),
        ({"source": {"type": "postgres", "url": "postgresql://nobody@127.0.0.1:{port}/postgres"}}, 2, "refused"),
        ({"source": {"type": "postgres", "url": "postgresql://postgres@127.0.0.1:1/postgres"}}, 1, "cannot reach"),
        ({"source": {"type": "postgres", "url": "{url}", "tabels": ["x"]}}, 2, "did you mean 'tables'?"),
        (
            {"source": {"type": "postgres", "url": "{url}", "publication_autocreate": "disabled"}},
            2,
            "create publication",
        ),
        ({"source": {"type": "postgrs"}}, 2, "did you mean 'postgres'?"),
        ({"sinks": [{"type": "delta", "path": "x", "mode": "scd2"}]}, 2, "scd2"),
    ],
)
def test_bad_input_gets_a_clear_error_and_the_right_exit_status(database, tmp_path, change, status, told):
    text = json.dumps({"source": {"type": "postgres", "url": "{url}"}, **change})
    text = text.replace("{port}", str(database.server.port)).replace("{url}", database.url)
    pipeline = PipelineProcess(tmp_path, json.loads(text))

    run = _headwater("run", str(pipeline.file), "--available-now")

    assert (run.returncode, told in run.stderr) == (status, True), run.stderr
    assert "Traceback" not in run.stderr


def test_check_names_the_statement_that_mends_each_finding(database, tmp_path):
    database.execute("create table public.nokey (x int); create role poor login")
    url = database.url.replace("postgres@", "poor@")
    pipeline = PipelineProcess(tmp_path, {"source": {"type": "postgres", "url": url}})
    try:
        found = _headwater("check", str(pipeline.file), "--json")
    finally:
        database.execute("drop role poor")

    assert found.returncode == 2
    remedies = " ".join(finding["remedy"] for finding in json.loads(found.stdout)["findings"])
    assert "alter role poor replication" in remedies
    assert "grant select on" in remedies
    assert "replica identity full" in remedies


def _headwater(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headwater.cli", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def _rows_at(folder: Path) -> list[dict[str, object]]:
    from deltalake import DeltaTable

    return DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
