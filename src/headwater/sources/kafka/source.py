"""Topics with Debezium's events as a Source: ties cluster, log, tables and decoding together."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.errors import Usage
from headwater.event import ChangeBatch, Chunk, Position, TableSchema
from headwater.sources.base import CopyChunk, Finding, Kept, Log, Snapshot, Source, SourceOptions
from headwater.sources.capture import Patterns, capture_filter
from headwater.sources.kafka.connection import Topics
from headwater.sources.kafka.options import KafkaOptions
from headwater.sources.kafka.position import Progress, at, parse_progress

if TYPE_CHECKING:
    from headwater.formats.connector import Connector
    from headwater.sources.kafka.shapes import Shapes


class Kafka(Source):
    """Debezium's topics: JSON with or without schemas, or Avro with a schema registry."""

    type: ClassVar[str] = "kafka"
    options_class: ClassVar[builtins.type[SourceOptions]] = KafkaOptions
    schemes: ClassVar[tuple[str, ...]] = ("kafka",)

    def __init__(self, options: KafkaOptions) -> None:
        self.options = options
        everything = Patterns((), ())
        self._captured = capture_filter(options.tables, options.exclude, everything, everything)
        # Where sinks are: it may hold topics that are not read any more, and that count all the same.
        self._held = Progress()

    def __reduce__(self) -> tuple[Any, ...]:
        """Executors get the options only: connections stay where they were opened."""
        return (Kafka, (self.options,))

    @cached_property
    def topics(self) -> Topics:
        return Topics(self.options)

    def identity(self) -> str:
        return f"kafka:{self.topics.id}"

    def facts(self) -> Mapping[str, str]:
        return {"cluster": self.topics.id}

    @staticmethod
    def connector(facts: Mapping[str, str]) -> Connector:
        from headwater.sources.kafka.debezium import KafkaConnector

        return KafkaConnector(facts["cluster"])

    def check(self) -> list[Finding]:
        from headwater.sources.kafka.check import check

        return check(self.options, self.tables)

    def prepare(self, durable: Position | None, journaled: Position | None = None) -> Position:
        if durable is None:
            return at(self.topics.beginning())
        # What the journal has need not be in the topics any more.
        wanted = max(durable, journaled) if journaled is not None else durable
        self._held = parse_progress(wanted.resume)
        self.topics.refuse_unreachable(self._held)
        return durable

    def tables(self) -> list[TableSchema]:
        from headwater.sources.kafka.sample import sampled_tables

        return sampled_tables(self.topics, self._shapes())

    def candidates(self) -> list[TableSchema]:
        return self.tables()

    @contextmanager
    def snapshot(self, tables: Sequence[TableSchema], tasks: int) -> Iterator[Snapshot]:
        raise no_snapshot()
        yield

    def copy(self, chunk: CopyChunk, snapshot: Snapshot, *, events: bool = False) -> Iterator[ChangeBatch]:
        raise no_snapshot()

    def copy_log(self) -> Log:
        raise no_snapshot()

    def log(self, after: Position) -> Log:
        from headwater.sources.kafka.known import KnownTables
        from headwater.sources.kafka.log import KafkaLog

        self.topics.refuse_unreachable(parse_progress(after.resume))
        known = KnownTables(self.files)
        return KafkaLog(self.topics, after, self._shapes(known), known)

    def listen(self, *, temporary: bool) -> Log:
        return self.log(at(self.topics.end()))

    @staticmethod
    def decode(chunk: Chunk, schemas: Mapping[str, TableSchema], tables: set[str] | None = None) -> list[ChangeBatch]:
        from headwater.sources.kafka.decode import decode

        return decode(chunk, schemas, tables)

    @classmethod
    def decode_events(
        cls, chunk: Chunk, schemas: Mapping[str, TableSchema], tables: set[str] | None = None
    ) -> list[ChangeBatch]:
        from headwater.sources.kafka.decode import decode

        return decode(chunk, schemas, tables, events=True)

    @classmethod
    def decode_rows(
        cls, chunk: Chunk, schemas: Mapping[str, TableSchema], run: int, rows: range, *, as_text: bool
    ) -> ChangeBatch | None:
        from headwater.sources.kafka.decode import decode_rows

        return decode_rows(chunk, schemas, run, rows, as_text=as_text)

    @staticmethod
    def positions(chunk: Chunk, tables: set[str] | None = None) -> list[Position]:
        from headwater.sources.kafka.decode import positions

        return positions(chunk, tables)

    @staticmethod
    def warm_up() -> None:
        # Importing compiles the kernels, or loads them from Numba's cache.
        from headwater.sources.kafka import decode  # noqa: F401

    def end(self) -> int:
        chosen = self.topics.chosen()
        left = self._held.without(chosen)
        return Progress({**self.topics.ends(chosen), **left.offsets}).coordinate

    def kept(self) -> Kept | None:
        from headwater.sources.kafka.check import kept

        return kept(self.topics)

    # ----------------------------------------------------------------------------------------------

    def _shapes(self, known: Any = None) -> Shapes:
        from headwater.sources.kafka.known import KnownTables
        from headwater.sources.kafka.shapes import Shapes

        return Shapes(self.options, known or KnownTables(self.files), self._captured)


def no_snapshot() -> Usage:
    """There is nothing behind the topics that could be copied."""
    return Usage(
        "a source of type kafka has no tables to copy: its topics are all there is",
        "To read everything that they hold again: remove the state folder and the tables in the lake, and run again",
    )
