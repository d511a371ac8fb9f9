"""What keeps WAL on the server: replication slots, everybody's; listed, created, advanced and dropped.

`slot.py` looks after the one slot that a pipeline reads from; this is about the disk it can fill.
"""

from __future__ import annotations

from typing import Any

import psycopg

from headwater.errors import Stop, Usage
from headwater.sources.base import Holder
from headwater.sources.postgres.connection import connect
from headwater.sources.postgres.options import PostgresOptions
from headwater.sources.postgres.position import parse_lsn
from headwater.sources.postgres.slot import SlotInUse, create_slot, find_slot

# Columns that a version lacks are null in the row's JSON. The flushed end of WAL counts, on a standby the replayed one.
_QUERY = """
select to_jsonb(s), a.application_name, age(s.catalog_xmin), age(s.xmin),
       pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_flush_lsn() end,
                       s.restart_lsn)::bigint,
       extract(epoch from clock_timestamp() - (to_jsonb(s) ->> 'inactive_since')::timestamptz)::float8
from pg_replication_slots s left join pg_stat_activity a on a.pid = s.active_pid
order by s.slot_name
"""


def find_holders(options: PostgresOptions) -> list[Holder]:
    """See `Source.holders`."""
    with connect(options) as connection:
        return [_holder(options, *row) for row in connection.execute(_QUERY)]


def _holder(
    options: PostgresOptions,
    slot: dict[str, Any],
    application: str | None,
    catalog_age: int | None,
    age: int | None,
    retained: int | None,
    idle: float | None,
) -> Holder:
    name = slot["slot_name"]
    ours = (
        name == options.slot
        or application == "headwater"
        or (name.startswith("headwater_") and slot["plugin"] == "pgoutput")
    )
    kind = slot["plugin"] or "physical"
    active = slot["active_pid"]
    return Holder(
        name=name,
        owner="headwater" if ours else f"{application} ({kind})" if application else kind,
        ours=ours,
        current=name == options.slot,
        active_pid=active,
        status=slot["wal_status"] or "unknown",
        lost=slot["wal_status"] == "lost",
        position=slot["confirmed_flush_lsn"] or slot["restart_lsn"] or "",
        retained_bytes=max(0, retained or 0),
        safe_bytes=slot["safe_wal_size"],
        idle_seconds=idle if active is None else None,
        age=max((each for each in (catalog_age, age) if each is not None), default=None),
        database=slot["database"] or "",
    )


def create_holder(options: PostgresOptions, name: str) -> None:
    """See `Source.create_holder`."""
    with create_slot(options, name):
        pass


def drop_holder(options: PostgresOptions, name: str) -> None:
    """See `Source.drop_holder`."""
    with connect(options) as connection:
        _require_idle(connection, name)
        try:
            connection.execute("select pg_drop_replication_slot(%s)", [name])
        except psycopg.errors.ObjectInUse:
            raise SlotInUse(name, None) from None
        except psycopg.Error as error:
            raise _refused("drop", name, error) from None


def advance_holder(options: PostgresOptions, name: str, to: str) -> str:
    """See `Source.advance_holder`."""
    with connect(options) as connection:
        _require_idle(connection, name)
        try:
            parse_lsn(to or "0/0")
        except ValueError:
            raise Usage(f"{to!r} is not a position of this server's log", "Write an LSN, e.g. 0/16B3748") from None
        try:
            row = connection.execute(
                "select end_lsn::text"
                " from pg_replication_slot_advance(%s, coalesce(%s::pg_lsn, pg_current_wal_flush_lsn()))",
                [name, to or None],
            ).fetchone()
        except psycopg.errors.ObjectInUse:
            raise SlotInUse(name, None) from None
        except psycopg.Error as error:
            raise _refused("advance", name, error) from None
        return str(row[0]) if row else to


def _require_idle(connection: psycopg.Connection[Any], name: str) -> None:
    slot = find_slot(connection, name)
    if slot is None:
        raise Usage(f'there is no slot "{name}" on this server')
    if slot.active_pid is not None:
        raise SlotInUse(name, slot.active_pid)


def _refused(verb: str, name: str, error: psycopg.Error) -> Stop:
    said = error.diag
    return Stop(f'cannot {verb} the slot "{name}": {said.message_primary}', *filter(None, [said.message_hint]))
