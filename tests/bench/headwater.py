"""How the benchmark uses Headwater: pipeline files, and a driver process that has its Spark session already.

The clock of a driver starts when the session stands, as it does in any Spark application, and so includes
everything of ours: planner, tail, workers, kernels. The whole process' time is reported beside it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from .contestant import NotAvailable
from .postgres_workload import PUBLICATION, PostgresWorkload

_RAISED = re.compile(r"(headwater|[\w.]*(Error|Exception|Stop|Retry|Usage|Unrepresentable)): ")
ROOT = Path(__file__).parents[2]


def source(workload: PostgresWorkload, slot: str, **options: Any) -> dict[str, Any]:
    """The source part of a pipeline, without a snapshot unless asked for."""
    return {
        "type": "postgres",
        "url": workload.url,
        "slot": slot,
        "publication": PUBLICATION,
        "tables": ["public.orders"],
        "snapshot": "no_data",
        **options,
    }


def pipeline_file(directory: Path, source: Mapping[str, Any], sink: Mapping[str, Any]) -> Path:
    """A pipeline as a user would write it."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "pipeline.yaml"
    definition = {"name": "bench", "source": dict(source), "sinks": [dict(sink)], "state": str(directory / "state")}
    path.write_text(yaml.safe_dump(definition, sort_keys=False))
    return path


def require_pipelines() -> None:
    """`headwater run` exists."""
    if importlib.util.find_spec("headwater.cli.run") is None:
        raise NotAvailable("`headwater run` is not there yet")


def drive(order: Mapping[str, Any], directory: Path, timeout: float = 1800) -> dict[str, Any]:
    """Run one order in a driver process (see driver.py) and return what it measured."""
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "driver.log"
    begun = time.perf_counter()
    with log.open("w") as errors:
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.driver"],
            input=json.dumps(order),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            timeout=timeout,
            cwd=ROOT,
            env=environment(),
            check=False,
        )
    wall = time.perf_counter() - begun
    answer = done.stdout.strip().splitlines()
    if done.returncode or not answer:
        raise NotAvailable(f"the driver ended with {done.returncode}: {last_error(log)}")
    return {**json.loads(answer[-1]), "process_seconds": round(wall, 2)}


def start_pipeline(path: Path, log: Path) -> subprocess.Popen[bytes]:
    """`headwater run FILE`, streaming until stopped."""
    with log.open("wb") as output:
        return subprocess.Popen(
            [str(Path(sys.executable).with_name("headwater")), "run", str(path)],
            stdout=output,
            stderr=output,
            env=environment(),
        )


def environment() -> dict[str, str]:
    return {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}


def last_error(log: Path) -> str:
    """The line that most likely says what went wrong: a raised error, or our own message."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if _RAISED.match(line)]
    # Spark wraps what a worker raised; the cause says more than the wrapping.
    causes = [line for line in telling if not line.startswith(("pyspark.", "org.", "java."))]
    return (causes or telling or lines or ["no output"])[-1][:300]
