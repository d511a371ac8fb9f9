"""Headwater's side of the comparison: the only thing here that knows how our events are had.

Uses the product's own pieces as Spark's reader does: the source's logs, its decoder, the stream of events.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from headwater.event import Chunk
from headwater.formats.connector import Run
from headwater.formats.debezium_options import DebeziumOptions
from headwater.options import parse_options, split_options
from headwater.registry import source_for_url
from headwater.sources.base import Log
from headwater.testing.debezium import DebeziumEvent
from headwater.transforms.connect_form import take_connect
from headwater.transforms.reading import reader_chain
from headwater.transforms.stream import EventStream

# Where our defaults differ on purpose, and how Debezium was asked for headers.
DEBEZIUM_DEFAULTS = {
    "converter.schemas.enable": "true",
    "event.converting.failure.handling.mode": "warn",
    "header.converter": "json",
}
# What only steers Debezium's own machinery.
NOT_OURS = ("signal.enabled.channels", "snapshot.mode", "include.schema.changes")


class Headwater:
    """The product under Debezium's properties. What its source needs on the server must exist before `start`."""

    def __init__(self, url: str, properties: Mapping[str, str]) -> None:
        source_class = source_for_url(url)
        given: dict[str, Any] = {"url": url, **DEBEZIUM_DEFAULTS}
        given |= {name: value for name, value in properties.items() if name not in NOT_OURS}
        sections, given = take_connect(given, "oracle")
        for_source, for_format = split_options(given, source_class.options_class, DebeziumOptions, where="oracle")
        self._source = source_class(
            parse_options(source_class.options_class, for_source, where="oracle", name="oracle")
        )
        options = parse_options(DebeziumOptions, for_format, where="oracle", name="oracle")
        connector = self._source.connector(self._source.facts())
        chain = reader_chain(sections, options, rows=False)
        self._stream = EventStream(options, connector, chain, Run(id="some-run", connector=connector.name))
        self._log: Log | None = None
        self._streamed: list[DebeziumEvent] = []

    def snapshot(self) -> list[DebeziumEvent]:
        """All tables as they are."""
        log = self._source.copy_log()
        events: list[DebeziumEvent] = []
        try:
            while (chunk := log.read(1.0)) is not None:
                events += self._events(log, chunk)
        finally:
            log.close()
        return events

    def start(self) -> None:
        """Open the log."""
        self._log = self._source.listen(temporary=False)

    def read(self) -> None:
        """Read up to where the log ends now."""
        assert self._log is not None
        end = self._source.end()
        while self._log.lag()["received"] < end:
            if (chunk := self._log.read(1.0)) is not None:
                self._streamed += self._events(self._log, chunk)

    def streamed(self) -> list[DebeziumEvent]:
        """Everything since `start`."""
        self.read()
        return self._streamed

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
        self._source.close()

    def _events(self, log: Log, chunk: Chunk) -> Iterator[DebeziumEvent]:
        schemas = {run.schema: log.schema(run.schema) for run in chunk.tables}
        for record in self._stream.events(self._source.decode_events(chunk, schemas), time.time_ns()).to_pylist():
            headers = tuple((header["key"], header["value"]) for header in record["headers"] or ())
            yield DebeziumEvent(record["topic"], record["key"], record["value"], headers)
