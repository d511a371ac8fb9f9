"""Tables of a few rows, per database: what a Spark session is warmed up with before the clock starts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar
from urllib.parse import urlsplit

import psycopg
import pymysql

from headwater.testing import wait_until

from .mysql_workload import DATABASE


class SmallTable(ABC):
    """A table (id int, v text), and what a reader of it leaves on the server."""

    # As the registry knows the source.
    source: ClassVar[str]
    schema: ClassVar[str]

    def __init__(self, name: str) -> None:
        self.name = f"{self.schema}.{name}"
        self.execute(f"create table {self.name} (id int primary key, v varchar(20))")

    @abstractmethod
    def execute(self, statement: str) -> Any: ...

    def add_row(self) -> None:
        self.execute(f"insert into {self.name} select coalesce(max(id), 0) + 1, 'one' from {self.name}")

    def drop(self, client: str) -> None:
        """With what the reader `client` has left."""
        self.execute(f"drop table {self.name}")


class PostgresTable(SmallTable):
    source = "postgres"
    schema = "public"

    def __init__(self, url: str, name: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        super().__init__(name)

    def execute(self, statement: str) -> Any:
        return self._connection.execute(statement.encode())

    def drop(self, client: str) -> None:
        # A query has ended; its tail is told a moment later.
        state = f"select active_pid from pg_replication_slots where slot_name = '{client}'"
        wait_until(lambda: self.execute(state).fetchone() == (None,), 30, "the reader's tail ends")
        self.execute(f"select pg_drop_replication_slot('{client}')")
        self.execute(f"drop publication {client}")
        super().drop(client)
        self._connection.close()


class MySqlTable(SmallTable):
    source = "mysql"
    schema = DATABASE

    def __init__(self, url: str, name: str) -> None:
        server = urlsplit(url)
        self._connection = pymysql.connect(
            host=server.hostname, port=server.port or 3306, user=server.username, autocommit=True
        )
        super().__init__(name)

    def execute(self, statement: str) -> Any:
        return self._connection.query(statement)

    def drop(self, client: str) -> None:
        super().drop(client)
        self._connection.close()


def small_table(url: str, name: str) -> SmallTable:
    kind = PostgresTable if urlsplit(url).scheme == "postgresql" else MySqlTable
    return kind(url, name)
