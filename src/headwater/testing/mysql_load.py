"""Awkward load for MySQL and MariaDB: what `load.AwkwardLoad` does to PostgreSQL, as these servers do it.

Per key: insert, updates, key change, delete, insert again, replace; around it savepoints, rollbacks (marked NEVER),
statements of many rows, empty transactions, now and then a value of some hundred kilobytes or a TRUNCATE.
"""

from __future__ import annotations

import random
from typing import Any

from pymysql.connections import Connection

from headwater.testing.load import NEVER

TABLES = (
    "create table orders (id bigint primary key, customer varchar(60) not null, quantity int, amount decimal(12,2),"
    " placed_at timestamp(6) not null default current_timestamp(6), note longtext)",
    "create table ledger (account int, entry int, amount decimal(20,10), memo text, primary key (account, entry))",
)


class MySqlLoad:
    """Writes to TABLES through one connection in autocommit mode; the same seed gives the same statements."""

    def __init__(self, connection: Connection[Any], seed: int, keys: int = 400) -> None:
        self.connection = connection
        self.random = random.Random(seed)  # noqa: S311
        self.keys = keys
        # What an insert writes as its customer: NEVER inside anything that will be rolled back.
        self._mark = ""

    def create(self) -> None:
        """The tables, in the connection's database."""
        for statement in TABLES:
            self._execute(statement)

    def run(self, transactions: int) -> None:
        """Some transactions, a few of them rolled back."""
        for _ in range(transactions):
            self.transaction()

    def transaction(self) -> None:
        """One transaction of none to a dozen statements."""
        if self.random.random() < 0.005:
            # A definition to these servers: it ends a transaction by itself.
            self._execute("truncate table ledger")
        doomed = self.random.random() < 0.1
        self._mark = NEVER if doomed else ""
        self._execute("begin")
        for _ in range(self.random.choice((0, 1, 1, 1, 2, 5, 12))):
            self._statement()
        self._execute("rollback" if doomed else "commit")

    def _statement(self) -> None:
        kinds = {
            self._insert: 8,
            self._replace: 2,
            self._update: 8,
            self._update_note: 4,
            self._change_key: 3,
            self._delete: 4,
            self._burst: 2,
            self._savepoint: 2,
            self._ledger: 4,
        }
        self.random.choices(list(kinds), list(kinds.values()))[0]()

    def _execute(self, statement: str, *parameters: object) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, parameters or None)

    def _key(self) -> int:
        return self.random.randrange(self.keys)

    def _insert(self, verb: str = "insert ignore") -> None:
        key = self._key()
        self._execute(
            f"{verb} into orders (id, customer, quantity, amount, note) values (%s, %s, %s, %s, %s)",
            key,
            self._mark or f"customer {key}",
            key % 7,
            round(key / 3, 2),
            self._note(),
        )

    def _replace(self) -> None:
        self._insert("replace")

    def _update(self) -> None:
        amount = self.random.randrange(10_000) / 100
        self._execute("update orders set quantity = quantity + 1, amount = %s where id = %s", amount, self._key())

    def _update_note(self) -> None:
        self._execute("update orders set note = %s where id = %s", self._note(), self._key())

    def _change_key(self) -> None:
        self._execute("update ignore orders set id = %s where id = %s", self._key(), self._key())

    def _delete(self) -> None:
        self._execute("delete from orders where id = %s", self._key())

    def _burst(self) -> None:
        """Rows that share one event."""
        base = self.keys + self.random.randrange(10**9) * 100
        rows = range(self.random.choice((3, 50, 60)))
        values = ", ".join(f"({base + i}, '{self._mark or f'burst {i}'}', {i})" for i in rows)
        self._execute(f"insert into orders (id, customer, quantity) values {values}")  # noqa: S608

    def _savepoint(self) -> None:
        """Work that is rolled back inside a transaction that is not."""
        before, self._mark = self._mark, NEVER
        self._execute("savepoint inside")
        self._insert()
        self._update()
        self._execute("rollback to savepoint inside")
        self._mark = before

    def _ledger(self) -> None:
        self._execute(
            "insert into ledger values (%s, %s, %s, %s) on duplicate key update amount = values(amount)",
            self.random.randrange(5),
            self.random.randrange(20),
            round(self.random.random(), 10),
            self.random.choice((None, "", "memo\t\\N\n'\"")),
        )

    def _note(self) -> str | None:
        length = self.random.choices((0, 10, 3_000, 9_000, 300_000), (10, 10, 10, 10, 1))[0]
        return None if not length else "".join(self.random.choices("abcdefgh ", k=length))
