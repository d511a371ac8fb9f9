"""`format("headwater")` on a log without changes: Spark asks where it begins more than once, and comes again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headwater.spark.datasource import ChangeStreamReader, HeadwaterSource
from headwater.testing.mysql import MySqlServer

pytestmark = pytest.mark.server


@contextmanager
def available_now(options: dict[str, Any]) -> Iterator[ChangeStreamReader]:
    """As Spark calls it, under Trigger.AvailableNow."""
    source = HeadwaterSource(options)
    reader = source.streamReader(source.schema())
    assert isinstance(reader, ChangeStreamReader)
    reader.prepareForTriggerAvailableNow()
    try:
        yield reader
    finally:
        reader.stop()


def test_without_a_snapshot_an_idle_log_is_no_batch_and_nothing_that_follows_is_missed(
    mysql: MySqlServer, schema: str, tmp_path: Path
) -> None:
    mysql.execute(f"create table {schema}.t (id int primary key)", f"insert into {schema}.t values (1)")
    options = {
        "url": mysql.url(),
        "name": schema,
        "table": f"{schema}.t",
        "state": str(tmp_path),
        "snapshot": "no_data",
    }
    with available_now(options) as reader:
        start = reader.initialOffset()
        assert reader.latestOffset(start, ReadAllAvailable()) == start == reader.initialOffset()
        assert reader.partitions(start, start) == []

    mysql.execute(f"insert into {schema}.t values (2)")
    with available_now(options) as reader:
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        read = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]

    assert [row["after"] for batch in read for row in batch.to_pylist()] == [{"id": 2}]
