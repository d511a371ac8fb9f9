"""A table that is dropped and made anew, or another that is renamed to its name, is another table: a mirror gets its
rows, and not a mixture of both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lake import assert_lake_equals_source, lake_rows

from headwater.cli import main
from headwater.testing import wait_until
from headwater.testing.pipeline import PipelineProcess

pytestmark = pytest.mark.server

TABLES = ["public.orders", "public.fresh"]
ANEW = "drop table orders; create table orders (id int primary key, note text); insert into orders values (7, 'seven')"
SWAP = "alter table orders rename to old; alter table fresh rename to orders; alter table old rename to fresh"

Make = Callable[..., PipelineProcess]


@pytest.fixture
def make(database: Any, tmp_path: Path) -> Iterator[Make]:
    """A pipeline over two tables; by default every table of the database is published."""
    database.execute(
        "create table orders (id int primary key, note text); create table fresh (id int primary key, note text);"
        "insert into orders values (1, 'one'), (2, 'two'); insert into fresh values (2, 'deux'), (3, 'trois')"
    )
    made: list[PipelineProcess] = []

    def started(mode: str = "upsert", **source: Any) -> PipelineProcess:
        postgres = {"type": "postgres", "url": database.url, "slot": database.slot}
        process = PipelineProcess(
            tmp_path,
            {
                "source": {**postgres, "publication_autocreate": "all_tables", **source},
                "sinks": [{"type": "delta", "path": str(tmp_path / "lake"), "mode": mode}],
            },
            spark=False,
        )
        made.append(process)
        assert process.available_now() == 0, process.output()
        return process

    yield started
    for process in made:
        process.close()


@pytest.mark.parametrize(
    "replaced",
    [
        pytest.param(ANEW, id="anew"),
        pytest.param(SWAP, id="swap"),
        pytest.param(f"{SWAP}; update orders set note = 'x'; delete from fresh where id = 2", id="swap and write"),
    ],
)
def test_its_rows_replace_those_of_the_one_before(
    database: Any, make: Make, replaced: str, capsys: pytest.CaptureFixture[str]
):
    pipeline = make()
    # Of the one before, and not delivered when it goes.
    database.execute("update orders set note = 'late'")
    database.execute(replaced)
    assert main(["plan", str(pipeline.file), "--json"]) == 0
    steps = {step["table"]: step["action"] for step in map(json.loads, capsys.readouterr().out.splitlines())}
    assert steps == {"public.orders": "load anew", "public.fresh": "go on" if replaced == ANEW else "load anew"}

    assert pipeline.available_now() == 0, pipeline.output()

    assert_lake_equals_source(database, pipeline.lake, TABLES)
    assert "public.orders is another table than before" in pipeline.output()
    database.execute("insert into orders values (9, 'nine')")
    assert pipeline.available_now() == 0, pipeline.output()
    assert_lake_equals_source(database, pipeline.lake, TABLES)
    # Once for the first, once for the other.
    assert pipeline.output().count("loaded public.orders") == 2


def test_it_is_noticed_while_the_pipeline_runs(database: Any, make: Make):
    pipeline = make()
    pipeline.start()
    assert pipeline.wait_ready().ready, pipeline.output()
    for number, replaced in enumerate((ANEW, SWAP, ANEW), start=11):
        database.execute(replaced)
        database.execute(f"insert into orders values ({number}, 'new'); insert into fresh values ({number}, 'neuf')")

        def equal() -> bool:
            try:
                assert_lake_equals_source(database, pipeline.lake, TABLES)
            except AssertionError:
                return False
            return True

        wait_until(equal, 60, pipeline.output)
    assert pipeline.stop() == 0, pipeline.output()


def test_a_publication_that_does_not_have_it_stops_with_the_remedy(database: Any, make: Make):
    pipeline = make(publication_autocreate="filtered")
    database.execute(ANEW)

    assert pipeline.available_now() == 3, pipeline.output()

    assert "public.orders is another table than before" in pipeline.output()
    statement = 'alter publication "headwater_shop" add table "public"."orders";'
    assert statement in pipeline.output()
    database.execute(statement)
    assert main(["snapshot", str(pipeline.file), "public.orders"]) == 0
    assert pipeline.available_now() == 0, pipeline.output()
    assert_lake_equals_source(database, pipeline.lake, TABLES)


def test_without_snapshots_the_table_stops_alone(database: Any, make: Make):
    pipeline = make(snapshot="no_data")
    database.execute("insert into orders values (5, 'five'); insert into fresh values (5, 'cinq')")
    assert pipeline.available_now() == 0, pipeline.output()
    database.execute(ANEW)
    database.execute("insert into fresh values (6, 'six')")

    assert pipeline.available_now() == 3, pipeline.output()

    assert "public.orders is not the table that was loaded" in pipeline.output()
    assert {row["id"] for row in lake_rows(pipeline.lake, "public.orders")} == {5}
    assert {row["id"] for row in lake_rows(pipeline.lake, "public.fresh")} == {5, 6}


def test_a_changelog_is_of_the_name_and_goes_on(database: Any, make: Make):
    pipeline = make("append")
    database.execute(ANEW)

    assert pipeline.available_now() == 0, pipeline.output()

    rows = sorted((row["_headwater_op"], row["after"]["id"]) for row in lake_rows(pipeline.lake, "public.orders"))
    assert rows == [("c", 7), ("r", 1), ("r", 2)]
