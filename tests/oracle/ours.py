"""Headwater's side of the comparison: the only thing here that knows how our events are had.

Uses the product's own pieces as Spark's reader does: the source's logs, its decoder, the stream of events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headwater.event import Chunk
from headwater.formats.connector import Run
from headwater.formats.debezium_options import DebeziumOptions
from headwater.options import parse_options, split_options
from headwater.registry import source_for_url
from headwater.sources.base import Log, Source
from headwater.testing.debezium import DebeziumEvent
from headwater.transforms.connect_form import take_connect
from headwater.transforms.reading import reader_chain
from headwater.transforms.stream import EventStream

Ours = Callable[[str, Mapping[str, str]], list[DebeziumEvent]]
"""(database URL, Debezium properties) -> events, everything committed before the call.

Called twice per case: with `snapshot.mode=initial_only` for the rows as they are, and, after the statements
ran, with `snapshot.mode=no_data` for what the slot `slot.name` (it exists) has collected since."""

# Where our defaults differ on purpose, and how Debezium was asked for headers.
DEBEZIUM_DEFAULTS = {
    "publication.autocreate.mode": "disabled",
    "converter.schemas.enable": "true",
    "event.converting.failure.handling.mode": "warn",
    "header.converter": "json",
}
# What only steers Debezium's own machinery.
NOT_OURS = ("signal.enabled.channels", "snapshot.mode")


def capture(url: str, properties: Mapping[str, str]) -> list[DebeziumEvent]:
    """Events of the product itself."""
    source_class = source_for_url(url)
    given: dict[str, Any] = {"url": url, **DEBEZIUM_DEFAULTS}
    given |= {name: value for name, value in properties.items() if name not in NOT_OURS}
    sections, given = take_connect(given, "oracle")
    for_source, for_format = split_options(given, source_class.options_class, DebeziumOptions, where="oracle")
    source = source_class(parse_options(source_class.options_class, for_source, where="oracle", name="oracle"))
    options = parse_options(DebeziumOptions, for_format, where="oracle", name="oracle")
    connector = source.connector(source.facts())
    chain = reader_chain(sections, options, rows=False)
    stream = EventStream(options, connector, chain, Run(id="some-run", connector=connector.name))
    whole = properties["snapshot.mode"] == "initial_only"
    try:
        chunks = snapshot(source) if whole else changes(source)
        return [event for log, chunk in chunks for event in events_of(source, stream, log, chunk)]
    finally:
        source.close()


def snapshot(source: Source) -> Iterator[tuple[Log, Chunk]]:
    """All tables as they are."""
    log = source.copy_log()
    try:
        while (chunk := log.read(1.0)) is not None:
            yield log, chunk
    finally:
        log.close()


def changes(source: Source) -> Iterator[tuple[Log, Chunk]]:
    """Everything up to where the log ends now."""
    end = source.end()
    log = source.listen(temporary=False)
    try:
        while log.lag()["received"] < end:
            if (chunk := log.read(1.0)) is not None:
                yield log, chunk
    finally:
        log.close()


def events_of(source: Source, stream: EventStream, log: Log, chunk: Chunk) -> Iterator[DebeziumEvent]:
    """Records in log order."""
    schemas = {run.schema: log.schema(run.schema) for run in chunk.tables}
    for record in stream.events(source.decode_events(chunk, schemas), time.time_ns()).to_pylist():
        headers = tuple((header["key"], header["value"]) for header in record["headers"] or ())
        yield DebeziumEvent(record["topic"], record["key"], record["value"], headers)
