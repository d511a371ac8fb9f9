"""Our transforms and column options against recordings of real Debezium, from a real server's log.

What differs on purpose is listed here with its reason, and for users in docs/transforms.md.
"""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.transform_cases import CASES
from tests.lake import lake_rows
from tests.oracle.cases import CASES as ORACLE_CASES
from tests.oracle.cases import Case
from tests.oracle.compare import RECORDED, Allowed, differences
from tests.oracle.drive import BASE, prepared, run_blocks
from tests.oracle.ours import DEBEZIUM_DEFAULTS, events_of, snapshot_events
from tests.oracle.recording import golden_file, load, split_schema

from headwater.formats.connector import Moment, Run
from headwater.formats.debezium_options import DebeziumOptions
from headwater.options import parse_options, split_options
from headwater.sources.postgres.options import PostgresOptions
from headwater.sources.postgres.source import Postgres
from headwater.testing import wait_until
from headwater.testing.debezium import DebeziumEvent
from headwater.testing.pipeline import PipelineProcess
from headwater.testing.postgres import PostgresServer
from headwater.transforms.chain import build_chain
from headwater.transforms.connect_form import take_connect
from headwater.transforms.encoder import encoder

pytestmark = pytest.mark.server

COLUMN_CASES = tuple(case for case in ORACLE_CASES if case.sql == "columns")
SHORT = {
    "outbox.placed",
    "outbox.expanded",
    "flatten.rewritten_kept",
    "shards.named",
    "columns.masked",
    "columns.keyed",
}
ALLOWED = (
    *RECORDED,
    Allowed("value.payload.__lsn", "another server's log"),
    Allowed("value.payload.__source_ts_ms", "when the row changed there"),
    Allowed("value.payload.__made", "when the event was made"),
    Allowed("value.payload.source.snapshot", "which row of a snapshot is first and last is the caller's to say"),
    Allowed("header.__db", "the database has our name"),
    Allowed("value.payload.source.db", "the database has our name"),
)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[] if case.name in SHORT else [pytest.mark.slow])
        for case in (*CASES, *COLUMN_CASES)
    ],
)
def test_transformed_events_equal_the_recording(postgres: PostgresServer, case: Case) -> None:
    recorded = [better(event) for event in load(golden_file(case)).events]
    lines = differences([comparable(event) for event in recorded], ours(postgres, case), ALLOWED)
    assert [line for line in lines if "source.txId" not in line or not line.endswith("≠ null")] == []


def comparable(event: DebeziumEvent) -> DebeziumEvent:
    """The comparison knows payloads that are objects; a flat event's may be null, a message's a text."""
    if event.value is None:
        return event
    schema, payload = split_schema(event.value)
    if payload.startswith("{"):
        return event
    return dataclasses.replace(event, value=f'{{"schema":{schema},"payload":{{"is":{payload}}}}}')


def better(event: DebeziumEvent) -> DebeziumEvent:
    """Debezium's event as it ought to be."""
    event = dataclasses.replace(event, headers=own_headers(event))
    if event.topic != "srv.public.people" or event.value is None:
        return event
    # A column that is to be hashed and to name its source type was sent in clear text.
    clear = {"ada@example.org": HASHED_ADA, "bob@example.org": HASHED_BOB, "rob@example.org": HASHED_ROB}
    if (
        '"masked":"true"},"field":"name"},{"type":"string","optional":true,"parameters":{"truncateLength'
        not in event.value
    ):
        return event
    value = event.value
    for text, digest in clear.items():
        value = value.replace(f'"email":"{text}"', f'"email":"{digest}"')
    named = ("type", "VARCHAR"), ("length", "30"), ("scale", "0"), ("name", "email")
    parameters = ",".join(f'"__debezium.source.column.{name}":"{word}"' for name, word in named)
    return dataclasses.replace(event, value=value.replace(f"{{{parameters}}}", '{"masked":"true"}'))


# The first 30 digits, because the column is varchar(30): sha256 of the salt CzQMA0cB5K and the address.
HASHED_ADA = "a1fc710d5d7a405c2e95e72e26241e"
HASHED_BOB = "68ab8eaaee2f07e0b9e8708bc92ca0"
HASHED_ROB = "162ffb0204b7e23e2523ee5958ab81"


def own_headers(event: DebeziumEvent) -> tuple[tuple[str, str], ...]:
    """A tombstone shares its header object with the delete before it, and got that one's headers too."""
    if event.value is not None:
        return event.headers
    names = [name for name, _ in event.headers]
    shared = {"h.op", "h.from"} if names.count("h.op") == 2 else set()
    kept = [pair for pair in event.headers if pair[0] not in shared]
    return (*kept, *event.headers[-1:]) if shared else event.headers


def ours(server: PostgresServer, case: Case) -> list[DebeziumEvent]:
    """The product's events for a case."""
    database = f"ours.{case.name}"
    with prepared(server, case, database):
        given: dict[str, Any] = {"url": server.url(database), **DEBEZIUM_DEFAULTS, **BASE, **case.properties}
        del given["signal.enabled.channels"]
        sections, given = take_connect(given, "test")
        for_source, for_format = split_options(given, PostgresOptions, DebeziumOptions, where="test")
        source = Postgres(parse_options(PostgresOptions, for_source, where="test", name="ours"))
        form: Any = encoder(
            parse_options(DebeziumOptions, for_format, where="test"),
            source.connector(source.facts()),
            build_chain(sections).events,
            Run(id="some-run", connector="postgresql"),
        )
        server.execute("select pg_create_logical_replication_slot('debezium', 'pgoutput')", database=database)
        try:
            events = list(snapshot_events(source, form))
            run_blocks(
                server,
                database,
                [*case.script.stream, "create table the_end (id int)", "insert into the_end values (1)"],
            )
            events += streamed(source, form)
        finally:
            source.close()
    return [comparable(event) for event in events]


def streamed(source: Postgres, form: Any) -> Iterator[DebeziumEvent]:
    """Everything before the row that was inserted last."""
    log = source.listen(temporary=False)
    try:
        ended = False
        while not ended:
            chunk = log.read(1.0)
            if chunk is None:
                continue
            batches = source.decode(chunk, {run.schema: log.schema(run.schema) for run in chunk.tables})
            ended = any(batch.table.name == "the_end" for batch in batches)
            yield from events_of([batch for batch in batches if batch.table.name != "the_end"], form, Moment(1))
    finally:
        log.close()


def test_tail_prints_transformed_events(database: Any) -> None:
    database.execute(
        "create table public.outbox (id int primary key, aggregatetype text, aggregateid text, payload text)"
    )
    options = {
        "transforms": "outbox",
        "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
        "transforms.outbox.table.expand.json.payload": "true",
        "skipped.operations": "t,d",
        "max.batch.size": "100",
    }
    given = [part for key, value in options.items() for part in ("--option", f"{key}={value}")]
    command = [sys.executable, "-m", "headwater.cli", "tail", database.url, "--limit", "2", *given]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = []
        while not said or not said[-1].startswith("listening"):
            said.append(process.stderr.readline())
            assert process.poll() is None, said
        database.execute(
            """insert into public.outbox values (1, 'order', '7', '{"id": 7}'), (2, 'order', '8', 'text')"""
        )
        out, _ = process.communicate(timeout=60)
    assert out.splitlines() == ['{"id":7}', '"text"']
    assert any("max.batch.size has no effect" in line for line in said)


@pytest.mark.spark
def test_a_pipeline_filters_masks_and_renames_what_it_loads_and_what_it_streams(database: Any, tmp_path: Path) -> None:
    database.execute("create table public.people (id int primary key, name text, email text, secret text, age int)")
    database.execute("insert into public.people values (1, 'Ada', 'ada@x', 's', 36), (2, 'Kid', 'kid@x', 's', 7)")
    definition = {
        "source": {
            "type": "postgres",
            "url": database.url,
            "slot": database.slot,
            "column.exclude.list": "public.people.secret",
        },
        "transforms": [
            {"type": "filter", "condition": "op = 'd' or after.age >= 18", "tables": ["public.people"]},
            {"type": "mask", "columns": ["email"], "method": "hash", "salt": "pepper"},
            {"type": "route", "regex": r"public\.(.*)", "replacement": "raw.$1"},
        ],
    }
    pipeline = PipelineProcess(tmp_path, definition)
    try:
        pipeline.start()
        pipeline.wait_streaming()
        database.execute("insert into public.people values (3, 'Eve', 'eve@x', 's', 40), (4, 'Tot', 'tot@x', 's', 2)")
        database.execute("update public.people set name = 'Augusta' where id = 1")
        wait_until(lambda: "Augusta" in [row["name"] for row in lake_rows(pipeline.lake, "raw.people")], 60, "Augusta")
        database.execute("delete from public.people where id = 3")
        wait_until(lambda: len(lake_rows(pipeline.lake, "raw.people")) == 1, 60, "the delete")
        assert pipeline.stop() == 0, pipeline.output()[-3000:]
    finally:
        pipeline.close()
    (row,) = lake_rows(pipeline.lake, "raw.people")
    digest = hashlib.sha256(b"pepperada@x").hexdigest()
    shown = {key: value for key, value in row.items() if not key.startswith("_headwater_")}
    assert shown == {"id": 1, "name": "Augusta", "email": digest, "age": 36}
