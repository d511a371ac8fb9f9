"""Our events for the recorded cases, from a real server through the real decoder, against Debezium's recordings.

Needs PostgreSQL but no Java. What differs on purpose is listed here, each with its reason, and for users in
docs/debezium-compatibility.md.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from headwater.event import ChangeBatch, Position, TableSchema
from headwater.formats.connector import Moment, Run
from headwater.formats.debezium_json import DebeziumJson
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.record import Encoded
from headwater.options import Secret, declared, parse_options
from headwater.sources.postgres.options import PostgresOptions
from headwater.sources.postgres.source import Postgres
from headwater.testing.debezium import DebeziumEvent
from headwater.testing.postgres import PostgresServer

from .cases import CASES, Case
from .compare import RECORDED, differences
from .drive import BASE, prepared, run_blocks
from .recording import golden_file, load

pytestmark = pytest.mark.server

# Messages and transaction records come from elsewhere; column options and partitions are the pipeline's.
TOPICS_ELSEWHERE = (".message", ".transaction")
SQL = {"types", "infinities", "operations", "defaults", "snapshot"}
SHORT = {"types.defaults", "operations.defaults"}
ON_PURPOSE = {
    r"payload\.source\.txId: \d+ ≠ null": "our snapshot rows name no transaction",
    r"after\.c_name: null ≠": "Debezium loses a streamed value of type name",
    r"after\.a_time\[0\]:": "Debezium cuts time[] to milliseconds in snapshots",
    r"after\.c_interval: -9223372036854775808 ≠ null": "Debezium writes the smallest number for a longer interval",
    r"after\.c_(line|lseg|path|circle|box|polygon):": "Debezium's snapshot has its driver's spelling of numbers",
    r"after\.b: null ≠ \"Z29uZQ==\"": "Debezium writes null for unchanged TOAST under base64",
    r"\(5\)::text": "Debezium takes the expression for the default's value",
}
KNOWN = {name for option in declared(DebeziumOptions) for name in (option.name, *option.aliases)}


def parameters() -> Iterator[object]:
    for case in CASES:
        if case.sql in SQL:
            yield pytest.param(case, id=case.name, marks=[] if case.name in SHORT else [pytest.mark.slow])


@pytest.mark.parametrize("case", list(parameters()))
def test_events_equal_the_recording(postgres: PostgresServer, case: Case) -> None:
    recorded = [event for event in load(golden_file(case)).events if not event.topic.endswith(TOPICS_ELSEWHERE)]
    lines = differences(recorded, ours(postgres, case), RECORDED)
    assert [line for line in lines if not any(re.search(known, line) for known in ON_PURPOSE)] == []


def ours(server: PostgresServer, case: Case) -> list[DebeziumEvent]:
    database = f"ours.{case.name}"
    # A NaN in numeric(10,2) is no decimal: the column keeps its text.
    cast = {"public.not_numbers_constrained.c_numeric_10_2": "string"}
    with prepared(server, case, database):
        options = PostgresOptions(
            url=Secret(server.url(database)), slot="ours", publication=BASE["publication.name"], cast=cast
        )
        source = Postgres(options)
        encoder = DebeziumJson(format_options(case.properties), source.connector(source.facts()), RUN)
        encoder.connector = dataclasses.replace(encoder.connector, database=case.name)  # type: ignore[type-var]
        start = source.prepare(None)
        try:
            events = list(snapshot(source, encoder))
            source.close()
            run_blocks(server, database, case.script.stream)
            events += stream(source, encoder, start, source.end())
        finally:
            source.close()
    return events


RUN = Run(id="a run", connector="postgresql")


def format_options(properties: Mapping[str, str]) -> DebeziumOptions:
    """Debezium's own defaults, where ours differ; headers as its engine writes them."""
    theirs = {
        "converter.schemas.enable": "true",
        "event.converting.failure.handling.mode": "warn",
        "header.converter": "json",
    }
    given = {name: value for name, value in {**theirs, **BASE, **properties}.items() if name in KNOWN}
    return parse_options(DebeziumOptions, given, where="oracle")


def snapshot(source: Postgres, encoder: DebeziumJson) -> Iterator[DebeziumEvent]:
    with source.snapshot(source.tables(), 1) as taken:
        batches = [(i, batch) for i, chunk in enumerate(taken.chunks) for batch in source.copy(chunk, taken)]
    batches = [(i, batch) for i, batch in batches if len(batch)]
    for i, batch in batches:
        first = "first" if i == 0 else "first_in_data_collection"
        last = "last" if batch is batches[-1][1] else "last_in_data_collection"
        # Of one row the later marker wins, but for the very first.
        first = first if len(batch) > 1 or (i == 0 and last != "last") else last
        yield from (event for _, event in records(encoder.encode(batch, Moment(1, first=first, last=last))))


def stream(source: Postgres, encoder: DebeziumJson, start: Position, end: int) -> list[DebeziumEvent]:
    """Everything up to `end`, in the order of the log."""
    found: list[tuple[int, int, int, DebeziumEvent]] = []
    log = source.log(start)
    try:
        while True:
            chunk = log.read(1.0)
            if chunk is not None:
                schemas = {run.schema: with_unique_key(log.schema(run.schema)) for run in chunk.tables}
                for batch in source.decode(chunk, schemas):
                    found += places(batch, encoder.encode(batch, Moment(1)))
            elif log.lag()["received"] >= end:
                break
    finally:
        log.close()
    return [event for *_, event in sorted(found, key=lambda entry: entry[:3])]


def with_unique_key(table: TableSchema) -> TableSchema:
    """What the catalog will say of a table without a primary key but with a unique index."""
    if table.name != "unique_only":
        return table
    return dataclasses.replace(table, detail={**table.detail, "unique_key": ["b"]})


def places(batch: ChangeBatch, encoded: Encoded) -> Iterator[tuple[int, int, int, DebeziumEvent]]:
    commits, ordinals = (batch.records.column(name).to_pylist() for name in ("commit", "ordinal"))
    for number, (change, event) in enumerate(records(encoded)):
        yield commits[change], ordinals[change], number, event


def records(encoded: Encoded) -> Iterator[tuple[int, DebeziumEvent]]:
    for record in encoded:
        row: dict[str, Any] = record
        headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
        yield row["change"], DebeziumEvent(row["topic"], row["key"], row["value"], headers)
