"""The Spark session of a pipeline: local by default, quiet, bound to loopback."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

# Local defaults; a user's `spark:` section goes over them.
DEFAULTS = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "3",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A slice row is small and its work is not: never let several share a task.
    "spark.sql.adaptive.enabled": "false",
    "spark.log.level": "ERROR",
}


def start_session(name: str, conf: Mapping[str, str]) -> SparkSession:
    """The running session, or a new one. Workers use this very interpreter."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName(f"headwater {name}")
    for key, value in {**DEFAULTS, **conf}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(conf.get("spark.log.level", DEFAULTS["spark.log.level"]))
    return session
