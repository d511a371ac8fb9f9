"""The stage of a fault scenario: a server behind a proxy, a load that never rests, a pipeline, and the two rules.

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
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from deltalake import DeltaTable
from tests.conftest import Database
from tests.lake import assert_lake_equals_source, comparable, source_rows

from headwater.errors import HeadwaterError
from headwater.event import Position
from headwater.pipeline.definition import read_definition
from headwater.sources.postgres.position import flush_lsn, parse_lsn
from headwater.testing import PostgresServer, wait_until
from headwater.testing.load import NEVER, TABLES, AwkwardLoad
from headwater.testing.order import KeyOrder, events_of_changelog
from headwater.testing.pipeline import PipelineProcess
from headwater.testing.proxy import TcpProxy

ROLE, SECRET = "cdc", "s3cret-0815"
KEYS = {"public.orders": ("id",), "public.ledger": ("account", "entry")}
# Rule E allows a minute; a loaded machine gets some more.
STOP_SECONDS = 90.0


class Stage:
    """One database, one pipeline, one load. Made anew for every scenario; the server is shared."""

    def __init__(self, database: Database, proxy: TcpProxy, directory: Path, seed: int, *, spark: bool = False) -> None:
        self.database = database
        self.server: PostgresServer = database.server
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
        source = {"type": "postgres", "url": self.url(SECRET), "tables": ["public.*"], "slot": database.slot}
        self.pipeline = PipelineProcess(directory, {"source": source, "sinks": sinks}, spark=spark)

    # -- the play ----------------------------------------------------------------------------------

    def set_up(self) -> None:
        """Tables that belong to the pipeline's role, with something in them."""
        with self.database.connect() as connection:
            load = AwkwardLoad(connection, self.seed, keys=80)
            load.create()
            load.run(60)
        for table in TABLES:
            self.execute(f"alter table {table} owner to {ROLE}")
        self.execute(f'grant create on database "{self.database.name}" to {ROLE}')
        self.execute(f"alter role {ROLE} replication login password '{SECRET}'")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The awkward load, whatever happens to the server meanwhile, until the block ends."""
        stopping = threading.Event()

        def write() -> None:
            number = 0
            while not stopping.is_set():
                number += 1
                try:
                    with self.database.connect() as connection:
                        load = AwkwardLoad(connection, self.seed + number, keys=80)
                        while not stopping.wait(0.02):
                            load.transaction()
                except Exception:
                    stopping.wait(0.2)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()

    @contextmanager
    def watching_the_slot(self) -> Iterator[None]:
        """The slot's confirmed position is never ahead of what both sinks hold."""
        sinks = list(self.definition.sinks.values())
        stopping, wrong = threading.Event(), []
        query = "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s"

        def look() -> None:
            while not stopping.wait(0.05):
                try:
                    with self.database.connect() as connection:
                        while not stopping.wait(0.05):
                            row = connection.execute(query, [self.database.slot]).fetchone()
                            # The sinks are asked afterwards: they may have moved on, never back.
                            held = [sink.position() for sink in sinks]
                            if row and row[0] and self.honest:
                                wrong.extend((row[0], p) for p in held if p and parse_lsn(row[0]) > flush_lsn(p))
                except Exception:
                    stopping.wait(0.1)

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()
        assert not wrong, f"confirmed ahead of a sink: {wrong[:3]}"

    # Where in the log changes begin to be missing, in scenarios that know it.
    gap: int | None = None
    # A scenario that moves the slot itself says so: then its position proves nothing.
    honest = True

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
        self.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s and not active",
            self.database.slot,
        )
        for folder in (self.lake, self.changes, self.pipeline.state):
            shutil.rmtree(folder, ignore_errors=True)

    # -- facts -------------------------------------------------------------------------------------

    def execute(self, statement: str, *params: Any) -> list[tuple[Any, ...]]:
        return self.database.execute(statement, *params)

    def url(self, password: str, port: int | None = None) -> str:
        return f"postgresql://{ROLE}:{quote(password)}@127.0.0.1:{port or self.proxy.port}/{self.database.name}"

    def use(self, **source: Any) -> None:
        """Change the pipeline's file under `source`."""
        told = yaml.safe_load(self.pipeline.file.read_text())
        told["source"] |= source
        self.pipeline.file.write_text(yaml.safe_dump(told))

    @property
    def definition(self) -> Any:
        return read_definition(self.pipeline.file)

    def end(self) -> int:
        """How far the server's log goes."""
        return parse_lsn(self.execute("select pg_current_wal_flush_lsn()::text")[0][0])

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
            120,
            lambda: f"not everything is delivered: {self.pipeline.report()}\n{self.pipeline.output()[-3000:]}",
        )
        assert self.pipeline.running(), self.pipeline.output()[-3000:]
        report = self.pipeline.report()
        assert report.ready, f"all is well, but the status says {report.reasons}"
        self.stop()
        assert not self.pipeline.report().ready
        assert_lake_equals_source(self.database, self.lake, TABLES)
        if self.checks_order:
            for table in TABLES:
                self._require_legal_path(table)

    def _settled(self, end: int) -> bool:
        report = self.pipeline.report()
        received = int(self.pipeline.journal.status().get("received", 0))
        return report.ready and received >= end and all(sink.behind_changes == 0 for sink in report.sinks)

    def _require_legal_path(self, table: str) -> None:
        schema, name = table.split(".")
        order = KeyOrder()
        for event in events_of_changelog(
            table, KEYS[table], DeltaTable(str(self.changes / schema / name)).to_pyarrow_table()
        ):
            assert NEVER not in str((event.after or {}).get("customer")), "a row that was rolled back was delivered"
            order.add(event)
        expected = Counter(map(comparable, source_rows(self.database, table)))
        assert Counter(map(comparable, order.rows(table))) == expected, f"{table}: the changelog ends elsewhere"

    def positions_or_none(self) -> dict[str, Position | None] | None:
        """The sinks' positions, if the scenario has left them readable."""
        try:
            return self.positions()
        except HeadwaterError:
            return None

    def backup(self) -> None:
        """The server's folder, as a file-system backup would take it."""
        self.server.stop("fast")
        subprocess.run(["cp", "-a", str(self.server.data), str(self.directory / "backup")], check=True)
        self.server.start()

    def restore(self) -> None:
        """The server as it was at `backup`."""
        self.server.stop("fast")
        shutil.rmtree(self.server.data)
        subprocess.run(["cp", "-a", str(self.directory / "backup"), str(self.server.data)], check=True)
        self.server.start()

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
