"""`headwater snapshot`, the way on for a table that the lake cannot follow in its new shape; `headwater plan` tells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lake import assert_lake_equals_source

from headwater.cli import main
from headwater.testing.pipeline import PipelineProcess

pytestmark = pytest.mark.server


@pytest.fixture
def pipeline(database: Any, tmp_path: Path) -> Iterator[PipelineProcess]:
    database.execute(
        "create table orders (id int primary key, note text, qty int); create table items (id int primary key);"
        "insert into orders values (1, 'one', 1), (2, 'two', 2); insert into items values (1)"
    )
    source = {"type": "postgres", "url": database.url, "slot": database.slot}
    process = PipelineProcess(tmp_path, {"source": source}, spark=False)
    yield process
    process.close()


def planned(pipeline: PipelineProcess, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["plan", str(pipeline.file), "--json"]) == 0
    return {step["table"]: step for step in map(json.loads, capsys.readouterr().out.splitlines())}


def test_a_table_that_stopped_is_loaded_anew_and_goes_on(
    database: Any, pipeline: PipelineProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    first = planned(pipeline, capsys)["public.orders"]
    assert (first["action"], first["bytes"], first["key"]) == ("load", 8192, ["id"])
    assert first["target"] == str(pipeline.lake / "public" / "orders")
    assert pipeline.available_now() == 0, pipeline.output()
    assert {step["action"] for step in planned(pipeline, capsys).values()} == {"go on"}
    database.execute(
        "alter table orders alter qty type bigint, drop column note; update orders set qty = 1::bigint << 40"
    )
    database.execute("insert into items values (2)")
    assert pipeline.available_now() == 3, pipeline.output()
    assert "headwater snapshot" in pipeline.output()

    assert main(["snapshot", str(pipeline.file), "public.orders"]) == 0
    assert "public.orders will be loaded anew at the next start" in capsys.readouterr().out
    assert {name: step["action"] for name, step in planned(pipeline, capsys).items()} == {
        "public.orders": "load anew",
        "public.items": "go on",
    }
    assert main(["plan", str(pipeline.file)]) == 0
    assert "delta: 2 tables, 1 to load, 8 kB" in capsys.readouterr().out
    assert pipeline.available_now() == 0, pipeline.output()

    assert_lake_equals_source(database, pipeline.lake, ["public.orders", "public.items"])
    database.execute("insert into orders values (3, 3); delete from orders where id = 1")
    loads = pipeline.output().count("loaded public.orders")
    assert pipeline.available_now() == 0, pipeline.output()
    assert_lake_equals_source(database, pipeline.lake, ["public.orders", "public.items"])
    # Once it was asked for, once it is done.
    assert (loads, pipeline.output().count("loaded public.orders")) == (2, 2)


def test_what_a_narrowed_publication_left_out_is_loaded_anew(database: Any, pipeline: PipelineProcess) -> None:
    assert pipeline.available_now() == 0, pipeline.output()
    database.execute("alter publication headwater_shop drop table orders")
    database.execute("delete from orders where id = 1; insert into orders values (3, 'three', 3)")
    assert pipeline.available_now() == 3, pipeline.output()
    assert "headwater snapshot FILE" in pipeline.output()

    database.execute("alter publication headwater_shop add table orders")
    assert main(["snapshot", str(pipeline.file), "public.orders"]) == 0
    assert pipeline.available_now() == 0, pipeline.output()

    assert_lake_equals_source(database, pipeline.lake, ["public.orders", "public.items"])


def test_what_is_not_captured_cannot_be_loaded(pipeline: PipelineProcess, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", str(pipeline.file), "public.none"]) == 2
    assert "public.none is not captured" in capsys.readouterr().err
    assert main(["snapshot", str(pipeline.file), "public.items", "--sink", "lake"]) == 2
    assert "there is no sink 'lake'" in capsys.readouterr().err
