"""One case against one database: set up, start Debezium, run the statements, collect its events."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, LiteralString, cast

import psycopg

from headwater.testing.debezium import Debezium, DebeziumEvent
from headwater.testing.postgres import PostgresServer
from tests.oracle.cases import Case

# Emitted after the last statement, outside of any transaction: everything before it has been delivered
# once it arrives, and it leaves no trace in tables or transaction counters.
END = "oracle_end"

BASE = {"topic.prefix": "srv", "slot.name": "debezium", "publication.name": "oracle", "signal.enabled.channels": "in-process"}


def record_debezium(server: PostgresServer, case: Case, database: str, directory: Path) -> list[DebeziumEvent]:
    """Real Debezium's events for a case, in an empty database of the server."""
    prepare(server, case, database)
    with Debezium(server.url(database), {**BASE, **case.properties}, directory) as debezium:
        wait_until_streaming(server, database, debezium)
        run_blocks(server, database, case.script.stream)
        emit_end(server, database)
        debezium.wait_until(is_end, timeout=60)
        return [event for event in debezium.events() if not is_end(event)]


def prepare(server: PostgresServer, case: Case, database: str) -> None:
    """The tables as the snapshot will see them, and the one publication that both sides read."""
    server.create_database(database)
    run_blocks(server, database, case.script.before)
    via_root = case.properties.get("publish.via.partition.root", "false")
    server.execute(
        f"create publication {BASE['publication.name']} for all tables with (publish_via_partition_root = {via_root})",
        database=database,
    )


def run_blocks(server: PostgresServer, database: str, blocks: Iterable[str]) -> None:
    """Every block as one transaction; one that starts with COPY carries its data below."""
    with server.connect(database) as connection:
        for block in blocks:
            statement, _, data = block.strip().partition("\n")
            if statement.startswith("copy "):
                with connection.cursor().copy(cast("LiteralString", statement)) as copy:
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


def wait_until_streaming(server: PostgresServer, database: str, debezium: Debezium) -> None:
    """The snapshot is complete and the slot is being read."""
    query = """select 1 from pg_replication_slots s join pg_stat_replication r on r.pid = s.active_pid
               where s.slot_name = %s and r.state = 'streaming'"""
    debezium.wait_condition(
        lambda: bool(server.execute(query, debezium.properties["slot.name"], database=database)), 60, "a streaming slot"
    )


def _execute(connection: psycopg.Connection[Any], block: str) -> None:
    cursor = connection.execute(cast("LiteralString", block))
    while cursor.nextset():
        pass
