"""One case against one database: set up, start Debezium, run the statements, collect its events."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from headwater.testing import wait_until
from headwater.testing.debezium import Debezium, DebeziumEvent
from headwater.testing.postgres import PostgresServer

from .cases import Case
from .ours import Headwater

# Emitted after the last statement, outside of any transaction: everything before it has been delivered
# once it arrives, and it leaves no trace in tables or transaction counters.
END = "oracle_end"

BASE = {
    "topic.prefix": "srv",
    "slot.name": "debezium",
    "publication.name": "oracle",
    "signal.enabled.channels": "in-process",
}


def record_debezium(server: PostgresServer, case: Case, database: str, directory: Path) -> list[DebeziumEvent]:
    """Real Debezium's events for a case, in a new database of the server."""
    with (
        prepared(server, case, database),
        Debezium(server.url(database), {**BASE, **case.properties}, directory) as debezium,
    ):
        wait_until_streaming(server, database, debezium)
        return stream(server, case, database, debezium)


def record_headwater(server: PostgresServer, case: Case, database: str) -> list[DebeziumEvent]:
    """Headwater's events for a case, in a new database of the server."""
    with prepared(server, case, database), headwater(server, case, database) as ours:
        events = ours.snapshot()
        start_headwater(server, database, ours)
        run_blocks(server, database, case.script.stream)
        return events + ours.streamed()


def both(
    server: PostgresServer, case: Case, database: str, directory: Path
) -> tuple[list[DebeziumEvent], list[DebeziumEvent]]:
    """(Debezium's, Headwater's) events of a case: one publication, the same transactions, a slot for each."""
    with prepared(server, case, database), headwater(server, case, database) as ours:
        with Debezium(server.url(database), {**BASE, **case.properties}, directory) as debezium:
            wait_until_streaming(server, database, debezium)
            our_events = ours.snapshot()
            start_headwater(server, database, ours)
            their_events = stream(server, case, database, debezium, ours)
        our_events += ours.streamed()
    return their_events, [event for event in our_events if not is_end(event)]


@contextlib.contextmanager
def headwater(server: PostgresServer, case: Case, database: str) -> Iterator[Headwater]:
    ours = Headwater(server.url(database), {**BASE, **case.properties, "slot.name": "headwater"})
    try:
        yield ours
    finally:
        ours.close()


def start_headwater(server: PostgresServer, database: str, ours: Headwater) -> None:
    server.execute("select pg_create_logical_replication_slot('headwater', 'pgoutput')", database=database)
    ours.start()


def stream(
    server: PostgresServer, case: Case, database: str, debezium: Debezium, ours: Headwater | None = None
) -> list[DebeziumEvent]:
    """Run the case's statements and wait until Debezium has delivered them all, and `ours` has met every table."""
    blocks = case.script.stream
    parts = [[block] for block in blocks] if case.paced else [blocks]
    for number, part in enumerate(parts, 1):
        run_blocks(server, database, part)
        emit_end(server, database)
        debezium.wait_condition(partial(has_ends, debezium, number), 60, "the statements' events")
        if ours is not None:
            ours.read()
    return [event for event in debezium.events() if not is_end(event)]


@contextlib.contextmanager
def prepared(server: PostgresServer, case: Case, database: str) -> Iterator[None]:
    """A database with the tables as the snapshot will see them, and the one publication that both sides read.

    Dropped with its slots at the end: the next case wants the same slot names."""
    server.create_database(database)
    run_blocks(server, database, case.script.before)
    via_root = case.properties.get("publish.via.partition.root", "false")
    server.execute(
        f"create publication {BASE['publication.name']} for all tables with (publish_via_partition_root = {via_root})",
        database=database,
    )
    try:
        yield
    finally:
        drop_slots(server, database)
        server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(database)))


def drop_slots(server: PostgresServer, database: str) -> None:
    """A walsender may need a moment to notice that its client has left."""
    held = "select from pg_replication_slots where database = %s and active"
    wait_until(lambda: not server.execute(held, database), 10, "the slots' readers let go")
    query = "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = %s"
    server.execute(query, database, database=database)


def run_blocks(server: PostgresServer, database: str, blocks: Iterable[str]) -> None:
    """Every block as one transaction; one that starts with COPY carries its data below."""
    with server.connect(database) as connection:
        for block in blocks:
            statement, _, data = block.strip().partition("\n")
            if statement.startswith("copy "):
                with connection.cursor().copy(statement) as copy:
                    copy.write(data + "\n")
            else:
                _execute(connection, block)


def emit_end(server: PostgresServer, database: str) -> None:
    server.execute("select pg_logical_emit_message(false, %s, '')", END, database=database)


def is_end(event: DebeziumEvent) -> bool:
    if not event.topic.endswith(".message") or event.key is None:
        return False
    key = json.loads(event.key)
    return bool(key.get("payload", key).get("prefix") == END)


def has_ends(debezium: Debezium, number: int) -> bool:
    return sum(map(is_end, debezium.events())) >= number


def wait_until_streaming(server: PostgresServer, database: str, debezium: Debezium) -> None:
    """The snapshot is complete and the slot is being read."""
    query = """select 1 from pg_replication_slots s join pg_stat_replication r on r.pid = s.active_pid
               where s.slot_name = %s and r.state = 'streaming'"""
    debezium.wait_condition(
        lambda: bool(server.execute(query, debezium.properties["slot.name"], database=database)), 60, "a streaming slot"
    )


def _execute(connection: psycopg.Connection[Any], block: str) -> None:
    cursor = connection.execute(block)
    while cursor.nextset():
        pass
