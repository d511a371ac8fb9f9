"""The fixtures that every other test stands on: what they give, and that they leave nothing behind."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.testing import PostgresServer, wait_until


@pytest.mark.server
def test_a_database_goes_away_with_a_slot_that_somebody_still_reads(postgres: PostgresServer, database: Any) -> None:
    import psycopg

    database.execute("select pg_create_logical_replication_slot('left_behind', 'pgoutput')")
    database.execute("create publication p for all tables")
    reader = psycopg.pq.PGconn.connect(f"{database.url}?replication=database".encode())
    start = "START_REPLICATION SLOT left_behind LOGICAL 0/0 (proto_version '1', publication_names 'p')"
    assert reader.exec_(start.encode()).status == psycopg.pq.ExecStatus.COPY_BOTH
    active = "select active from pg_replication_slots where slot_name = 'left_behind'"
    wait_until(lambda: postgres.execute(active) == [(True,)])

    database.drop()

    assert postgres.execute("select slot_name from pg_replication_slots where slot_name = 'left_behind'") == []
    assert postgres.execute("select 1 from pg_database where datname = %s", database.name) == []
    reader.finish()
    postgres.create_database(database.name)


@pytest.mark.spark
def test_the_spark_session_runs_python_workers_of_this_interpreter(spark: Any) -> None:
    import sys

    def whoami(batches: Any) -> Any:
        import sys

        import pyarrow as pa

        for batch in batches:
            yield pa.RecordBatch.from_arrays([pa.array([sys.executable] * batch.num_rows)], ["python"])

    rows = spark.range(1).mapInArrow(whoami, "python string").collect()

    assert [row.python for row in rows] == [sys.executable]


@pytest.mark.spark
def test_what_shares_a_costly_fixture_stays_in_one_process(request: pytest.FixtureRequest, spark: Any) -> None:
    """xdist sends tests of one group to one process, and knows the group by the name alone."""
    if request.config.getoption("loadgroup", default=False):
        assert request.node.nodeid.endswith("@spark")
