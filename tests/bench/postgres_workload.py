"""The workload on PostgreSQL: a backlog in WAL, and a table to copy.

The backlog is held by one slot that nobody reads; each run gets a copy of that slot, so that all of them
read the same WAL from the same place.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cached_property
from types import TracebackType
from typing import ClassVar, Self

from headwater.testing.postgres import PostgresServer

from .workload import Workload

PUBLICATION = "bench"
BASE_SLOT = "bench_base"
DATABASE = "bench"

SETTINGS = {
    "shared_buffers": "1GB",
    # No checkpoint may fall into a measurement.
    "max_wal_size": "20GB",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
    "synchronous_commit": "off",
}

ROW = """id bigint primary key, customer text not null, quantity int not null, amount numeric(10,2) not null,
         updated_at timestamptz not null"""

# Five columns; customer has 20 characters.
VALUES = """n, 'customer-' || lpad((n % 50000)::text, 11, '0'), (n % 100)::int, (n % 100000) / 100.0,
            timestamptz '2024-01-01 00:00:00+00' + n * interval '1 second 250 microseconds'"""

LOAD = f"""
create procedure load_inserts(upto bigint, per_transaction int) language plpgsql as $$
begin
  for lowest in 1..upto by per_transaction loop
    insert into orders select {VALUES} from generate_series(lowest, least(lowest + per_transaction - 1, upto)) n;
    commit;
  end loop;
end $$;
create procedure load_updates(upto bigint, total bigint, per_transaction int) language plpgsql as $$
begin
  -- One index lookup per row; a hash join would read the whole table in every transaction.
  set enable_hashjoin = off; set enable_mergejoin = off;
  for lowest in 0..upto - 1 by per_transaction loop
    update orders o
      set quantity = o.quantity + 1, amount = o.amount + 0.01, updated_at = o.updated_at + interval '1 day'
      from generate_series(lowest, least(lowest + per_transaction, upto) - 1) n where o.id = 1 + (n * 7919) % total;
    commit;
  end loop;
end $$;
"""


class PostgresWorkload(Workload):
    """See `Workload`."""

    database: ClassVar[str] = "postgres"

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale)
        self.server = PostgresServer(settings=SETTINGS)
        self.end = ""
        self._runs = itertools.count(1)

    def __enter__(self) -> Self:
        self.server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.server.close()

    @property
    def url(self) -> str:
        return self.server.url(DATABASE)

    @cached_property
    def version(self) -> str:
        return str(self.execute("show server_version")[0][0])

    def execute(self, statement: str, *params: object) -> list[tuple[object, ...]]:
        return self.server.execute(statement, *params, database=DATABASE)

    def make(self, say: Callable[[str], None], *, copy: bool) -> None:
        self.server.create_database(DATABASE)
        # First: its rows in WAL behind the backlog would be read by whoever reads to the end of the log.
        if copy:
            say(f"PostgreSQL: making the table to copy: {self.rows:,} rows")
            self.create_table_to_copy()
        say(f"PostgreSQL: making the backlog: {self.changes:,} changes, {self.per_transaction} per transaction")
        self.create_backlog()

    def describe(self) -> dict[str, object]:
        return {"server": f"PostgreSQL {self.version}", "log_bytes": self.wal_bytes()}

    def create_backlog(self) -> None:
        """Table, publication, the slot that keeps the WAL, then the changes."""
        self.execute(f"create table orders ({ROW})")
        self.execute(f"create publication {PUBLICATION} for table orders")
        self.execute(f"select pg_create_logical_replication_slot('{BASE_SLOT}', 'pgoutput')")
        self.execute(LOAD)
        self.execute(f"call load_inserts({self.inserts}, {self.per_transaction})")
        self.execute(f"call load_updates({self.updates}, {self.inserts}, {self.per_transaction})")
        self.end = str(self.execute("select pg_current_wal_insert_lsn()")[0][0])
        # Something behind the end, so that a reader who waits for the end position sees it passed.
        self.execute("select pg_logical_emit_message(false, 'bench', 'end')")

    def create_table_to_copy(self) -> None:
        """As large as asked, in physical order, hint bits set, in the page cache."""
        self.execute(f"create table items ({ROW})")
        self.execute(f"insert into items select {VALUES} from generate_series(1, {self.rows}) n")
        self.execute("vacuum (analyze, freeze) items")
        self.execute("select count(*) from items")

    def slot(self) -> str:
        """A new slot at the start of the backlog, for one run."""
        name = f"bench_{next(self._runs)}"
        self.execute("select pg_copy_logical_replication_slot(%s, %s)", BASE_SLOT, name)
        return name

    def slot_for(self, table: str) -> str:
        """A slot and a publication for a table that is written to while somebody reads."""
        self.execute(f"create publication bench_{table} for table {table}")
        self.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", f"bench_{table}")
        return f"bench_{table}"

    def drop_slot(self, name: str) -> None:
        self.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s and not active",
            name,
        )

    def wal_bytes(self) -> int:
        query = "select %s::pg_lsn - restart_lsn from pg_replication_slots where slot_name = %s"
        return int(str(self.execute(query, self.end, BASE_SLOT)[0][0]))
