"""What every way of driving a sink has in common: how far it is, which tables have stopped, what ends a batch."""

from __future__ import annotations

from collections.abc import Callable

from headwater.errors import Drift, HeadwaterError
from headwater.event import ORIGIN, Position, TableSchema
from headwater.failpoints import failpoint
from headwater.journal import Journal
from headwater.sinks.base import Sink
from headwater.spark.slices import Slice
from headwater.spark.stopped import StoppedTables
from headwater.spark.whole_log import Unloaded, WholeLog

OnBatch = Callable[[dict[str, int], int], None]
LoadTables = Callable[[list[TableSchema]], None]


class Delivery:
    """One sink and its place in the journal. `load` copies tables that the sink has never seen."""

    def __init__(
        self,
        name: str,
        sink: Sink,
        journal: Journal,
        *,
        load: LoadTables | None,
        on_batch: OnBatch,
        say: Callable[[str], None],
    ) -> None:
        self.name = name
        self.sink = sink
        self.journal = journal
        # How far every table is that has not stopped.
        self.position = ORIGIN
        self.stopped = StoppedTables()
        # What the sink said when it was last tried in vain; empty when it goes well.
        self.trouble = ""
        # Attempts at a batch that failed.
        self.failures = 0
        self._load = load
        self._on_batch = on_batch
        self._say = say

    def write_log(self, part: Slice) -> None:
        """A sink that takes the log as a whole, on the driver: decoded by threads, written as it comes."""
        log = WholeLog(part, self.sink, self.stopped, load_first=self._load is not None)
        try:
            written = self.sink.write_log(log, part.upto, self.stopped.at)
        except Unloaded as found:
            if self._load is None:
                raise
            self._load([found.table])
            self.write_log(part)
            return
        except Drift as error:
            if not error.table or error.table in self.stopped.at:
                raise
            self.stop_table(error.table, error)
            self.write_log(part)
            return
        self.finish({done.table: done.changes for done in written}, log.oldest, part.upto)

    def stop_table(self, table: str, error: HeadwaterError) -> None:
        """This batch is the first that the table does not get."""
        assert isinstance(error, Drift)  # noqa: S101
        self.stopped.stop(table, self.position, error)
        self._say(f"{self.name}: {table} stops here, the other tables go on: {error}")

    def finish(self, changed: dict[str, int], oldest: int, upto: Position) -> None:
        """The batch is in the sink. First the sink's own position, then ours, which the tail may confirm."""
        durable = self.stopped.durable(upto)
        failpoint("sink.before_advance")
        if not self.sink.takes_log():
            self.sink.advance(durable)
        failpoint("sink.after_advance")
        self.position, self.trouble = upto, ""
        self.journal.set_consumer(self.name, durable)
        failpoint("consumer.after_set")
        self._on_batch(changed, oldest)
