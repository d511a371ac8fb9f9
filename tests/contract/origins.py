"""One Origin per source: how the contract suite makes a database of its own and the source on it.

A new source gets the whole suite by adding its Origin here; `test_every_source_has_an_origin` asks for it.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.oracle.ours import Headwater

from headwater.options import Secret, parse_options
from headwater.sources.base import Source
from headwater.sources.kafka import Kafka
from headwater.sources.kafka.options import KafkaOptions
from headwater.sources.mysql import MySql
from headwater.sources.mysql.options import MySqlOptions
from headwater.sources.postgres.options import PostgresOptions
from headwater.sources.postgres.source import Postgres
from headwater.testing import PostgresServer
from headwater.testing.kafka import KafkaServer
from headwater.testing.mysql import MySqlServer

PASSWORD = "canary-0xC0FFEE"
_numbers = itertools.count(1)


class Origin(ABC):
    """A database that one test has for itself, with a schema to put tables in."""

    type: ClassVar[str]
    # The name of the server's fixture.
    fixture: ClassVar[str]
    quote: ClassVar[str]
    # Whether there is something behind the log that can be copied.
    copies: ClassVar[bool] = True
    # What stands before a table's name in events.
    schema: str

    def name(self, table: str) -> str:
        return f"{self.schema}.{table}"

    def quoted(self, name: str) -> str:
        return self.quote + name.replace(self.quote, 2 * self.quote) + self.quote

    @abstractmethod
    def source(self, **options: Any) -> Source:
        """The source on this database."""

    @abstractmethod
    def transaction(self, statements: Sequence[str], *, rollback: bool = False) -> None:
        """Run them as one transaction."""

    def execute(self, statement: str) -> None:
        self.transaction([statement])

    @abstractmethod
    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """What the server itself answers, by the first column."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind."""


class PostgresOrigin(Origin):
    type = "postgres"
    fixture = "postgres"
    quote = '"'
    schema = "public"

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.database = f"contract_{next(_numbers)}"
        server.create_database(self.database)

    def source(self, **options: Any) -> Source:
        own = {"url": self.server.url(self.database), "slot": self.database, "publication": "pub"}
        return Postgres(parse_options(PostgresOptions, {**own, **options}, where="source", name="contract"))

    def transaction(self, statements: Sequence[str], *, rollback: bool = False) -> None:
        with self.server.connect(self.database) as connection, connection.transaction(force_rollback=rollback):
            for statement in statements:
                connection.execute(statement)  # type: ignore[call-overload]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self.server.execute(f"select * from {self.schema}.{table} order by 1", database=self.database)

    def close(self) -> None:
        self.server.drop_database(self.database)


class MySqlOrigin(Origin):
    type = "mysql"
    fixture = "mysql"
    quote = "`"

    def __init__(self, server: MySqlServer) -> None:
        self.server = server
        self.schema = f"contract_{next(_numbers)}"
        server.execute(f"create database {self.schema}")

    def source(self, **options: Any) -> Source:
        url = options.pop("url", self.server.url())
        own = {"url": Secret(url), "client": self.schema, "tables": [f"{self.schema}.*"]}
        return MySql(MySqlOptions(**{**own, **options}))

    def transaction(self, statements: Sequence[str], *, rollback: bool = False) -> None:
        self.server.execute("begin", *statements, "rollback" if rollback else "commit", database=self.schema)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self.server.execute(f"select * from {table} order by 1", database=self.schema)

    def close(self) -> None:
        self.server.execute(f"drop database {self.schema}")


class KafkaOrigin(PostgresOrigin):
    """Topics with the events of a PostgreSQL database, each transaction written as soon as it is committed."""

    type = "kafka"
    fixture = "postgres_and_kafka"
    copies = False

    def __init__(self, servers: tuple[PostgresServer, KafkaServer]) -> None:
        super().__init__(servers[0])
        self.broker = servers[1].bootstrap
        self.prefix = self.database.replace("contract", "topics")
        topic = f"{self.prefix}.public.items"
        admin = AdminClient({"bootstrap.servers": self.broker})
        admin.create_topics([NewTopic(topic, 1)])[topic].result()
        self.server.execute("create publication pub for all tables", database=self.database)
        database = super().source()
        database.prepare(None)
        database.close()
        properties = {"topic.prefix": self.prefix, "slot.name": self.database, "publication.name": "pub"}
        self.events = Headwater(self.server.url(self.database), properties)
        self.events.start()
        self.written = 0

    def source(self, **options: Any) -> Source:
        own = {} if "url" in options else {"bootstrap.servers": self.broker, "topic.prefix": self.prefix}
        return Kafka(parse_options(KafkaOptions, {**own, **options}, where="source", name="contract"))

    def transaction(self, statements: Sequence[str], *, rollback: bool = False) -> None:
        super().transaction(statements, rollback=rollback)
        producer = Producer({"bootstrap.servers": self.broker})
        events = self.events.streamed()
        for event in events[self.written :]:
            producer.produce(event.topic, event.value, event.key)
        self.written = len(events)
        assert producer.flush(30) == 0

    def close(self) -> None:
        self.events.close()
        super().close()


ORIGINS: tuple[type[Origin], ...] = (PostgresOrigin, MySqlOrigin, KafkaOrigin)
