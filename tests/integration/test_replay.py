"""`headwater replay`: a range of the journal once more, into a lake that somebody damaged."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from deltalake import DeltaTable
from tests.lake import assert_lake_equals_source, lake_rows

from headwater.cli import main
from headwater.testing.pipeline import PipelineProcess

pytestmark = [pytest.mark.server]


@pytest.fixture
def pipeline(database, tmp_path) -> Iterator[PipelineProcess]:
    sinks = [
        {"type": "delta", "path": str(tmp_path / "lake")},
        {"type": "delta", "name": "changes", "path": str(tmp_path / "changes"), "mode": "append"},
    ]
    source = {"type": "postgres", "url": database.url, "slot": database.slot}
    process = PipelineProcess(tmp_path, {"source": source, "sinks": sinks, "journal_keep_hours": 1}, spark=False)
    yield process
    process.close()


def test_a_damaged_lake_is_mended_from_the_journal(database, pipeline, tmp_path, capsys):
    database.execute("create table public.t (id int primary key, v text); create table public.u (id int primary key)")
    assert pipeline.available_now() == 0, pipeline.output()
    database.execute("insert into public.t select g, 'right' from generate_series(1, 200) g; insert into u values (1)")
    database.execute("update public.t set v = 'later' where id % 7 = 0; delete from public.t where id % 50 = 0")
    middle = database.execute("select pg_current_wal_flush_lsn()::text")[0][0]
    database.execute("update public.t set id = id + 1000 where id < 10")
    assert pipeline.available_now() == 0, pipeline.output()
    DeltaTable(str(pipeline.lake / "public" / "t")).update(updates={"v": "'wrong'"}, predicate="id > 20")
    log = DeltaTable(str(tmp_path / "changes" / "public" / "t"))
    whole = log.to_pyarrow_table().num_rows
    log.delete("_headwater_op = 'u'")
    file = str(pipeline.file)

    assert main(["replay", file, "--from", "start", "--to", middle, "--sink", "delta"]) == 2
    assert "back in time" in capsys.readouterr().err
    assert main(["replay", file, "--from", "yesterday"]) == 2
    assert main(["replay", file, "--from", "0/1"]) == 2
    assert "the journal begins at" in capsys.readouterr().err
    assert main(["replay", file, "--from", "start", "--table", "public.t", "--json"]) == 0

    done = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(each["sink"], each["table"]) for each in done} == {("delta", "public.t"), ("changes", "public.t")}
    assert_lake_equals_source(database, pipeline.lake, ["public.t", "public.u"])
    assert len(lake_rows(tmp_path / "changes", "public.t")) == whole
    assert main(["replay", file, "--from", "start"]) == 0
    assert len(lake_rows(tmp_path / "changes", "public.t")) == whole
    database.execute("insert into public.t values (5000, 'new')")
    assert pipeline.available_now() == 0, pipeline.output()
    assert_lake_equals_source(database, pipeline.lake, ["public.t"])


def test_a_running_pipeline_is_not_replayed(database, pipeline, capsys):
    database.execute("create table public.t (id int primary key)")
    pipeline.start()
    assert pipeline.wait_ready().ready, pipeline.output()

    assert main(["replay", str(pipeline.file), "--from", "start"]) == 3
    assert "in use by process" in capsys.readouterr().err
