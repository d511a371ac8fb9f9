"""Delta by Spark: the Spark engine applies changes as the native one does, and Spark reads what either wrote.

Delta's jars must be there when the JVM starts, and the session that other tests share has none: these run in a
process of their own, one session for all of them.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.unit.sinks.lake_of_orders import ORDERS, Changes, batch_of, row, sink, table_at, write
from tests.unit.sinks.test_delta_tables import EVERYTHING, HOSTILE
from tests.unit.sinks.test_delta_upsert import Model

from headwater.errors import Stop
from headwater.event import ChangeBatch, Column, Position, TableSchema
from headwater.sinks.delta.engine import Engine
from headwater.sinks.delta.spark import changes_of, has_delta
from headwater.spark.session import LIGHT_JVM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"

_spark: SparkSession | None = None


def start_session() -> None:
    """Runs once, in the process of the Spark tests."""
    global _spark
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    _spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars.packages", PACKAGE)
        .config("spark.driver.extraJavaOptions", LIGHT_JVM)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.ui.enabled", "false")
        .config("spark.databricks.delta.snapshotPartitions", "1")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    _spark.sparkContext.setLogLevel("ERROR")


def session() -> SparkSession:
    assert _spark is not None
    return _spark


@pytest.fixture(scope="module")
def in_spark() -> Iterator[Callable[..., Any]]:
    """Run a function of this module in the process that has the session."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=start_session) as pool:
        yield lambda function, *args: pool.submit(told, function, *args).result()


def told(function: Callable[..., None], *args: Any) -> None:
    """Run it; an error becomes its text, because Spark's own errors do not travel between processes."""
    try:
        function(*args)
    except Exception as error:
        raise AssertionError("".join(traceback.format_exception(error))) from None


def frame_of(batch: ChangeBatch) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    return session().createDataFrame(pa.Table.from_batches([batch.records]), from_arrow_schema(batch.records.schema))


def write_frame(to: Any, changes: Changes) -> int:
    return int(to.write_frame(session(), changes.table, frame_of(changes.batch()), changes.upto).changes)


def spark_rows(path: Path, table: TableSchema = ORDERS) -> pa.Table:
    return session().read.format("delta").load(sink(path).lake.table_uri(table)).toArrow()


def sorted_rows(path: Path, table: TableSchema = ORDERS) -> list[dict[str, Any]]:
    return sorted(spark_rows(path, table).to_pylist(), key=lambda found: found["id"])


def random_history(path: Path, seed: int) -> None:
    model, to, done = Model(seed), sink(path, engine="spark"), 0
    for size in (40, 1, 40):
        for _ in range(size):
            model.step()
        rows = model.changes.rows[max(0, done - 5) :]
        upto = Position(rows[-1]["commit"], rows[-1]["ordinal"], "here")
        to.write_frame(session(), ORDERS, frame_of(batch_of(ORDERS, rows)), upto)
        done = len(model.changes.rows)

        assert sorted_rows(path) == [model.rows[key] for key in sorted(model.rows)]
        assert sink(path).table_position(ORDERS) == upto
        assert sink(path).table_position(ORDERS).resume == "here"
        assert to.write_frame(session(), ORDERS, frame_of(batch_of(ORDERS, rows)), upto).changes == 0


def test_a_random_history_by_sparks_merge_equals_a_dict(in_spark: Any, tmp_path: Path) -> None:
    seed = random.randrange(10**6)  # noqa: S311
    print("seed", seed)
    in_spark(random_history, tmp_path, seed)


def changes_without_effect(path: Path) -> None:
    to = sink(path, engine="spark")
    for changes in (
        Changes().insert(**row(1)).truncate(),
        Changes(commit=200).truncate(),
        Changes(commit=300).insert(**row(1)).delete(id=1),
    ):
        write_frame(to, changes)

        assert sink(path).table_position(ORDERS) == changes.upto
        assert write_frame(to, changes) == 0
    assert sorted_rows(path) == []


def test_changes_that_leave_the_table_as_it_was_move_its_position(in_spark: Any, tmp_path: Path) -> None:
    in_spark(changes_without_effect, tmp_path)


def native_then_spark(path: Path) -> None:
    to = sink(path, crossover_mb=0)
    write(to, Changes().insert(**row(1)).insert(**row(2)).insert(**row(3)))
    assert to.engine(ORDERS, jars=has_delta(session())) == Engine.NATIVE, "nothing was rewritten yet"
    write(to, Changes(commit=200).update(**row(1, qty=5)))
    assert to.engine(ORDERS, jars=False) == Engine.NATIVE
    assert to.engine(ORDERS, jars=has_delta(session())) == Engine.SPARK

    changes = Changes(commit=300).update(["body"], **row(1, body=None, qty=6)).delete(id=2).insert(**row(4))
    assert write_frame(to, changes) == 3

    assert sorted_rows(path) == [row(1, qty=6), row(3), row(4)]
    assert "deletionVectors" in table_at(path).protocol().writer_features
    assert to.engine(ORDERS, jars=True) == Engine.SPARK
    assert write(to, changes) == 0
    with pytest.raises(Stop, match="deletion vectors"):
        write(to, Changes(commit=400).insert(**row(5)))


def test_spark_takes_over_a_native_table_and_the_native_engine_then_keeps_off(in_spark: Any, tmp_path: Path) -> None:
    in_spark(native_then_spark, tmp_path)


def left_out_without_a_row(path: Path) -> None:
    to = sink(path, engine="spark")
    write_frame(to, Changes().insert(**row(1)))
    for changes in (
        Changes(commit=200).update(["body"], **row(2, body=None)),
        Changes(commit=200).update(["body"], before={"id": 2}, **row(3, body=None)),
    ):
        with pytest.raises(Exception, match="body"):
            write_frame(to, changes)
    assert sorted_rows(path) == [row(1)]
    assert to.table_position(ORDERS) == Position(100, 1)


def test_a_left_out_value_that_nobody_has_fails_in_spark_too(in_spark: Any, tmp_path: Path) -> None:
    in_spark(left_out_without_a_row, tmp_path)


def hostile_names(path: Path) -> None:
    columns = (Column("id", "bigint", pa.int64()), *(Column(name, "text", pa.string()) for name in HOSTILE))
    for engine in ("native", "spark"):
        table = TableSchema(f"{engine}/..", "a`b;c\n'", columns, key=("id", HOSTILE[0]), identity=("id", HOSTILE[0]))
        to = sink(path, engine=engine)
        apply = write if engine == "native" else write_frame
        apply(
            to, Changes(table).insert(id=1, **dict.fromkeys(HOSTILE, "x")).insert(id=2, **dict.fromkeys(HOSTILE, "y"))
        )
        one = {**dict.fromkeys(HOSTILE, "z"), HOSTILE[0]: "x", "a;b": None}
        apply(to, Changes(table, commit=200).update(["a;b"], id=1, **one).delete(**{"id": 2, HOSTILE[0]: "y"}))

        assert sorted_rows(path, table) == [{"id": 1, **one, "a;b": "x"}]


def test_spark_writes_and_reads_hostile_names(in_spark: Any, tmp_path: Path) -> None:
    in_spark(hostile_names, tmp_path)


def every_type(path: Path) -> None:
    columns = (Column("id", "bigint", pa.int64()), *(Column(name, "", kind) for name, (kind, _) in EVERYTHING.items()))
    arrays = [pa.array([1, 2, 3, 4], pa.int64())]
    for kind, values in EVERYTHING.values():
        plain = {pa.date32(): pa.int32()}.get(kind, pa.int64()) if pa.types.is_temporal(kind) else kind
        arrays.append(pa.array((values * 4)[:4], plain).cast(kind))
    for engine in ("native", "spark"):
        table = TableSchema(engine, "types", columns, ("id",), ("id",))
        changes = Changes(table)
        for _ in range(4):
            changes.insert(id=0)
        records = changes.batch().records
        at = records.schema.get_field_index("after")
        rows = pa.StructArray.from_arrays(arrays, fields=list(table.arrow))
        batch = ChangeBatch(table, records.set_column(at, records.schema.field(at), rows))
        to = sink(path, engine=engine)
        if engine == "native":
            to.write(table, [batch], changes.upto)
        else:
            assert changes_of(table, frame_of(batch)).records.equals(batch.records)
            to.write_frame(session(), table, frame_of(batch), changes.upto)

        read = spark_rows(path, table).sort_by("id").combine_chunks()
        for at, name in enumerate(read.column_names):
            sent = arrays[at]
            assert read.column(name).cast(sent.type).chunk(0).equals(sent), (engine, name)


def test_spark_reads_every_type_exactly_whoever_wrote_it(in_spark: Any, tmp_path: Path) -> None:
    in_spark(every_type, tmp_path)


def changelog(path: Path) -> None:
    to = sink(path, "append", engine="spark")
    write_frame(to, Changes().insert(**row(1)))
    changes = Changes(commit=200).update(["body"], **row(1, body=None)).delete(id=1)
    write_frame(to, changes)

    assert write_frame(to, changes) == 0
    found = spark_rows(path).sort_by([("_headwater_commit", "ascending"), ("_headwater_ordinal", "ascending")])
    assert found["_headwater_op"].to_pylist() == ["c", "u", "d"]
    assert found["_headwater_unchanged"].to_pylist() == [None, ["body"], None]
    assert found["after"].to_pylist()[0] == row(1)


def test_the_changelog_by_spark(in_spark: Any, tmp_path: Path) -> None:
    in_spark(changelog, tmp_path)


def pruned_by_statistics(path: Path) -> None:
    to = sink(path)
    for commit, keys in enumerate(((1, 2), (10, 11), (20, 21)), 1):
        write(to, Changes(commit=commit).insert(**row(keys[0])).insert(**row(keys[1], note="é" * 40)))
    frame = session().read.format("delta").load(to.lake.table_uri(ORDERS))
    assert [found["id"] for found in frame.where("id = 11").collect()] == [11]
    assert frame.where(f"note = '{'é' * 40}'").count() == 3
    assert frame.where("id > 15 and id < 21").count() == 1
    session().sql(f"optimize delta.`{to.lake.table_uri(ORDERS)}`")
    write(to, Changes(commit=9).update(["body"], **row(10, body=None, qty=9)))
    assert sorted_rows(path)[2] == row(10, qty=9)


def test_spark_prunes_by_our_statistics_and_its_optimize_does_not_disturb_us(in_spark: Any, tmp_path: Path) -> None:
    in_spark(pruned_by_statistics, tmp_path)
