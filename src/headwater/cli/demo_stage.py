"""What stands on the demo's stage: server, shop and traffic, the pipeline in a thread, and their numbers."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql

from headwater.errors import HeadwaterError, Retry
from headwater.event import Position
from headwater.pipeline.definition import read_definition
from headwater.pipeline.run import Run
from headwater.pipeline.status import SinkStatus
from headwater.testing.postgres import PostgresServer
from headwater.testing.pulse import Pulse
from headwater.testing.shop import TABLES, open_shop

SINK = "delta"

PIPELINE = """\
name: shop
source:
  type: postgres
  url: {url}
  tables: ["public.*"]
sinks:
  - type: delta
    path: {lake}
    mode: upsert
state: {state}
"""


class Stage:
    """Everything the demo starts; `__exit__` ends it all. Numbers are from the last `look`."""

    tables = TABLES

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "shop.yaml"
        self.lake = folder / "lake"
        self.server = PostgresServer(directory=folder / "postgres")
        self.retained = 0
        self.most_retained = 0
        self.rows: dict[str, int] = {}
        self.lake_rows: dict[str, int] = {}
        self.shop: dict[str, int] = {}
        self.pulse: Pulse | None = None
        self._run: Run | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._traffic: subprocess.Popen[str] | None = None
        self._connection: psycopg.Connection[Any] | None = None
        self.opened = time.monotonic()
        self.began = self.ended = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end_traffic()
        if self.pulse is not None:
            self.pulse.stop()
        if self._run is not None and self._thread is not None:
            self._run.stop()
            self._thread.join()
        if self._connection is not None:
            self._connection.close()
        self.server.close()

    @property
    def url(self) -> str:
        return self.server.url("shop")

    # -- the play ----------------------------------------------------------------------------------

    def open_shop(self) -> None:
        """The server, its tables, some thousand rows, and the pipeline's file."""
        self.server.start()
        self.server.create_database("shop")
        self._connection = self.server.connect("shop")
        open_shop(self._connection)
        self.file.write_text(PIPELINE.format(url=self.url, lake=self.lake, state=self.folder / "state"))

    def start_pipeline(self) -> None:
        """As `headwater run` does, in a thread."""
        run = Run(read_definition(self.file))

        def work() -> None:
            try:
                run.run()
            except BaseException as error:  # said where the main thread looks
                self._failure = error

        self._run = run
        self._thread = threading.Thread(target=work, name="pipeline", daemon=True)
        self._thread.start()

    def start_pulse(self) -> None:
        """One small transaction now and then, watched from outside."""
        self.pulse = Pulse(self.url, self.lake / "public" / "pulse")
        self.pulse.start()

    def start_traffic(self, rate: float) -> None:
        """The shop's customers come."""
        self._traffic = subprocess.Popen(
            [sys.executable, "-m", "headwater.testing.shop_traffic", self.url, "--rate", str(rate)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Ctrl-C reaches us alone, also while the writer is still importing; end of its input ends it.
            start_new_session=True,
        )
        threading.Thread(target=self._hear, args=(self._traffic,), daemon=True).start()
        self.began = time.monotonic()

    def close_shop(self) -> None:
        """Nobody writes any more."""
        if self.pulse is not None:
            self.pulse.stop()
        self._end_traffic()
        self.ended = time.monotonic()

    def stop_pipeline(self) -> None:
        """Finish the batch; raises what the pipeline ended with."""
        if self._run is not None and self._thread is not None:
            self._run.stop()
            self._thread.join()
        self._raise()

    # -- what is seen ------------------------------------------------------------------------------

    @property
    def phase(self) -> str:
        return self._run.status.phase if self._run is not None else "starting"

    @property
    def streaming(self) -> bool:
        self._raise()
        return self.phase == "streaming"

    @property
    def flowing(self) -> bool:
        """Whether a first change has come through."""
        self._raise()
        return self.pulse is not None and (self.pulse.first is not None or self.pulse.lost > 0)

    @property
    def sink(self) -> SinkStatus:
        """The sink's counters, as the pipeline keeps them."""
        return SinkStatus() if self._run is None else self._run.status.sinks[SINK]

    def look(self) -> None:
        """Ask server and lake for their numbers; raises what the pipeline failed with."""
        self._raise()
        self.rows = self.source_rows()
        self.lake_rows = {table: rows_of(self.lake / "public" / table) for table in self.tables}
        row = self._ask(
            "select pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint from pg_replication_slots"
            " where slot_name = 'headwater_shop'"
        )
        self.retained = int(row[0]) if row and row[0] is not None else 0
        self.most_retained = max(self.most_retained, self.retained)

    def source_rows(self) -> dict[str, int]:
        """Rows per table at the source."""
        counts = sql.SQL(", ").join(
            sql.SQL("(select count(*) from {})").format(sql.Identifier(table)) for table in self.tables
        )
        row = self._ask(sql.SQL("select {}").format(counts))
        return dict(zip(self.tables, row or (), strict=True))

    @property
    def spark_jobs(self) -> int:
        return 0 if self._run is None else self._run.work.jobs

    def end(self) -> int:
        """How far the server's log has been written."""
        return 0 if self._run is None else self._run.definition.source.end()

    def delivered(self, target: int) -> bool:
        """Whether everything up to `target` was received, and everything received is durable in the sink."""
        self._raise()
        if self._run is None or not self._run.flows:
            return False
        tail: Mapping[str, Any] = self._run.journal.status()
        received = int(tail.get("received", 0)) >= target
        return received and all(flow.position >= Position(*tail["end"]) for flow in self._run.flows)

    # ----------------------------------------------------------------------------------------------

    def _ask(self, statement: Any) -> tuple[Any, ...] | None:
        if self._connection is None:
            raise HeadwaterError("the shop is not open yet")
        return self._connection.execute(statement).fetchone()

    def _hear(self, traffic: subprocess.Popen[str]) -> None:
        for line in traffic.stdout or ():
            self.shop = json.loads(line)

    def _end_traffic(self) -> None:
        if self._traffic is not None:
            traffic, self._traffic = self._traffic, None
            if traffic.stdin is not None:
                traffic.stdin.close()
            if traffic.wait(30):
                raise Retry(f"the shop's writer ended with status {traffic.returncode}")

    def _raise(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure


def rows_of(table: Path) -> int:
    """Rows of a Delta table, from its log; 0 before it exists."""
    from deltalake import DeltaTable

    return int(DeltaTable(str(table)).count()) if DeltaTable.is_deltatable(str(table)) else 0
