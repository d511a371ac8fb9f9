"""Awkward load: what real applications do to a table, at random, from a seed.

Per key: insert, updates, partial updates of large values, key change, delete, insert again; around it
nested savepoints, rollbacks, COPY bursts, empty transactions with and without an id, now and then a value of some
hundred kilobytes or a TRUNCATE. What is rolled back is marked NEVER: nobody may ever see it.
"""

from __future__ import annotations

import random
from typing import Any

import psycopg
from psycopg import sql

NEVER = "never committed"

TABLES = {
    "public.orders": """
        create table public.orders (
          id bigint primary key, customer text not null, quantity int, amount numeric(12,2),
          placed_at timestamptz default now(), tags text[], note text)
    """,
    "public.ledger": """
        create table public.ledger (
          account int, entry int, amount numeric, memo text, primary key (account, entry))
    """,
}


class AwkwardLoad:
    """Writes to TABLES through one connection; the same seed gives the same statements."""

    def __init__(self, connection: psycopg.Connection[Any], seed: int, keys: int = 400) -> None:
        self.connection = connection
        self.random = random.Random(seed)  # noqa: S311
        self.keys = keys
        # What an insert writes as its customer: NEVER inside anything that will be rolled back.
        self._mark = ""

    def create(self) -> None:
        """The tables; external storage makes TOAST of every long text."""
        for statement in TABLES.values():
            self.connection.execute(sql.SQL(statement))
        self.connection.execute("alter table public.orders alter column note set storage external")

    def run(self, transactions: int) -> None:
        """Some transactions, a few of them rolled back."""
        for _ in range(transactions):
            self.transaction()

    def transaction(self) -> None:
        """One transaction of one to a dozen statements."""
        doomed = self.random.random() < 0.1
        try:
            with self.connection.transaction():
                self._mark = NEVER if doomed else ""
                for _ in range(self.random.choice((0, 1, 1, 1, 2, 5, 12))):
                    self._statement()
                if doomed:
                    raise _RollBack
        except _RollBack:
            pass
        finally:
            self._mark = ""

    def _statement(self) -> None:
        kinds = {
            self._insert: 8,
            self._update: 8,
            self._update_note: 4,
            self._change_key: 3,
            self._delete: 4,
            self._copy: 2,
            self._savepoint: 2,
            self._ledger: 4,
            self._take_id: 1,
            self._truncate: 0.1,
        }
        self.random.choices(list(kinds), list(kinds.values()))[0]()

    def _key(self) -> int:
        return self.random.randrange(self.keys)

    def _insert(self) -> None:
        key = self._key()
        self.connection.execute(
            "insert into public.orders values (%s, %s, %s, %s, now(), %s, %s) on conflict do nothing",
            [key, self._mark or f"customer {key}", key % 7, key / 3, ["a", None, f"t{key}"], self._note()],
        )

    def _update(self) -> None:
        self.connection.execute(
            "update public.orders set quantity = quantity + 1, amount = %s where id = %s",
            [self.random.randrange(10_000) / 100, self._key()],
        )

    def _update_note(self) -> None:
        self.connection.execute("update public.orders set note = %s where id = %s", [self._note(), self._key()])

    def _change_key(self) -> None:
        self.connection.execute(
            "update public.orders set id = %s where id = %s and not exists (select from public.orders where id = %s)",
            [new := self._key(), self._key(), new],
        )

    def _delete(self) -> None:
        self.connection.execute("delete from public.orders where id = %s", [self._key()])

    def _copy(self) -> None:
        """A burst whose rows share one LSN."""
        base = self.keys + self.random.randrange(10**9) * 100
        with self.connection.cursor().copy("copy public.orders (id, customer, quantity) from stdin") as copy:
            for i in range(self.random.choice((3, 50, 60))):
                copy.write_row((base + i, self._mark or f"burst {i}", i))

    def _savepoint(self) -> None:
        """Work that is rolled back inside a transaction that is not, two savepoints deep now and then."""
        before, self._mark = self._mark, NEVER
        try:
            with self.connection.transaction():
                self._insert()
                self._update()
                if self.random.random() < 0.3:
                    with self.connection.transaction():
                        self._insert()
                        self._delete()
                raise _RollBack
        except _RollBack:
            pass
        finally:
            self._mark = before

    def _take_id(self) -> None:
        """A transaction with an id and nothing in it, if nothing else comes."""
        self.connection.execute("select pg_current_xact_id()")

    def _ledger(self) -> None:
        account, entry = self.random.randrange(5), self.random.randrange(20)
        self.connection.execute(
            "insert into public.ledger values (%s, %s, %s, %s)"
            " on conflict (account, entry) do update set amount = excluded.amount",
            [account, entry, self.random.random(), self.random.choice((None, "", "memo\t\\N\n'\""))],
        )

    def _truncate(self) -> None:
        self.connection.execute("truncate public.ledger")

    def _note(self) -> str | None:
        length = self.random.choices((0, 10, 3_000, 9_000, 300_000), (10, 10, 10, 10, 1))[0]
        return None if not length else "".join(self.random.choices("abcdefgh ", k=length))


class _RollBack(Exception):
    """Ends a transaction without a trace."""
