"""MySQL and MariaDB under the oracle: one log for both sides, read from the same transaction on."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import pymysql
from pymysql.constants import CLIENT

from headwater.testing.debezium import Debezium, DebeziumEvent
from headwater.testing.mysql import MySqlServer

from .cases import Case
from .database import Database

# The database of every case: the log is the server's, and topics have this name in them.
DATABASE = "oracle"
# A table whose only row says that everything before it has been delivered.
END = "the_end"


class MySql(Database):
    """See `Database`."""

    base: ClassVar[Mapping[str, str]] = {
        "topic.prefix": "srv",
        "database.include.list": DATABASE,
        # A topic of its own; what stands there is no data of a table.
        "include.schema.changes": "false",
        "signal.enabled.channels": "in-process",
    }

    def __init__(self, server: MySqlServer) -> None:
        self.server = server
        self._ends = 0

    @property
    def version(self) -> str:
        flavour = "MariaDB" if self.server.binaries.mariadb else "MySQL"
        return f"{flavour} {str(self.server.execute('select version()')[0][0]).partition('-')[0]}"

    def url(self, name: str) -> str:
        scheme = "mariadb" if self.server.binaries.mariadb else "mysql"
        return self.server.url().replace("mysql://", f"{scheme}://")

    @contextlib.contextmanager
    def prepared(self, case: Case, name: str) -> Iterator[None]:
        self.server.execute(f"create database {DATABASE} character set utf8mb4")
        self.run(name, (f"create table {END} (id int primary key)", *case.script.before))
        try:
            yield
        finally:
            self.server.execute(f"drop database {DATABASE}")

    def run(self, name: str, blocks: Iterable[str]) -> None:
        """Every statement is a transaction, unless the block says `begin`."""
        connection = pymysql.connect(
            host="127.0.0.1",
            port=self.server.port,
            user="root",
            database=DATABASE,
            autocommit=True,
            charset="utf8mb4",
            client_flag=CLIENT.MULTI_STATEMENTS,
            # Invalid dates and texts that are cut are part of the cases.
            init_command="set sql_mode = '', time_zone = '+00:00'",
        )
        with connection, connection.cursor() as cursor:
            for block in blocks:
                cursor.execute(block)
                while cursor.nextset():
                    pass

    def emit_end(self, name: str) -> None:
        self._ends += 1
        self.run(name, [f"insert into {END} values ({self._ends})"])

    def is_end(self, event: DebeziumEvent) -> bool:
        return event.topic.endswith(f".{END}")

    def without_ends(self, events: Iterable[DebeziumEvent]) -> list[DebeziumEvent]:
        """Also without their transactions' BEGIN and END."""
        events = list(events)
        ends = {(_payload(event).get("transaction") or {}).get("id") for event in events if self.is_end(event)}
        return [
            event
            for event in events
            if not self.is_end(event) and not (event.topic == "srv.transaction" and _payload(event)["id"] in ends)
        ]

    def wait_until_streaming(self, name: str, debezium: Debezium) -> None:
        query = "select 1 from information_schema.processlist where command like 'Binlog Dump%'"
        debezium.wait_condition(lambda: bool(self.server.execute(query)), 60, "a reader of the log")


def _payload(event: DebeziumEvent) -> dict[str, Any]:
    value = json.loads(event.value or "{}")
    return dict(value.get("payload", value))
