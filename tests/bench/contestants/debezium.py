"""The peer: Debezium's own engine, default settings, JSON, and a consumer that only counts."""

from __future__ import annotations

from pathlib import Path

from headwater.errors import Usage
from headwater.testing.debezium import Debezium, jars

from ..contestant import Contestant, NotAvailable, Run
from ..postgres_workload import PUBLICATION, PostgresWorkload


class DebeziumEngine(Contestant[PostgresWorkload]):
    """In favour of Debezium: the clock starts at its first delivered batch, not with its JVM."""

    workload = PostgresWorkload
    group = "stream"

    def __init__(self, name: str, *, schemas: bool) -> None:
        self.name = name
        self.schemas = schemas
        self.title = "Debezium engine 3.6.3, JSON" + (" with schemas" if schemas else "")

    def run(self, workload: PostgresWorkload, directory: Path) -> Run:
        try:
            jars()
        except Usage as missing:
            raise NotAvailable(missing.what) from missing
        properties = {
            "slot.name": workload.slot(),
            "publication.name": PUBLICATION,
            "publication.autocreate.mode": "disabled",
            "table.include.list": "public.orders",
            "snapshot.mode": "no_data",
            "converter.schemas.enable": str(self.schemas).lower(),
        }
        engine = Debezium(workload.url, properties, directory, record=False, heap="2g")
        with engine:
            started = engine.wait_for(1, timeout=60)
            done = engine.wait_for(workload.changes, timeout=900)
        workload.drop_slot(properties["slot.name"])
        return Run(done.at - started.at, done.events - started.events, {"delivered": engine.delivered})
