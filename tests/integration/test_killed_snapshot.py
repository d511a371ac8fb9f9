"""A first snapshot that is killed: tables that were loaded already miss nothing that happened since."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lake import lake_rows

from headwater.testing import wait_until
from headwater.testing.mysql import MySqlServer
from headwater.testing.pipeline import PipelineProcess

pytestmark = pytest.mark.server

Execute = Callable[[str], Any]


@pytest.fixture
def on_postgres(database: Any) -> tuple[dict[str, Any], str, Execute]:
    return {"type": "postgres", "url": database.url, "slot": database.slot}, "public", database.execute


@pytest.fixture
def on_mysql(mysql: MySqlServer, schema: str) -> tuple[dict[str, Any], str, Execute]:
    source = {"type": "mysql", "url": mysql.url(), "tables": [f"{schema}.*"], "client": schema}
    return source, schema, mysql.execute


@pytest.fixture(params=["on_postgres", pytest.param("on_mysql", marks=pytest.mark.xdist_group("mysql"))])
def captured(request: pytest.FixtureRequest) -> tuple[dict[str, Any], str, Execute]:
    found: tuple[dict[str, Any], str, Execute] = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def pipeline(captured: tuple[dict[str, Any], str, Execute], tmp_path: Path) -> Iterator[PipelineProcess]:
    source, schema, execute = captured
    for table in ("a", "b"):
        execute(f"create table {schema}.{table} (id int primary key)")
        execute(f"insert into {schema}.{table} values (1)")
    sinks = [{"type": "delta", "name": name, "path": str(tmp_path / name)} for name in ("one", "two")]
    made = PipelineProcess(tmp_path, {"source": source, "sinks": sinks}, spark=False)
    yield made
    made.close()


# Before the first sink to be loaded has its second table: no sink holds a position. Before the other has its second
# table: the first one streams, and is further on.
@pytest.mark.parametrize(("load", "loaded"), [(2, 1), (4, 3)])
def test_what_happened_to_loaded_tables_follows(
    captured: tuple[dict[str, Any], str, Execute], pipeline: PipelineProcess, tmp_path: Path, load: int, loaded: int
) -> None:
    _source, schema, execute = captured
    pipeline.start(failpoints=f"snapshot.before_load=sleep:60@{load}")
    wait_until(lambda: pipeline.output().count("loaded") >= loaded, 60, pipeline.output)
    for table in ("a", "b"):
        execute(f"insert into {schema}.{table} values (2), (3)")
    if loaded > 1:
        # Whichever was loaded first.
        lakes = (tmp_path / "one", tmp_path / "two")
        wait_until(
            lambda: any(len(lake_rows(lake, f"{schema}.a")) == 3 for lake in lakes), 60, "the first sink goes on"
        )
        wait_until(lambda: any(pipeline.journal.consumer_positions().values()), 60, "and holds a position")
    pipeline.kill()

    assert pipeline.available_now() == 0, pipeline.output()

    for sink in ("one", "two"):
        for table in ("a", "b"):
            rows = lake_rows(tmp_path / sink, f"{schema}.{table}")
            assert sorted(row["id"] for row in rows) == [1, 2, 3], (sink, table)
