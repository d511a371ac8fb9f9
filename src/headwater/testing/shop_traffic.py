"""The shop's traffic: `python -m headwater.testing.shop_traffic URL` writes until its standard input ends.

A process of its own, because a writer in the same interpreter would be measured together with what it feeds. Says
once a second, as a JSON line, how much it has done. Random, by a seed; nearly every action is one statement.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg

from headwater.testing.shop import CUSTOMERS, WORDS, address, page, price

REPORT_SECONDS = 1.0
BURST_ROWS = 400
# More than a megabyte of log: a batch for Spark.
IMPORT_ROWS = 15_000


class Traffic:
    """One connection that does what shops do."""

    def __init__(self, connection: psycopg.Connection[Any], seed: int) -> None:
        self._connection = connection
        self._chance = random.Random(seed)  # noqa: S311
        # As they are now: others may have been busy before us.
        self._skus: list[str] = self._column("select sku from products order by sku")
        self._orders: list[int] = self._column("select id from orders order by id")
        self.done: Counter[str] = Counter()
        self._actions: dict[Callable[[], None], float] = {
            self.place_order: 40,
            self.advance_order: 26,
            self.restock: 15,
            self.visit: 8,
            self.cancel_order: 5,
            self.think_again: 2,
            self.think_half_again: 2,
            self.rewrite_page: 1,
            self.rename_product: 0.5,
            self.burst: 0.4,
            self.import_views: 0.03,
            self.forget_views: 0.1,
        }

    def step(self) -> None:
        """One action, chosen by weight."""
        action = self._chance.choices(list(self._actions), list(self._actions.values()))[0]
        action()
        self.done[action.__name__] += 1

    # -- actions -----------------------------------------------------------------------------------

    def place_order(self) -> None:
        """An order and its lines, in one transaction."""
        row = self._execute(
            "with placed as (insert into orders (customer_id, total, note) values (%s, %s, %s) returning id),"
            " lines as (insert into order_items"
            " select id, line, %s, line * 2, %s from placed, generate_series(1, %s) line) select id from placed",
            [
                self._customer(),
                price(self._chance),
                self._note(),
                self._sku(),
                price(self._chance),
                self._chance.randint(1, 4),
            ],
        ).fetchone()
        self._orders.append(row[0])  # type: ignore[index]

    def advance_order(self) -> None:
        """The next status; the array grows, the rest of the row stays."""
        self._execute(
            "update orders set steps = steps[1:4] || now(), total = total * 1.0001, status = case status when 'new'"
            " then 'paid' when 'paid' then 'packed' when 'packed' then 'shipped' else 'returned' end::order_status"
            " where id = %s",
            [self._order()],
        )

    def restock(self) -> None:
        """Price and stock of a product: its page is not in the log."""
        self._execute(
            "update products set stock = stock + %s, price = %s, updated = now() where sku = %s",
            [self._chance.randint(-5, 50), price(self._chance), self._sku()],
        )

    def visit(self) -> None:
        """A customer comes by, sometimes with a new address."""
        moved = address(self._chance) if self._chance.random() < 0.3 else None
        self._execute(
            "update customers set seen = clock_timestamp(), tags = %s, address = coalesce(%s::jsonb, address)"
            " where id = %s",
            [self._chance.sample(WORDS, self._chance.randint(0, 3)), moved, self._customer()],
        )

    def cancel_order(self) -> None:
        """Delete an order; its lines go with it."""
        at = self._chance.randrange(len(self._orders))
        self._orders[at], self._orders[-1] = self._orders[-1], self._orders[at]
        self._execute("delete from orders where id = %s", [self._orders.pop()])

    def think_again(self) -> None:
        """A transaction that is rolled back must never be seen."""
        with self._connection.transaction(force_rollback=True):
            self._execute("update customers set credit = -999999 where id = %s", [self._customer()])
            self._execute("insert into orders (customer_id, note) values (%s, 'never happened')", [self._customer()])

    def think_half_again(self) -> None:
        """A savepoint is rolled back, its transaction commits; and one key is written twice in it."""
        order = self._order()
        with self._connection.transaction():
            self._execute("update orders set note = 'kept' where id = %s", [order])
            with self._connection.transaction(force_rollback=True):
                self._execute("delete from order_items where order_id = %s", [order])
            self._execute("update orders set total = total + 0.0001 where id = %s", [order])

    def rewrite_page(self) -> None:
        """A large text."""
        self._execute("update products set page = %s where sku = %s", [page(self._chance), self._sku()])

    def rename_product(self) -> None:
        """A key changes, and cascades into the lines of its orders. The large page moves along, unsent."""
        at = self._chance.randrange(len(self._skus))
        old = self._skus[at]
        name, _, times = old.partition("/")
        self._skus[at] = f"{name}/{int(times or 0) + 1}"
        self._execute("update products set sku = %s where sku = %s", [self._skus[at], old])

    def burst(self) -> None:
        """A COPY: many rows, one LSN."""
        self._copy_views(BURST_ROWS)

    def import_views(self) -> None:
        """Somebody brings yesterday's log of another web server."""
        self._copy_views(IMPORT_ROWS)

    def _copy_views(self, rows: int) -> None:
        with self._connection.cursor().copy("copy page_views (sku, took, signature) from stdin") as copy:
            for number in range(rows):
                copy.write_row((self._sku(), number / 3, self._chance.randbytes(8)))

    def forget_views(self) -> None:
        """A delete of many rows at once."""
        self._execute(
            "delete from page_views where id in (select id from page_views order by id limit %s)", [BURST_ROWS]
        )

    # ----------------------------------------------------------------------------------------------

    def _execute(self, statement: str, params: list[Any]) -> psycopg.Cursor[Any]:
        return self._connection.execute(statement.encode(), params)

    def _column(self, statement: str) -> list[Any]:
        return [row[0] for row in self._execute(statement, [])]

    def _customer(self) -> int:
        return self._chance.randint(1, CUSTOMERS)

    def _order(self) -> int:
        return self._chance.choice(self._orders[-500:])

    def _sku(self) -> str:
        return self._chance.choice(self._skus)

    def _note(self) -> str | None:
        return self._chance.choice((None, "ring twice", "für Ängström", "emoji 🦦"))


def run(url: str, rate: float, seed: int) -> None:
    """Until standard input ends; at most `rate` transactions a second."""
    with psycopg.connect(url, autocommit=True, application_name="shop") as connection:
        traffic = Traffic(connection, seed)
        began = reported = time.monotonic()
        steps = 0
        while not _owner_gone():
            traffic.step()
            steps += 1
            now = time.monotonic()
            if now - reported >= REPORT_SECONDS:
                reported = now
                _report(traffic)
            ahead = began + steps / rate - now
            if ahead > 0:
                time.sleep(ahead)
            elif ahead < -1:
                # The server was slow for a while: do not make up for it in one burst.
                began = now - steps / rate
        _report(traffic)


def _report(traffic: Traffic) -> None:
    sys.stdout.write(json.dumps({"transactions": traffic.done.total(), **traffic.done}) + "\n")
    sys.stdout.flush()


def _owner_gone() -> bool:
    ready, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(ready) and os.read(sys.stdin.fileno(), 1) == b""


def main() -> None:
    """Ctrl-C is our owner's business: it closes our standard input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--rate", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run(given.url, given.rate, given.seed)


if __name__ == "__main__":
    main()
