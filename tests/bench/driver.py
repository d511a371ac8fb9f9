"""Runs inside its own process: make a Spark session, then time one thing in it. Order in, JSON answer out."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def main() -> None:
    order = json.load(sys.stdin)
    match order["do"]:
        case "stream":
            answer = stream_to_noop(order)
        case "pipeline":
            answer = run_pipeline(order)
        case "foreach":
            answer = foreach_latency(order)
        case unknown:
            raise SystemExit(f"unknown order {unknown!r}")
    sys.stdout.write("\n" + json.dumps(answer) + "\n")


def session() -> SparkSession:
    """The product's own session, which has run a job: what comes after is not the JVM's first class loading."""
    from headwater.spark.session import start_session

    spark = start_session("bench", {"spark.sql.streaming.numRecentProgressUpdates": "1000"})
    spark.range(1).write.format("noop").mode("overwrite").save()
    return spark


def reader(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    return spark.readStream.format("headwater").options(**options).load()


def stream_to_noop(order: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that is in the log, all columns, into Spark's sink that writes nothing."""
    spark = session()
    defined = time.perf_counter()
    frame = reader(spark, order["options"])
    writer = frame.writeStream.format("noop").option("checkpointLocation", order["checkpoint"])
    begun = time.perf_counter()
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    seconds = time.perf_counter() - begun
    rows = sum(progress["numInputRows"] for progress in query.recentProgress)
    return {
        "seconds": seconds,
        # `load()` asks the source for its schema; people do it once, in another cell.
        "define_seconds": round(begun - defined, 2),
        "rows": rows,
        "batches": [
            {"rows": progress["numInputRows"], "ms": dict(progress["durationMs"])} for progress in query.recentProgress
        ],
    }


def run_pipeline(order: Mapping[str, Any]) -> dict[str, Any]:
    """`headwater run FILE --available-now`, in this process, so that it finds the session made before."""
    headwater = importlib.import_module("headwater.cli").main
    session()
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
    return {"seconds": seconds}


def foreach_latency(order: Mapping[str, Any]) -> dict[str, Any]:
    """From a commit to `foreachBatch` having read the row: one small transaction at a time."""
    import psycopg

    from .latency_clock import Clock

    spark = session()
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
