"""Headwater's side of the comparison: the only thing here that knows how our events are had.

Uses the product's own pieces as `headwater tail` does: the source's log, its decoder, the Debezium format.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headwater.event import ChangeBatch
from headwater.formats.connector import Moment, Run
from headwater.formats.debezium_json import DebeziumJson
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.log_order import in_log_order
from headwater.options import parse_options, split_options
from headwater.registry import source_for_url
from headwater.sources.base import Source
from headwater.testing.debezium import DebeziumEvent

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
    for_source, for_format = split_options(given, source_class.options_class, DebeziumOptions, where="oracle")
    source = source_class(parse_options(source_class.options_class, for_source, where="oracle", name="oracle"))
    options = parse_options(DebeziumOptions, for_format, where="oracle", name="oracle")
    connector = source.connector(source.facts())
    form = DebeziumJson(options, connector, Run(id="some-run", connector=connector.name))
    whole = properties["snapshot.mode"] == "initial_only"
    try:
        return list(snapshot_events(source, form) if whole else stream_events(source, form))
    finally:
        source.close()


def snapshot_events(source: Source, form: DebeziumJson) -> Iterator[DebeziumEvent]:
    """Table after table in the order of their names, as Debezium copies them."""
    tables = sorted(source.tables(), key=lambda table: table.table)
    with source.snapshot(tables, 1) as snapshot:
        batches = {
            table.table: [
                batch
                for chunk in snapshot.chunks
                if chunk.table.table == table.table
                for batch in source.copy(chunk, snapshot)
                if len(batch)
            ]
            for table in tables
        }
    filled = [name for name, found in batches.items() if found]
    for name in filled:
        first = "first" if name == tables[0].table else "first_in_data_collection"
        last = "last" if name == filled[-1] else "last_in_data_collection"
        for number, batch in enumerate(batches[name]):
            moment = Moment(
                time.time_ns(),
                first=first if number == 0 else "true",
                last=last if number == len(batches[name]) - 1 else "true",
            )
            yield from events_of([batch], form, moment)


def stream_events(source: Source, form: DebeziumJson) -> Iterator[DebeziumEvent]:
    """Everything up to where the log ends now."""
    end = source.end()
    log = source.listen(temporary=False)
    try:
        while True:
            chunk = log.read(1.0)
            if chunk is None:
                continue
            schemas = {run.schema: log.schema(run.schema) for run in chunk.tables}
            yield from events_of(source.decode(chunk, schemas), form, Moment(time.time_ns()))
            if chunk.last.commit >= end:
                return
    finally:
        log.close()


def events_of(batches: list[ChangeBatch], form: DebeziumJson, moment: Moment) -> Iterator[DebeziumEvent]:
    """Records in log order."""
    for record in in_log_order([(batch, form.encode(batch, moment)) for batch in batches]).to_pylist():
        headers = tuple((header["key"], header["value"]) for header in record["headers"] or ())
        yield DebeziumEvent(record["topic"], record["key"], record["value"], headers)
