"""The stage of a fault scenario: a server behind a proxy, a load that never rests, a pipeline, and the two rules.

What a database does in its own way (accounts, load, log positions, backups) is in `postgres_stage.py` and
`mysql_stage.py`.

Rule Z: in the end the replica equals the source, row by row and typed; the changelog is a legal path per key; nothing
that was rolled back was ever seen; the slot was never ahead of a sink; the status told the truth.
Rule E: the pipeline stops by itself, names object, cause and remedy, shows no secret and delivers nothing behind the
gap; after the remedy, rule Z.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from deltalake import DeltaTable
from tests.lake import assert_same_rows, comparable, lake_rows

from headwater.errors import HeadwaterError
from headwater.event import Position
from headwater.pipeline.definition import read_definition
from headwater.testing import wait_until
from headwater.testing.load import NEVER
from headwater.testing.order import KeyOrder, events_of_changelog
from headwater.testing.pipeline import PipelineProcess
from headwater.testing.proxy import TcpProxy

ROLE, SECRET = "cdc", "s3cret-0815"
# Rule E allows a minute; a loaded machine gets some more.
STOP_SECONDS = 90.0


class Stage(ABC):
    """One database, one pipeline, one load. Made anew for every scenario; the server is shared."""

    # Tables of the load, and their keys.
    keys: ClassVar[Mapping[str, tuple[str, ...]]]

    def __init__(self, proxy: TcpProxy, directory: Path, seed: int, *, spark: bool = False) -> None:
        self.proxy = proxy
        self.directory = directory
        self.chance = random.Random(seed)  # noqa: S311
        self.seed = seed
        self._clean = ExitStack()
        self.lake, self.changes = directory / "lake", directory / "changes"
        sinks = [
            {"type": "delta", "path": str(self.lake), "mode": "upsert", "engine": "native"},
            {"type": "delta", "name": "changes", "path": str(self.changes), "mode": "append"},
        ]
        # On Spark a second sink is a second query: the changelog is checked where that costs nothing.
        self.checks_order = not spark
        sinks = sinks[:1] if spark else sinks
        definition = {"source": self.source(), "sinks": sinks, "batch_driver_bytes": 0}
        self.pipeline = PipelineProcess(directory, definition, spark=spark)

    # -- what a database does in its own way -------------------------------------------------------

    @abstractmethod
    def source(self) -> dict[str, Any]:
        """The source part of the pipeline, through the proxy, with a password."""

    @abstractmethod
    def set_up(self) -> None:
        """Tables that the pipeline's account may read, with something in them."""

    @abstractmethod
    def write(self, seed: int, stopping: threading.Event) -> None:
        """The awkward load on a connection of its own, until it is told to stop or the server goes away."""

    @abstractmethod
    def execute(self, statement: str, *params: Any) -> list[tuple[Any, ...]]:
        """As an administrator, past the proxy."""

    @abstractmethod
    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table, in the lake's types."""

    @abstractmethod
    def end(self) -> int:
        """How far the server's log goes."""

    @abstractmethod
    def stop_server(self) -> None: ...

    @abstractmethod
    def start_server(self) -> None: ...

    @abstractmethod
    def kill_server(self) -> None:
        """As a power cut does."""

    @abstractmethod
    def data(self) -> Path:
        """The server's folder."""

    def watching(self) -> AbstractContextManager[None]:
        """Whatever must hold throughout."""
        return nullcontext()

    def forget(self) -> None:
        """Remove what the pipeline has left on the server."""

    # -- the play ----------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The awkward load, whatever happens to the server meanwhile, until the block ends."""
        stopping = threading.Event()

        def write() -> None:
            number = 0
            while not stopping.is_set():
                number += 1
                try:
                    self.write(self.seed + number, stopping)
                except Exception:
                    stopping.wait(0.2)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()

    # Where in the log changes begin to be missing, in scenarios that know it.
    gap: int | None = None

    def batches(self, count: int = 2) -> None:
        """Until every sink has taken some more batches."""
        for _ in range(count):
            before = self.positions()
            wait_until(
                lambda held=before: (
                    not self.pipeline.running() or all(self.positions().get(name) != held[name] for name in held)
                ),
                180,
                lambda: f"no batch arrives: {self.pipeline.report().reasons}\n{self.pipeline.output()[-2000:]}",
            )

    def stop(self) -> None:
        """As an operator does."""
        assert self.pipeline.stop() == 0, self.pipeline.output()[-3000:]

    def load_anew(self) -> None:
        """What the messages recommend when changes are gone for good."""
        self.forget()
        for folder in (self.lake, self.changes, self.pipeline.state):
            shutil.rmtree(folder, ignore_errors=True)

    # -- facts -------------------------------------------------------------------------------------

    def use(self, **source: Any) -> None:
        """Change the pipeline's file under `source`."""
        told = yaml.safe_load(self.pipeline.file.read_text())
        told["source"] |= source
        self.pipeline.file.write_text(yaml.safe_dump(told))

    @property
    def definition(self) -> Any:
        return read_definition(self.pipeline.file)

    def positions(self) -> dict[str, Position | None]:
        """What each sink itself holds."""
        return {name: sink.position() for name, sink in self.definition.sinks.items()}

    # -- the rules ---------------------------------------------------------------------------------

    def require_stop(self, says: tuple[str, ...], status: int, held: dict[str, Position | None] | None) -> None:
        """Rule E up to the remedy."""
        got = self.pipeline.wait(STOP_SECONDS)
        output = self.pipeline.output()
        assert got == status, f"exit status {got}, not {status}:\n{output[-3000:]}"
        error = output.rpartition("headwater: ")[2]
        for words in says:
            assert words in error, f"{words!r} is not in:\n{error}"
        everything = output + (self.pipeline.state / "journal" / "tail.log").read_text(errors="replace")
        assert SECRET not in everything, "the password is in the output"
        report = self.pipeline.report()
        assert not report.ready
        if self.gap is not None:
            assert all(p is None or p.commit <= self.gap for p in self.positions().values()), "delivered behind the gap"
        elif held is not None:
            assert self.positions() == held, "something was delivered behind the gap"

    def require_equal(self) -> None:
        """Rule Z."""
        if not self.pipeline.running():
            self.pipeline.start()
        end = self.end()
        wait_until(
            lambda: not self.pipeline.running() or self._settled(end),
            300,
            lambda: f"not everything is delivered: {self.pipeline.report()}\n{self.pipeline.output()[-3000:]}",
        )
        assert self.pipeline.running(), self.pipeline.output()[-3000:]
        report = self.pipeline.report()
        assert report.ready, f"all is well, but the status says {report.reasons}"
        self.stop()
        assert not self.pipeline.report().ready
        for table in self.keys:
            expected = self.rows(table)
            assert_same_rows(table, lake_rows(self.lake, table), expected)
            if self.checks_order:
                self._require_legal_path(table, expected)

    def _settled(self, end: int) -> bool:
        report = self.pipeline.report()
        received = int(self.pipeline.journal.status().get("received", 0))
        return report.ready and received >= end and all(sink.behind_changes == 0 for sink in report.sinks)

    def _require_legal_path(self, table: str, expected: list[dict[str, Any]]) -> None:
        schema, name = table.split(".")
        order = KeyOrder()
        for event in events_of_changelog(
            table, self.keys[table], DeltaTable(str(self.changes / schema / name)).to_pyarrow_table()
        ):
            assert NEVER not in str((event.after or {}).get("customer")), "a row that was rolled back was delivered"
            order.add(event)
        left = Counter(map(comparable, order.rows(table)))
        assert left == Counter(map(comparable, expected)), f"{table}: the changelog ends elsewhere"

    def positions_or_none(self) -> dict[str, Position | None] | None:
        """The sinks' positions, if the scenario has left them readable."""
        try:
            return self.positions()
        except HeadwaterError:
            return None

    def backup(self) -> None:
        """The server's folder, as a file-system backup would take it."""
        self.stop_server()
        subprocess.run(["cp", "-a", str(self.data()), str(self.directory / "backup")], check=True)
        self.start_server()

    def restore(self) -> None:
        """The server as it was at `backup`."""
        self.stop_server()
        shutil.rmtree(self.data())
        subprocess.run(["cp", "-a", str(self.directory / "backup"), str(self.data())], check=True)
        self.start_server()

    def mount(self, folder: Path, megabytes: int) -> None:
        """A disk of its own for a folder; skips the test where that is not permitted."""
        folder.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder], check=False)
        if made.returncode:
            pytest.skip("mounting a small disk needs root")
        self._clean.callback(subprocess.run, ["umount", "--lazy", folder], check=True)

    def close(self) -> None:
        self.proxy.release()
        self.pipeline.close()
        self._clean.close()


def pause(seconds: float) -> None:
    """For faults that are a length of time."""
    time.sleep(seconds)
