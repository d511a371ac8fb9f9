"""PostgreSQL under the oracle: one publication, the same transactions, a slot for each side."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import psycopg

from headwater.testing.debezium import Debezium, DebeziumEvent
from headwater.testing.postgres import PostgresServer

from .cases import Case
from .database import Database

# A message outside of any transaction: it leaves no trace in tables or transaction counters.
END = "oracle_end"


class Postgres(Database):
    """See `Database`."""

    base: ClassVar[Mapping[str, str]] = {
        "topic.prefix": "srv",
        "slot.name": "debezium",
        "publication.name": "oracle",
        "signal.enabled.channels": "in-process",
    }
    ours: ClassVar[Mapping[str, str]] = {"slot.name": "headwater", "publication.autocreate.mode": "disabled"}

    def __init__(self, server: PostgresServer) -> None:
        self.server = server

    @property
    def version(self) -> str:
        return f"PostgreSQL {self.server.execute('show server_version')[0][0]}"

    def url(self, name: str) -> str:
        return self.server.url(name)

    @contextlib.contextmanager
    def prepared(self, case: Case, name: str) -> Iterator[None]:
        self.server.create_database(name)
        self.run(name, case.script.before)
        via_root = case.properties.get("publish.via.partition.root", "false")
        self.server.execute(
            f"create publication oracle for all tables with (publish_via_partition_root = {via_root})", database=name
        )
        try:
            yield
        finally:
            self.server.drop_database(name)

    def run(self, name: str, blocks: Iterable[str]) -> None:
        """Every block as one transaction; one that starts with COPY carries its data below."""
        with self.server.connect(name) as connection:
            for block in blocks:
                statement, _, data = block.strip().partition("\n")
                if statement.startswith("copy "):
                    with connection.cursor().copy(statement) as copy:
                        copy.write(data + "\n")
                else:
                    _execute(connection, block)

    def emit_end(self, name: str) -> None:
        self.server.execute("select pg_logical_emit_message(false, %s, '')", END, database=name)

    def is_end(self, event: DebeziumEvent) -> bool:
        if not event.topic.endswith(".message") or event.key is None:
            return False
        key = json.loads(event.key)
        return bool(key.get("payload", key).get("prefix") == END)

    def wait_until_streaming(self, name: str, debezium: Debezium) -> None:
        query = """select 1 from pg_replication_slots s join pg_stat_replication r on r.pid = s.active_pid
                   where s.slot_name = %s and r.state = 'streaming'"""
        slot = debezium.properties["slot.name"]
        debezium.wait_condition(lambda: bool(self.server.execute(query, slot, database=name)), 60, "a streaming slot")

    def before_headwater(self, name: str) -> None:
        self.server.execute("select pg_create_logical_replication_slot('headwater', 'pgoutput')", database=name)


def _execute(connection: psycopg.Connection[Any], block: str) -> None:
    cursor = connection.execute(block)
    while cursor.nextset():
        pass
