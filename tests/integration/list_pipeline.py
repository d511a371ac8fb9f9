"""The way from a slot to a sink and back without Spark: the real start, tail and journal, and a sink that is a list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.conftest import Database
from tests.integration.postgres_source import make_source

from headwater.event import Position
from headwater.journal import Journal, JournalReader, Limits
from headwater.pipeline.run import Run
from headwater.sources.postgres.position import flush_lsn, parse_lsn
from headwater.sources.postgres.source import Postgres
from headwater.tail.loop import Tail

TURNS = 4000


class Pipeline:
    """One pipeline over many runs."""

    def __init__(self, database: Database, folder: Path, **options: Any) -> None:
        self.database = database
        self.folder = folder
        self.journal = Journal(folder / "journal")
        self.options = options
        self.position: Position | None = None
        self.delivered: list[int] = []
        # Nothing reaches the sink while it is down.
        self.down = False

    def run(self, until: Callable[[], bool], **options: Any) -> list[int]:
        """Start, go on until the condition holds, stop; what the sink was given meanwhile."""
        source = make_source(self.database, **{**self.options, **options})
        sink = SimpleNamespace(position=lambda: self.position)
        definition: Any = SimpleNamespace(
            source=source,
            sinks={"sink": sink},
            journal=self.journal.place,
            state=self.folder,
            tail_folder=self.folder,
        )
        run = Run(definition)
        begin, _positions = run._prepare()
        source.close()
        if self.position is None:
            self.position = begin
        before = len(self.delivered)
        turns = iter(range(TURNS))
        index = JournalReader(self.journal)

        def alive() -> bool:
            if not self.down:
                self._deliver(index)
            return not until() and next(turns, None) is not None

        tail = Tail(source, self.journal, begin, Limits(1 << 30), alive)
        try:
            tail.run()
        finally:
            tail.close()
        assert until(), self.journal.status()
        return self.delivered[before:]

    def _deliver(self, index: JournalReader) -> None:
        assert self.position is not None
        index.refresh()
        if index.end <= self.position:
            return
        for block in index.between(self.position, index.end):
            chunk = index.read(block)
            schemas = {run.schema: self.journal.schema(run.schema) for run in chunk.tables}
            for batch in Postgres.decode(chunk, schemas):
                for row in batch.records.to_pylist():
                    if Position(row["commit"], row["ordinal"]) > self.position:
                        self.delivered.append(row["after"]["id"])
        self.position = index.end
        self.journal.set_consumer("sink", self.position)

    def gaps(self) -> list[str]:
        index = JournalReader(self.journal)
        index.refresh()
        return [block.header.gap for block in index.gaps()]

    @property
    def confirmed(self) -> int:
        rows = self.database.execute(
            "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s", self.database.name
        )
        return parse_lsn(rows[0][0])

    def caught_up(self) -> bool:
        return self.position is not None and self.confirmed >= flush_lsn(self.position)


def insert(database: Database, *ids: int) -> None:
    for n in ids:
        database.execute("insert into t values (%s)", n)
