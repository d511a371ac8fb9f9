"""PostgreSQL on the stage: its role and load, its slot, its folder."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from tests.conftest import Database
from tests.faults.stage import ROLE, SECRET, Stage
from tests.lake import source_rows

from headwater.sources.postgres.position import flush_lsn, parse_lsn
from headwater.testing import PostgresServer
from headwater.testing.load import TABLES, AwkwardLoad
from headwater.testing.proxy import TcpProxy


class PostgresStage(Stage):
    """See `Stage`."""

    keys: ClassVar[Mapping[str, tuple[str, ...]]] = {"public.orders": ("id",), "public.ledger": ("account", "entry")}
    # A scenario that moves the slot itself says so: then its position proves nothing.
    honest = True

    def __init__(self, database: Database, proxy: TcpProxy, directory: Path, seed: int, *, spark: bool = False) -> None:
        self.database = database
        self.server: PostgresServer = database.server
        self._port = proxy.port
        super().__init__(proxy, directory, seed, spark=spark)

    def source(self) -> dict[str, Any]:
        return {"type": "postgres", "url": self.url(SECRET), "tables": ["public.*"], "slot": self.database.slot}

    def url(self, password: str, port: int | None = None) -> str:
        return f"postgresql://{ROLE}:{quote(password)}@127.0.0.1:{port or self._port}/{self.database.name}"

    def set_up(self) -> None:
        with self.database.connect() as connection:
            load = AwkwardLoad(connection, self.seed, keys=80)
            load.create()
            load.run(60)
        for table in TABLES:
            self.execute(f"alter table {table} owner to {ROLE}")
        self.execute(f'grant create on database "{self.database.name}" to {ROLE}')
        self.execute(f"alter role {ROLE} replication login password '{SECRET}'")

    def write(self, seed: int, stopping: threading.Event) -> None:
        with self.database.connect() as connection:
            load = AwkwardLoad(connection, seed, keys=80)
            while not stopping.wait(0.02):
                load.transaction()

    def execute(self, statement: str, *params: Any) -> list[tuple[Any, ...]]:
        return self.database.execute(statement, *params)

    def rows(self, table: str) -> list[dict[str, Any]]:
        return source_rows(self.database, table)

    def end(self) -> int:
        return parse_lsn(self.execute("select pg_current_wal_flush_lsn()::text")[0][0])

    def stop_server(self) -> None:
        self.server.stop("fast")

    def start_server(self) -> None:
        self.server.start()

    def kill_server(self) -> None:
        self.server.kill()

    def data(self) -> Path:
        return self.server.data

    def forget(self) -> None:
        self.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s and not active",
            self.database.slot,
        )

    @contextmanager
    def watching(self) -> Iterator[None]:
        """The slot's confirmed position is never ahead of what both sinks hold."""
        sinks = list(self.definition.sinks.values())
        stopping, wrong = threading.Event(), []
        query = "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s"

        def look() -> None:
            while not stopping.wait(0.05):
                try:
                    with self.database.connect() as connection:
                        while not stopping.wait(0.2):
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
