"""The Spark session of a pipeline: local by default, quiet, bound to loopback.

The JVM is started here, so that its words go to a file and Ctrl-C goes to us alone.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headwater.errors import HeadwaterError, Usage

Session = SparkSession

# Local defaults; a user's `spark:` section goes over them.
DEFAULTS = {
    # A task may be tried four times: a Python worker that was killed costs a retry, not the run.
    "spark.master": "local[*,4]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "3",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    # For streams in this session, which pipelines have none of. Without Hadoop's native library its FileContext runs
    # chmod and readlink as processes of their own, ten of them a batch: 150 ms for its two logs, 25 ms with this.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A slice row is small and its work is not: never let several share a task.
    "spark.sql.adaptive.enabled": "false",
    "spark.log.level": "ERROR",
}

# The JVM plans and commits; rows are decoded and written by Arrow in Python. So it needs no optimising compiler
# and no parallel collector, which compete with the log for two cores: start to first task took 9.5 s of CPU
# with these and 20 s without, a small job 0.15 s instead of 0.5 s. A sink that brings jars has Spark do real
# work, and gets the ordinary JVM.
LIGHT_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# Settings whose values must not stand in the JVM's arguments; everything else may have to (memory, jars).
_SECRET = re.compile(r"secret|password|token|credential|access.?key|account.?key", re.IGNORECASE)


def start_session(name: str, conf: Mapping[str, str], log: Path | None = None) -> SparkSession:
    """The running session, or a new one whose JVM writes to `log`. Workers use this very interpreter."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {"spark.app.name": f"headwater {name}", **DEFAULTS, **conf}
    if "spark.jars.packages" not in settings:
        settings.setdefault("spark.driver.extraJavaOptions", LIGHT_JVM)
    on_interrupt = signal.getsignal(signal.SIGINT)
    if log is not None and SparkContext._gateway is None:
        _launch_jvm(settings, log)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if threading.current_thread() is threading.main_thread():
        # SparkContext puts a handler there that cancels the jobs under way; whoever had one before keeps it.
        signal.signal(signal.SIGINT, on_interrupt)
    session.sparkContext.setLogLevel(settings["spark.log.level"])
    return session


class StartingSession:
    """A session on its way, begun at once: whoever needs it waits, and what needs none does not."""

    def __init__(self, start: Callable[[], SparkSession], settings: Mapping[str, str]) -> None:
        # Until it is there: what it is started with, and what `local[*]` will have.
        self.settings = settings
        self.parallel = os.cpu_count() or 1
        self._start = start
        self._session: Future[SparkSession] = Future()
        threading.Thread(target=self._run, name="starting Spark", daemon=True).start()

    def _run(self) -> None:
        try:
            spark = self._start()
            self.settings = dict(spark.sparkContext.getConf().getAll())
            self.parallel = spark.sparkContext.defaultParallelism
            self._session.set_result(spark)
        except BaseException as error:
            self._session.set_exception(error)

    def get(self) -> SparkSession:
        """The session, once it is there. Raises what kept it from starting."""
        return self._session.result()

    def check(self) -> None:
        """Raises when the session could not be started, or has lost its JVM."""
        if not self._session.done():
            return
        self.get()
        gateway: Any = SparkContext._gateway
        if gateway is not None and (status := gateway.proc.poll()) is not None:
            raise HeadwaterError(
                "Spark's JVM has ended",
                "Start the pipeline again: it goes on where it was",
                "If it was killed for its memory, give it more (spark.driver.memory), or make batch_max_bytes smaller",
                cause=f"Its exit status is {status}; what it said is in spark.log in the state folder",
            )


def _launch_jvm(settings: Mapping[str, str], log: Path) -> None:
    """Start the JVM in a session of its own: a Ctrl-C in the terminal would reach the process that plans our
    batches, and kill it in the middle of one. The JVM still ends with us, by the pipe to its standard input.

    Its banners (incubator modules, log4j's profile, the native library) come before any setting could silence
    them: the file gets them, and whatever Spark has to say later."""
    launch = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        if not _SECRET.search(key):
            launch.set(key, value)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        began = file.tell()
        try:
            how = {"stdout": file, "stderr": file, "start_new_session": True}
            gateway = launch_gateway(launch, how)  # type: ignore[no-untyped-call]
        except (PySparkRuntimeError, OSError) as error:
            raise Usage(
                "Spark's JVM did not start",
                "Java 17 or newer must be on PATH or under JAVA_HOME; check the `spark:` section of the pipeline",
                cause=_said_last(log, began) or str(error),
            ) from error
    SparkContext._ensure_initialized(gateway=gateway)


def _said_last(log: Path, began: int, lines: int = 5) -> str:
    """The end of what was written to a log behind a place."""
    with log.open("rb") as file:
        file.seek(began)
        return "\n  ".join(file.read().decode(errors="replace").strip().splitlines()[-lines:])
