"""Runs inside its own process: make a Spark session, then time one thing in it. Order in, JSON answer out."""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import psycopg

from .small_table import small_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def main() -> None:
    order = json.load(sys.stdin)
    match order["do"]:
        case "stream":
            answer = stream_to_noop(order)
        case "pipeline":
            answer = run_pipeline(order)
        case "snapshot":
            answer = load_tables(order)
        case "foreach":
            answer = foreach_latency(order)
        case unknown:
            raise SystemExit(f"unknown order {unknown!r}")
    sys.stdout.write("\n" + json.dumps(answer) + "\n")


def session(url: str) -> tuple[SparkSession, float]:
    """The product's own session, in which a row has been streamed before and every worker is warm, and what that took.

    So a throughput is not the start-up of a JVM, its Python workers and the kernels, which a stream pays once in its
    life and which is reported beside it."""
    from headwater.spark.jobs import warm_workers
    from headwater.spark.session import start_session

    spark = start_session("bench", {"spark.sql.streaming.numRecentProgressUpdates": "1000"})
    begun = time.perf_counter()
    name = f"warm_{os.getpid()}"
    table = small_table(url, name)
    with tempfile.TemporaryDirectory() as folder:
        options = {"url": url, "name": name, "state": folder, "table": table.name}
        for _ in range(2):
            query = (
                reader(spark, options)
                .writeStream.format("noop")
                .option("checkpointLocation", f"{folder}/checkpoint")
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            table.add_row()
        table.drop(f"headwater_{name}")
    warm_workers(spark, table.source, [])
    return spark, round(time.perf_counter() - begun, 2)


def reader(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    return spark.readStream.format("headwater").options(**options).load()


def stream_to_noop(order: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that is in the log, all columns, into Spark's sink that writes nothing."""
    spark, first_stream = session(order["options"]["url"])
    defined = time.perf_counter()
    frame = reader(spark, order["options"])
    writer = frame.writeStream.format("noop").option("checkpointLocation", order["checkpoint"])
    begun = time.perf_counter()
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    seconds = time.perf_counter() - begun
    rows = sum(progress["numInputRows"] for progress in query.recentProgress)
    ends = [_end_of(progress) for progress in query.recentProgress]
    return {
        "seconds": seconds,
        # As Debezium's clock runs: from the first batch delivered to the last.
        "delivered_seconds": round(ends[-1] - ends[0], 3) if len(ends) > 1 else seconds,
        "delivered_rows": rows - (query.recentProgress[0]["numInputRows"] if len(ends) > 1 else 0),
        # `load()` asks the source for its schema; people do it once, in another cell.
        "define_seconds": round(begun - defined, 2),
        "first_stream_seconds": first_stream,
        "rows": rows,
        "batches": [
            {"rows": progress["numInputRows"], "ms": dict(progress["durationMs"])} for progress in query.recentProgress
        ],
    }


def _end_of(progress: Mapping[str, Any]) -> float:
    begun = datetime.fromisoformat(progress["timestamp"])
    return begun.timestamp() + float(progress["durationMs"]["triggerExecution"]) / 1000


def run_pipeline(order: Mapping[str, Any]) -> dict[str, Any]:
    """`headwater run FILE --available-now`, in this process, so that it finds the session made before."""
    headwater = importlib.import_module("headwater.cli").main
    _spark, first = session(order["url"])
    arguments = ["run", order["file"], "--available-now"]
    begun = time.perf_counter()
    sys.argv = ["headwater", *arguments]
    try:
        status = headwater(arguments)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    seconds = time.perf_counter() - begun
    if status:
        raise SystemExit(f"headwater run ended with status {status}")
    return {"seconds": seconds, "first_stream_seconds": first}


def load_tables(order: Mapping[str, Any]) -> dict[str, Any]:
    """A pipeline's tables, from the moment they are being loaded until they are durable, in a session that has loaded
    a row before; starting a run and its stream takes some seconds more, however large the tables are."""
    _spark, first = session(order["url"])
    table = small_table(order["url"], "bench_load")
    table.add_row()
    first_load, _ = _load(order["first_file"])
    table.drop("headwater_bench_load")
    seconds, whole = _load(order["file"])
    return {
        "seconds": seconds,
        "run_seconds": round(whole, 2),
        "first_load_seconds": round(first_load, 2),
        "first_stream_seconds": first,
    }


def _load(file: str) -> tuple[float, float]:
    """Seconds of the load, and of the whole run."""
    from headwater.pipeline.definition import read_definition
    from headwater.pipeline.run import Run

    begun = time.perf_counter()
    said: list[tuple[float, str]] = []
    run = Run(read_definition(file), say=lambda text: said.append((time.perf_counter(), text)))
    run.run(available_now=True)
    loading = next(at for at, text in said if ": loading " in text)
    loaded = next(at for at, text in reversed(said) if ": loaded " in text)
    return loaded - loading, time.perf_counter() - begun


def foreach_latency(order: Mapping[str, Any]) -> dict[str, Any]:
    """From a commit to `foreachBatch` having read the row: one small transaction at a time."""
    from .latency_clock import Clock

    spark, _first = session(order["url"])
    clock = Clock()

    def seen(frame: DataFrame, _batch: int) -> None:
        for row in frame.select("after.id").collect():
            clock.saw(row.id)

    frame = reader(spark, order["options"])
    writer = frame.writeStream.foreachBatch(seen).option("checkpointLocation", order["checkpoint"])
    query = writer.start()
    with psycopg.connect(order["url"], autocommit=True) as connection:
        for number in range(order["warm"] + order["transactions"]):
            connection.execute(order["statement"], {"id": number + 1})
            clock.committed(number + 1)
            clock.wait_for(number + 1, timeout=60)
    query.stop()
    return {"milliseconds": clock.milliseconds(after=order["warm"])}


if __name__ == "__main__":
    main()
