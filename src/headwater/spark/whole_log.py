"""A slice for a sink that takes the log as a whole: every block decoded, table by table and in the order of the log."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from headwater.event import ChangeBatch, TableSchema
from headwater.sinks.base import Sink
from headwater.spark.slices import Slice, decode_slice
from headwater.spark.stopped import StoppedTables


class WholeLog:
    """Every block that a slice touches, decoded whole; stops at a table that has to be loaded first."""

    def __init__(
        self, part: Slice, sink: Sink, stopped: StoppedTables, *, load_first: bool, loaded: Collection[str] = ()
    ) -> None:
        self._part = part
        self._sink = sink
        self._stopped = stopped
        self._load_first = load_first
        # Tables that are taken as they come: there was an attempt to load them.
        self._loaded = loaded
        # Commit time of the oldest change, microseconds since the epoch: latency is told by it.
        self.oldest = 0

    def __iter__(self) -> Iterator[list[ChangeBatch]]:
        for decoded in decode_slice(self._part, events=True, refuse=self._sink.refuse):
            batches = self._stopped.left_out(decoded)
            for batch in filter(len, batches):
                known = batch.table.message or not self._load_first or batch.table.table in self._loaded
                if not known and self._sink.table_position(batch.table) is None:
                    raise Unloaded(batch.table)
                first = batch.records.column("commit_time")[0].value or 0
                self.oldest = min(self.oldest or first, first)
            yield batches


class Unloaded(Exception):
    """The sink has never seen this table."""

    def __init__(self, table: TableSchema) -> None:
        super().__init__(table.table)
        self.table = table
