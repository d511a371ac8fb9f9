"""Transforms where users meet them: in `headwater tail` and in a pipeline. tests/oracle holds them to Debezium's."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.lake import lake_rows

from headwater.testing import wait_until
from headwater.testing.pipeline import PipelineProcess

pytestmark = pytest.mark.server


def test_tail_prints_transformed_events(database: Any) -> None:
    database.execute(
        "create table public.outbox (id int primary key, aggregatetype text, aggregateid text, payload text)"
    )
    options = {
        "transforms": "outbox",
        "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
        "transforms.outbox.table.expand.json.payload": "true",
        "skipped.operations": "t,d",
        "max.batch.size": "100",
    }
    given = [part for key, value in options.items() for part in ("--option", f"{key}={value}")]
    command = [sys.executable, "-m", "headwater.cli", "tail", database.url, "--limit", "2", *given]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = []
        while not said or not said[-1].startswith("listening"):
            said.append(process.stderr.readline())
            assert process.poll() is None, said
        database.execute(
            """insert into public.outbox values (1, 'order', '7', '{"id": 7}'), (2, 'order', '8', 'text')"""
        )
        out, _ = process.communicate(timeout=60)
    assert out.splitlines() == ['{"id":7}', '"text"']
    assert any("max.batch.size has no effect" in line for line in said)


def test_a_pipeline_filters_masks_and_renames_what_it_loads_and_what_it_streams(database: Any, tmp_path: Path) -> None:
    database.execute("create table public.people (id int primary key, name text, email text, secret text, age int)")
    database.execute("insert into public.people values (1, 'Ada', 'ada@x', 's', 36), (2, 'Kid', 'kid@x', 's', 7)")
    definition = {
        "source": {
            "type": "postgres",
            "url": database.url,
            "slot": database.slot,
            "column.exclude.list": "public.people.secret",
        },
        "transforms": [
            {"type": "filter", "condition": "op = 'd' or after.age >= 18", "tables": ["public.people"]},
            {"type": "mask", "columns": ["email"], "method": "hash", "salt": "pepper"},
            {"type": "route", "regex": r"public\.(.*)", "replacement": "raw.$1"},
        ],
    }
    pipeline = PipelineProcess(tmp_path, definition, spark=False)
    try:
        pipeline.start()
        pipeline.wait_streaming()
        database.execute("insert into public.people values (3, 'Eve', 'eve@x', 's', 40), (4, 'Tot', 'tot@x', 's', 2)")
        database.execute("update public.people set name = 'Augusta' where id = 1")
        wait_until(lambda: "Augusta" in [row["name"] for row in lake_rows(pipeline.lake, "raw.people")], 60, "Augusta")
        database.execute("delete from public.people where id = 3")
        wait_until(lambda: len(lake_rows(pipeline.lake, "raw.people")) == 1, 60, "the delete")
        # Messages of the log are no rows: nothing is written, and nothing holds the slot back.
        emit = "select pg_logical_emit_message(true, 'note', 'in'), pg_logical_emit_message(false, 'note', 'out')"
        ((_, written),) = database.execute(emit)
        confirmed = "select confirmed_flush_lsn >= %s::pg_lsn from pg_replication_slots where slot_name = %s"
        wait_until(lambda: database.execute(confirmed, written, database.slot) == [(True,)], 60, "the slot to follow")
        assert pipeline.stop() == 0, pipeline.output()[-3000:]
    finally:
        pipeline.close()
    (row,) = lake_rows(pipeline.lake, "raw.people")
    digest = hashlib.sha256(b"pepperada@x").hexdigest()
    shown = {key: value for key, value in row.items() if not key.startswith("_headwater_")}
    assert shown == {"id": 1, "name": "Augusta", "email": digest, "age": 36}
