"""MariaDB, or MySQL, on the stage: its account and load, its log by GTID, a replica to fail over to."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Protocol
from urllib.parse import quote

from tests.faults.stage import ROLE, SECRET, Stage

from headwater.options import Secret
from headwater.sources.mysql import MySql
from headwater.sources.mysql.options import MySqlOptions
from headwater.testing.mysql import MySqlServer
from headwater.testing.mysql_load import MySqlLoad
from headwater.testing.proxy import TcpProxy

# A killed server must know its own last commits: a reader has them already.
SETTINGS = {"server-id": "1", "sync-binlog": "1", "innodb-flush-log-at-trx-commit": "1"}
CLIENT = "headwater_fault"


class Closing(Protocol):
    """What can be closed."""

    def close(self) -> None: ...


class MySqlStage(Stage):
    """See `Stage`."""

    keys: ClassVar[Mapping[str, tuple[str, ...]]] = {"shop.orders": ("id",), "shop.ledger": ("account", "entry")}

    def __init__(self, server: MySqlServer, proxy: TcpProxy, directory: Path, seed: int) -> None:
        self.server = server
        self._port = proxy.port
        # Held while a transaction is written: whoever takes it has the server at rest.
        self.at_rest = threading.Lock()
        self._others = ExitStack()
        super().__init__(proxy, directory, seed)

    def source(self) -> dict[str, Any]:
        return {"type": "mariadb", "url": self.url(SECRET), "tables": ["shop.*"], "client": CLIENT}

    def url(self, password: str) -> str:
        return f"mariadb://{ROLE}:{quote(password)}@127.0.0.1:{self._port}"

    def set_up(self) -> None:
        self.execute("create database shop")
        self.execute(f"create user {ROLE} identified by '{SECRET}'")
        self.execute(f"grant select, reload, replication slave, replication client on *.* to {ROLE}")
        if self.server.binaries.mariadb:
            self.execute(f"grant replication master admin on *.* to {ROLE}")
        with self.server.connect("shop") as connection:
            load = MySqlLoad(connection, self.seed, keys=80)
            load.create()
            load.run(60)

    def write(self, seed: int, stopping: threading.Event) -> None:
        with self.server.connect("shop") as connection:
            load = MySqlLoad(connection, seed, keys=80)
            while not stopping.wait(0.02):
                with self.at_rest:
                    load.transaction()

    def execute(self, statement: str, *params: Any) -> list[tuple[Any, ...]]:
        with self.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement, params or None)
            return list(cursor.fetchall())

    def rows(self, table: str) -> list[dict[str, Any]]:
        with self.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"select * from {table}")
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, map(_lake_value, row), strict=True)) for row in cursor.fetchall()]

    def end(self) -> int:
        return MySql(MySqlOptions(url=Secret(self.server.url()))).end()

    def stop_server(self) -> None:
        self.server.stop()

    def start_server(self) -> None:
        self.server.start()

    def kill_server(self) -> None:
        self.server.kill()

    def data(self) -> Path:
        return self.server.data

    def move_to(self, server: MySqlServer) -> None:
        """From now on the load and the pipeline's connections go to another server, as behind a name that moves."""
        self.server = server
        self.proxy.forward_to(server.port)

    def also_close(self, other: Closing) -> None:
        """A server or session that a scenario has opened."""
        self._others.callback(other.close)

    def close_others(self) -> None:
        self._others.close()

    def close(self) -> None:
        super().close()
        self._others.close()


def _lake_value(value: Any) -> Any:
    """The load's only moments are timestamps: instants in the lake."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
