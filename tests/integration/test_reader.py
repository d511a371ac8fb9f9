"""`format("headwater")`: typed rows and Debezium events of a real server, as stream and as bounded read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.server]


class Reader:
    """One reader's options, and its stream run to the end of what there is."""

    def __init__(self, spark: Any, database: Any, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.options = {
            "url": database.url,
            "name": "reader",
            "slot": database.slot,
            "state": str(folder / "state"),
            "topic.prefix": "shop",
        }
        self.batches: list[list[Any]] = []
        self.progress: Any = None

    def available_now(self, **options: str) -> list[Any]:
        frame = self.spark.readStream.format("headwater").options(**{**self.options, **options}).load()
        rows: list[Any] = []
        self.batches = []

        def take(batch: Any, _number: int) -> None:
            self.batches.append(batch.collect())
            rows.extend(self.batches[-1])

        query = (
            frame.writeStream.foreachBatch(take)
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        self.progress = query.lastProgress
        return rows

    def between(self, **options: str) -> list[Any]:
        return self.spark.read.format("headwater").options(**{**self.options, **options}).load().collect()


@pytest.fixture
def reader(spark, database, tmp_path) -> Iterator[Reader]:
    return Reader(spark, database, tmp_path)


def test_typed_rows_begin_with_a_snapshot_go_on_with_changes_and_resume_from_the_checkpoint(database, reader):
    database.execute("create table public.t (id int primary key, name text, price numeric(8,2))")
    database.execute("insert into public.t select g, 'row ' || g, g / 4.0 from generate_series(1, 100) g")

    first = reader.available_now(table="public.t")
    assert {row.op for row in first} == {"r"}
    assert sorted(row.after.id for row in first) == list(range(1, 101))
    assert len({(row.commit, row.ordinal) for row in first}) == 100

    database.execute("update public.t set price = 9.5 where id = 1; update public.t set id = 200 where id = 2")
    database.execute("delete from public.t where id = 3; truncate public.t")
    second = reader.available_now(table="public.t")
    told = [(row.op, row.before and row.before.id, row.after and row.after.id) for row in second]
    assert told == [("u", None, 1), ("u", 2, 200), ("d", 3, None), ("t", None, None)]
    assert [(row.commit, row.ordinal) for row in second] == sorted((row.commit, row.ordinal) for row in second)
    assert max((row.commit, row.ordinal) for row in first) < (second[0].commit, second[0].ordinal)
    assert str(second[0].after.price) == "9.50"
    assert reader.available_now(table="public.t") == []


def test_rows_per_trigger_are_never_exceeded_even_inside_a_transaction(database, reader):
    database.execute("create table public.t (id int primary key)")
    reader.available_now(table="public.t", snapshot="no_data")
    database.execute("insert into public.t select generate_series(1, 100)")

    rows = reader.available_now(table="public.t", snapshot="no_data", maxRowsPerTrigger="30")

    assert [row.after.id for row in rows] == list(range(1, 101))
    assert max(len(batch) for batch in reader.batches) == 30
    assert json.loads(reader.progress.sources[0].latestOffset)["commit"] >= rows[-1].commit


def test_events_of_all_tables_come_in_log_order_with_keys_tombstones_and_snapshot_marks(database, reader):
    database.execute("create table public.a (id int primary key); create table public.b (id int primary key, v text)")
    database.execute("insert into public.a values (1), (2); insert into public.b values (7, 'x')")

    snapshot = reader.available_now()
    marks = [json.loads(row.value)["source"]["snapshot"] for row in snapshot]
    assert marks == ["first", "last_in_data_collection", "last"]

    database.execute(
        "insert into public.b values (8, 'y'); delete from public.a where id = 1; update public.b set v = 'z'"
    )
    events = reader.available_now()
    assert [(row.topic, row.key) for row in events] == [
        ("shop.public.b", '{"id":8}'),
        ("shop.public.a", '{"id":1}'),
        ("shop.public.a", '{"id":1}'),
        ("shop.public.b", '{"id":7}'),
        ("shop.public.b", '{"id":8}'),
    ]
    assert [row.value and json.loads(row.value)["op"] for row in events] == ["c", "d", None, "u", "u"]

    again = reader.between(after=f"{events[0].commit}:0")
    assert [(row.commit, row.ordinal, row.key) for row in again] == [
        (row.commit, row.ordinal, row.key) for row in events
    ]


def test_a_transaction_over_several_batches_begins_once_is_counted_through_and_ends_once(database, reader):
    database.execute("create table public.a (id int primary key); create table public.b (id int primary key)")
    options = {"snapshot": "no_data", "provide.transaction.metadata": "true"}
    reader.available_now(**options)
    database.execute(
        """insert into public.a select generate_series(1, 4); insert into public.b values (1);
           update public.a set id = 9 where id = 1; select pg_logical_emit_message(true, 'note', 'in');
           insert into public.b values (2)"""
    )
    database.execute("select pg_logical_emit_message(false, 'note', 'out')")

    events = [
        (row.topic, json.loads(row.value))
        for row in reader.available_now(**options, maxRowsPerTrigger="2")
        if row.value
    ]

    assert len(reader.batches) >= 4
    counted = [(topic, value["transaction"]["total_order"]) for topic, value in events if value.get("transaction")]
    rows = ["a", "a", "a", "a", "b", "a", "a", "message", "b"]
    assert [topic.rpartition(".")[2] for topic, _ in counted] == rows
    assert [total for _, total in counted] == list(range(1, 10))
    assert [topic for topic, _ in events[:1] + events[-2:]] == ["shop.transaction", "shop.transaction", "shop.message"]
    ends = [value for topic, value in events if topic == "shop.transaction"]
    assert [(end["status"], end["event_count"]) for end in ends] == [("BEGIN", None), ("END", 9)]
    assert {count["data_collection"]: count["event_count"] for count in ends[1]["data_collections"]} == {
        "public.a": 6,
        "public.b": 2,
        "LOGICAL_DECODING_MESSAGE": 1,
    }


def test_heartbeats_follow_on_events(database, reader):
    database.execute("create table public.a (id int primary key)")
    options = {"snapshot": "no_data", "heartbeat.interval.ms": "1"}
    reader.available_now(**options)
    database.execute("insert into public.a values (1)")

    row, beat, *more = reader.available_now(**options)

    assert {each.topic for each in (beat, *more)} == {"__debezium-heartbeat.shop"}
    assert (beat.key, list(json.loads(beat.value))) == ('{"serverName":"shop"}', ["ts_ms"])
    assert (beat.commit, beat.ordinal) >= (row.commit, row.ordinal)


def test_a_new_column_stops_a_typed_query_until_it_is_restarted(database, reader, spark):
    database.execute("create table public.t (id int primary key)")
    frame = spark.readStream.format("headwater").options(**reader.options, table="public.t").load()
    query = frame.writeStream.format("noop").option("checkpointLocation", str(reader.folder / "checkpoint")).start()
    try:
        database.execute("alter table public.t add column late text; insert into public.t values (1, 'x')")
        with pytest.raises(Exception, match="has a new column 'late'"):
            query.awaitTermination(120)
    finally:
        query.stop()

    rows = reader.available_now(table="public.t")
    assert [row.after.late for row in rows] == ["x"]
