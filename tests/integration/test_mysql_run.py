"""`headwater run` on MySQL and MariaDB as a user runs it: into a lake that ends equal to the source."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.integration.mysql_source import source_of
from tests.lake import comparable

from headwater.testing.mysql import MySqlServer
from headwater.testing.pipeline import PipelineProcess

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]
HOSTILE = "drop table x; -- `t`\n.ü/%"


@pytest.fixture
def pipeline(mysql: MySqlServer, schema: str, tmp_path: Path) -> Iterator[PipelineProcess]:
    source = {"type": "mariadb", "url": mysql.url(), "client": f"run_{schema}", "tables": [f"{schema}.*"]}
    process = PipelineProcess(tmp_path, {"source": source})
    yield process
    process.close()


def assert_lake_is(mysql: MySqlServer, schema: str, lake: Path) -> None:
    source = source_of(mysql, schema)
    with source.snapshot(source.tables(), 2) as snapshot:
        for table in {chunk.table.table: chunk.table for chunk in snapshot.chunks}.values():
            rows = [
                row
                for chunk in snapshot.chunks
                if chunk.table is table
                for batch in source.copy(chunk, snapshot)
                for row in batch.after.to_pylist()
            ]
            name = table.name if table.name.isidentifier() else next(lake.glob(f"{schema}/drop*")).name
            stored = DeltaTable(str(lake / schema / name)).to_pyarrow_table().to_pylist()
            kept = [{k: v for k, v in row.items() if not k.startswith("_headwater_")} for row in stored]
            assert sorted(map(comparable, kept)) == sorted(map(comparable, rows)), table.table


def test_snapshot_stream_and_a_kill_end_equal_to_the_source(
    mysql: MySqlServer, schema: str, pipeline: PipelineProcess
) -> None:
    hostile = f"`{schema}`.`{HOSTILE.replace('`', '``')}`"
    first = [f"(repeat('x', 300), {n} / 7, 18446744073709551615 - {n})" for n in range(20_000)]
    mysql.execute(
        f"create table {schema}.t (id int primary key auto_increment, body text, n decimal(8,2), at datetime(6),"
        " big bigint unsigned, state enum('a','b'))",
        f"insert into {schema}.t (body, n, big) values " + ", ".join(first),
        f"create table {hostile} (id int primary key, `c'``\nü` text)",
        f"insert into {hostile} values (1, 'one')",
    )
    writing = threading.Event()

    def write() -> None:
        with mysql.connect(schema) as connection, connection.cursor() as cursor:
            while not writing.wait(0.005):
                cursor.execute("insert into t (body, n, state) values ('new', 1.5, 'a')")
                last = int(cursor.lastrowid)
                cursor.execute(
                    "update t set n = 2, at = now(6) where id between %s and %s", [last % 20_000, last % 20_000 + 9]
                )
                cursor.execute("delete from t where id = %s", [last - 7])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        pipeline.start()
        pipeline.wait_streaming()
        mysql.execute(
            f"alter table {schema}.t add column late int",
            f"update {schema}.t set late = 5 where id < 50",
            f"create table {schema}.born_late (id int primary key, v varchar(9))",
            f"insert into {schema}.born_late values (1, 'a')",
        )
        pipeline.kill()
    finally:
        writing.set()
        writer.join()
    mysql.execute(f"truncate table {hostile}", f"insert into {hostile} values (2, 'two')")
    mysql.restart()
    mysql.execute(f"update {schema}.t set n = -1 where id % 3 = 0")

    assert pipeline.available_now() == 0, pipeline.output()[-3000:]
    assert_lake_is(mysql, schema, pipeline.lake)
