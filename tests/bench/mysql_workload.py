"""The workload on MariaDB: a backlog in the binlog, and a table to copy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import TracebackType
from typing import Any, ClassVar, Self

from headwater.testing.mysql import MySqlServer

from .workload import Workload

DATABASE = "bench"
SETTINGS = {
    "innodb-buffer-pool-size": "1G",
    # No flush may fall into a measurement.
    "innodb-log-file-size": "2G",
    "innodb-flush-log-at-trx-commit": "0",
    "max-binlog-size": "1G",
}
ROW = """id bigint primary key, customer varchar(40) not null, quantity int not null, amount decimal(10,2) not null,
         updated_at timestamp(6) not null"""
# Five columns; customer has 20 characters.
VALUES = """seq, concat('customer-', lpad(seq % 50000, 11, '0')), seq % 100, (seq % 100000) / 100,
            timestamp'2024-01-01 00:00:00' + interval seq second + interval 250 * (seq % 4000) microsecond"""


class MySqlWorkload(Workload):
    """See `Workload`."""

    database: ClassVar[str] = "mysql"

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale)
        self.server = MySqlServer(settings=SETTINGS)
        # File and offset where the backlog begins and ends.
        self.begin = self.end = ("", 0)

    def __enter__(self) -> Self:
        self.server.start()
        self.execute(f"create database {DATABASE}", f"use {DATABASE}", f"create table orders ({ROW})")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.server.close()

    @property
    def url(self) -> str:
        return self.server.url()

    @cached_property
    def version(self) -> str:
        return str(self.execute("select version()")[0][0]).partition("-")[0]

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.execute(*statements)

    def make(self, say: Callable[[str], None], *, copy: bool) -> None:
        if copy:
            say(f"MariaDB: making the table to copy: {self.rows:,} rows")
            self.create_table_to_copy()
        say(f"MariaDB: making the backlog: {self.changes:,} changes, {self.per_transaction} per transaction")
        self.create_backlog()

    def describe(self) -> dict[str, object]:
        return {"server": f"MariaDB {self.version}", "log_bytes": self.end[1] - self.begin[1]}

    def create_backlog(self) -> None:
        """Every statement is a transaction; all in one file of the log."""
        self.execute("flush binary logs")
        self.begin = self.written()
        step = self.per_transaction
        with self.server.connect(DATABASE) as connection, connection.cursor() as cursor:
            for low in range(1, self.inserts + 1, step):
                high = min(low + step - 1, self.inserts)
                cursor.execute(f"insert into orders select {VALUES} from seq_{low}_to_{high}")
            for low in range(0, self.updates, step):
                high = min(low + step, self.updates) - 1
                cursor.execute(
                    f"""update orders o join seq_{low}_to_{high} n on o.id = 1 + (n.seq * 7919) % {self.inserts}
                        set quantity = quantity + 1, amount = amount + 0.01, updated_at = updated_at + interval 1 day"""
                )
        self.end = self.written()
        if self.end[0] != self.begin[0]:
            raise RuntimeError("the backlog fills more than one file of the log: raise max-binlog-size")

    def create_table_to_copy(self) -> None:
        """As large as asked, in the buffer pool, and not in the log."""
        self.execute(
            "set sql_log_bin = 0",
            f"use {DATABASE}",
            f"create table items ({ROW})",
            f"insert into items select {VALUES} from seq_1_to_{self.rows}",
            "analyze table items",
            "select count(*) from items",
        )

    def written(self) -> tuple[str, int]:
        """Where the log ends now."""
        file, offset, *_ = self.execute("show master status")[0]
        return str(file), int(offset)
