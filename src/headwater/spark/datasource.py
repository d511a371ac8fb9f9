"""`format("headwater")`: typed rows of one table, or Debezium events of all tables, as stream or bounded read.

For people who write PySpark themselves. Thin: offsets are in `reader.py`, rows in `rows.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from headwater.errors import Usage
from headwater.event import ORIGIN, Position, TableSchema
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.settings import settle
from headwater.journal import Journal, JournalReader, Limits
from headwater.options import option, parse_options, split_options
from headwater.registry import source_class, source_for_url
from headwater.sources.base import Source
from headwater.spark.collector import freeze_modules
from headwater.spark.reader import JournalStreamReader, Offset, SlicePartition, from_offset
from headwater.spark.rows import event_schema, table_rows, table_schema
from headwater.spark.slices import Slice, idle_slice, plan_by_range
from headwater.tail.process import TailProcess, tail_state, wait_for_tail
from headwater.transforms.connect_form import take_connect
from headwater.transforms.reading import reader_chain, with_properties

KEEP_SECONDS = 1.0


@dataclass(frozen=True)
class ReaderOptions:
    """What `.option()` takes besides the source's own options and Debezium's."""

    table: str = option("", help="schema.table: typed rows of this table; without it, events of all tables")
    type: str = option("", help="kind of source; the URL's scheme says it too")
    name: str = option("reader", help="name of this reader: its slot, its consumer, its state folder")
    state: str = option(".headwater/{name}", help="folder with the journal")
    journal: str = option("", help="where the journal lies instead, e.g. s3://bucket/prefix")
    journal_max_bytes: int = option(20 << 30, help="cap of the journal")
    max_rows: int = option(
        0, help="rows in one micro-batch at most", aliases=["maxRowsPerTrigger", "maxrowspertrigger"]
    )
    max_bytes: int = option(
        64 << 20, help="raw bytes in one micro-batch", aliases=["maxBytesPerTrigger", "maxbytespertrigger"]
    )
    after: str = option("", help="bounded read: from behind this position (JSON, or commit:ordinal)")
    upto: str = option("", help="bounded read: up to and with this position; default: all there is")
    properties: str = option(
        "", help="more options, one key=value a line: for keys whose case matters, which Spark does not keep"
    )


class HeadwaterSource(DataSource):
    """Registered by itself: `pyspark_headwater` is a `pyspark_*` module."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options

    @classmethod
    def name(cls) -> str:
        return "headwater"

    def schema(self) -> StructType:
        reading = Reading(self.options)
        # Here and not in Reading, which every task makes anew.
        reading.settled.say("format('headwater')")
        return table_schema(reading.table_now()) if reading.options.table else event_schema()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return ChangeStreamReader(Reading(self.options), schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return ChangeReader(Reading(self.options), schema)


class Reading:
    """The options of one reader, understood. Does no I/O until asked."""

    def __init__(self, given: MutableMapping[str, str]) -> None:
        url = given.get("url", "")
        source = source_class(given["type"]) if given.get("type") else source_for_url(url) if url else None
        if source is None:
            raise Usage(
                "format('headwater'): say where to read", "option('url', 'postgresql://user@host:5432/database')"
            )
        where = "format('headwater')"
        sections, flat = take_connect(with_properties(given), where)
        self.settled = settled = settle(flat, source.options_class, DebeziumOptions, ReaderOptions)
        own, rest, debezium = split_options(
            settled.options, ReaderOptions, source.options_class, DebeziumOptions, where=where
        )
        name = str(own.get("name", "reader"))
        self.options = parse_options(ReaderOptions, own, where="format('headwater')", name=name)
        self.debezium = parse_options(DebeziumOptions, debezium, where="format('headwater')", name=name)
        self.transforms = reader_chain(sections, self.debezium, rows=bool(self.options.table))
        if self.options.table and not {"tables", "table.include.list"} & rest.keys():
            rest["tables"] = [self.options.table]
        self.source: Source = source(parse_options(source.options_class, rest, where="format('headwater')", name=name))
        self.folder = Path(self.options.state) / "journal"
        self.journal = Journal(self.options.journal or self.folder)

    def table_now(self) -> TableSchema:
        """The one table, as the catalog has it."""
        self.source.files = self.journal.source
        for table in self.source.candidates():
            if table.table == self.options.table:
                return self.transforms.table(table)
        raise Usage(
            f"there is no table {self.options.table!r} to capture", "Write it as schema.table, in its exact case"
        )

    def read(self, part: Slice, schema: StructType) -> Iterator[pa.RecordBatch]:
        """One slice as Spark rows."""
        if self.options.table:
            return table_rows(part, schema, self.transforms)
        from headwater.spark.event_rows import event_rows

        about = self.journal.about() or {}
        return event_rows(part, about["facts"], self.debezium, self.transforms)

    def plan(
        self, blocks: Sequence[object], after: Position, upto: Position, *, beat: bool = False
    ) -> list[SlicePartition]:
        # As many slices as there may be cores; Spark runs what it can.
        parts = plan_by_range(self.journal, blocks, after, upto, 8, self.options.table or None)  # type: ignore[arg-type]
        if beat:
            parts.append(idle_slice(self.journal, after, upto, beat=True))
        return [SlicePartition(part.to_json()) for part in parts]


class ChangeStreamReader(JournalStreamReader):
    """Owns a tail when nobody else does; confirms what Spark has committed."""

    def __init__(self, reading: Reading, schema: StructType) -> None:
        options = reading.options
        super().__init__(
            reading.journal, max_rows=options.max_rows, max_bytes=options.max_bytes, table=options.table or None
        )
        self.reading = reading
        self.row_schema = schema
        self._copies = reading.source.options.snapshot != "no_data"
        self._tail: TailProcess | None = None
        self._begin = ORIGIN
        self._last_keep = 0.0
        self._last_beat = 0.0

    def begin(self) -> Position:
        stored = self.journal.consumer_positions().get(self.reading.options.name) if self.journal.about() else None
        if stored is not None:
            return stored
        begin = self._open(None)
        # A snapshot comes before everything in the log.
        return ORIGIN if self._copies else begin

    def received(self) -> int:
        return int(tail_state(self.journal).get("received", 0))

    def keep(self) -> None:
        now = time.monotonic()
        if self._tail is not None and now - self._last_keep >= KEEP_SECONDS:
            self._last_keep = now
            self._tail.ensure()

    def latestOffset(self, start: Offset, limit: object) -> Offset:
        self._open(from_offset(start))
        return super().latestOffset(start, limit)  # type: ignore[arg-type]

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = self.reading.source.end()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        after, upto = from_offset(start), from_offset(end)
        if after >= upto:
            return []
        self._open(after)
        return self.reading.plan(self.blocks(start, end), after, upto, beat=self._beats())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self.reading.read(Slice.from_json(partition.value), self.row_schema)
        freeze_modules()

    def _beats(self) -> bool:
        """Whether it is time for a heartbeat (`heartbeat.interval.ms`). Only events have them, and only batches carry
        them: an idle log makes one when it has moved."""
        interval = self.reading.source.options.heartbeat_interval_ms / 1000
        now = time.monotonic()
        if not interval or self.reading.options.table or now - self._last_beat < interval:
            return False
        self._last_beat = now
        return True

    def commit(self, end: Offset) -> None:
        super().commit(end)
        self.journal.set_consumer(self.reading.options.name, from_offset(end))

    def stop(self) -> None:
        if self._tail is not None:
            self._tail.stop()

    def _open(self, durable: Position | None) -> Position:
        """See that slot, journal and tail are there; returns where the log begins."""
        if self._tail is not None:
            return self._begin
        source, options = self.reading.source, self.reading.options
        durable = None if durable == ORIGIN else durable
        self.journal.create(source.type, source.identity(), source.facts())
        source.files, source.scratch = self.journal.source, self.reading.folder / "source"
        self.index.refresh()
        begin = source.prepare(durable, self.index.reach(durable) if durable else None)
        source.close()
        copies = durable is None and self._copies
        if options.name not in self.journal.consumer_positions():
            # Without a snapshot whoever comes again before the first change was read goes on from here.
            self.journal.set_consumer(options.name, durable if durable or copies else begin)
        self._begin = begin
        self.journal.set_begin(begin)
        limits = Limits(options.journal_max_bytes)
        self._tail = TailProcess(
            self.journal, self.reading.folder, source.type, source.options, limits, copy_first=copies
        )
        self._tail.ensure()
        if self._tail.pid is not None:
            wait_for_tail(self.journal, self._tail)
        return begin


class ChangeReader(DataSourceReader):
    """A bounded read of what the journal holds between two positions. Needs no server."""

    def __init__(self, reading: Reading, schema: StructType) -> None:
        self.reading = reading
        self.row_schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        if self.reading.journal.about() is None:
            raise Usage(
                f"there is no journal in {self.reading.journal.place}", "Name the state folder: option('state', …)"
            )
        index = JournalReader(self.reading.journal)
        index.refresh()
        after = parse_position(self.reading.options.after) if self.reading.options.after else index.start
        upto = parse_position(self.reading.options.upto) if self.reading.options.upto else index.end
        if after < index.start:
            raise Usage(
                f"the journal begins at {index.start.commit}:{index.start.ordinal}, after the position asked for",
                "What every consumer holds is removed from the journal",
            )
        return self.reading.plan(index.between(after, upto), after, upto)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.reading.read(Slice.from_json(partition.value), self.row_schema)


def parse_position(text: str) -> Position:
    """`commit:ordinal`, `commit`, or the JSON that offsets are written in."""
    if text.lstrip().startswith("{"):
        return Position.from_json(text)
    commit, _, ordinal = text.partition(":")
    try:
        return Position(int(commit), int(ordinal or 0))
    except ValueError as error:
        raise Usage(
            f"{text!r} is not a position", "Write commit:ordinal as in the columns of a row, or JSON"
        ) from error
