"""The replication slot: inspect, create, and the exported snapshots that come with creating one.

Knows SQL and nothing of streaming; `log.py` reads from the slot that this module looks after.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.pq.abc import PGconn

from headwater.errors import Stop, Usage
from headwater.sources.postgres.connection import ServerError, command, connect_replication
from headwater.sources.postgres.options import PostgresOptions
from headwater.sources.postgres.position import format_lsn, parse_lsn

LOG = logging.getLogger("headwater.postgres")


# pg_replication_slots.invalidation_reason, for people.
_LOST_BY = {
    "wal_removed": "max_slot_wal_keep_size was reached while nobody read from the slot",
    "idle_timeout": "idle_replication_slot_timeout passed while nobody read from the slot",
    "rows_removed": "the primary removed rows of its catalog that this standby needed; set hot_standby_feedback = on",
    "wal_level_insufficient": "wal_level was lowered on the primary",
}


class SlotInUse(Stop):
    """Somebody else reads from our slot."""

    def __init__(self, slot: str, pid: int | None) -> None:
        super().__init__(
            f'the slot "{slot}" is in use by another process (PID {pid or "unknown"} on the server)',
            "If that is another run of this pipeline: stop it",
            f"If its client is dead:              select pg_terminate_backend({pid});",
            cause="One slot feeds one reader; a second one would take changes away from the first",
        )


@dataclass(frozen=True)
class Slot:
    """One row of pg_replication_slots."""

    name: str
    plugin: str | None
    database: str | None
    active_pid: int | None
    confirmed_flush_lsn: int | None
    wal_status: str | None
    two_phase: bool = False
    # Why it is lost; servers before 17 do not say.
    lost_by: str | None = None

    @property
    def confirmed(self) -> int:
        """Nothing before this comes again; 0 while the slot is being made."""
        return self.confirmed_flush_lsn or 0


def find_slot(connection: psycopg.Connection[Any], name: str) -> Slot | None:
    """The slot as the server knows it, or None."""
    row = connection.execute(
        "select slot_name, plugin, database, active_pid, confirmed_flush_lsn::text, wal_status, two_phase,"
        " to_jsonb(s) ->> 'invalidation_reason' from pg_replication_slots s where slot_name = %s",
        [name],
    ).fetchone()
    if row is None:
        return None
    slot, plugin, database, pid, confirmed, *rest = row
    return Slot(slot, plugin, database, pid, parse_lsn(confirmed) if confirmed else None, *rest)


def advance_slot(connection: psycopg.Connection[Any], name: str, lsn: int) -> int:
    """Move the slot forward to `lsn`, or to the end of the server's log if that is nearer; returns where it is."""
    row = connection.execute(
        "select end_lsn::text from pg_replication_slot_advance(%s, %s::pg_lsn)", [name, format_lsn(lsn)]
    ).fetchone()
    return parse_lsn(row[0]) if row else lsn


def last_reply(connection: psycopg.Connection[Any], slot: str) -> Any:
    """When the reader of a slot last spoke, by its own clock: good for seeing that it speaks, not for telling when."""
    row = connection.execute(
        "select r.reply_time from pg_stat_replication r join pg_replication_slots s on s.active_pid = r.pid"
        " where s.slot_name = %s",
        [slot],
    ).fetchone()
    return row[0] if row else None


def sender_timeout(connection: psycopg.Connection[Any]) -> float:
    """After how many seconds of silence the server lets go of a reader; 0: never."""
    row = connection.execute(
        "select extract(epoch from current_setting('wal_sender_timeout')::interval)::float8"
    ).fetchone()
    return float(row[0]) if row else 0.0


def refuse_unusable(slot: Slot, database: str) -> None:
    """Stop when this slot can never feed us: another plug-in, another database, already lost."""
    if slot.plugin != "pgoutput":
        raise Stop(
            f'the slot "{slot.name}" belongs to the plug-in {slot.plugin or "none (physical)"}, not pgoutput',
            "Choose another name under source.slot: this one is somebody else's",
        )
    if slot.database != database:
        raise Stop(
            f'the slot "{slot.name}" belongs to the database "{slot.database}", not "{database}"',
            "Choose another name under source.slot",
        )
    if slot.two_phase:
        raise Stop(
            f'the slot "{slot.name}" was made for two-phase commit: it hands out what is only prepared',
            "Choose another name under source.slot; ours hand a prepared transaction out when it is committed",
        )
    if slot.wal_status == "lost":
        raise Stop(
            f'the slot "{slot.name}" is lost: the server no longer has what was not read from it',
            f"To load the tables anew: drop the slot (select pg_drop_replication_slot('{slot.name}');),"
            " remove the state folder and the tables in the lake, and run again",
            cause=_LOST_BY.get(slot.lost_by or "wal_removed", slot.lost_by or ""),
        )


@dataclass(frozen=True)
class Exported:
    """A consistent point and the name of the snapshot that shows the database exactly there."""

    lsn: int
    snapshot: str


@contextmanager
def create_slot(options: PostgresOptions, name: str | None) -> Iterator[Exported]:
    """Create a slot and hold its exported snapshot open; without a name a temporary slot, gone at exit.

    The snapshot lives while this connection stays idle. Another connection may stream a permanent slot
    meanwhile."""
    pgconn = connect_replication(options)
    try:
        chosen = name or f"headwater_sync_{uuid4().hex[:12]}"
        how = "LOGICAL pgoutput EXPORT_SNAPSHOT"
        if name and options.slot_failover and _may_fail_over(pgconn):
            how = "LOGICAL pgoutput (SNAPSHOT 'export', FAILOVER)"
        yield _create(pgconn, chosen, how, temporary=name is None)
    finally:
        pgconn.finish()


def ensure_failover(options: PostgresOptions) -> None:
    """A slot that was made without it is carried on by standbys from now on. Protocol: ALTER_REPLICATION_SLOT."""
    pgconn = connect_replication(options)
    try:
        if _may_fail_over(pgconn):
            command(pgconn, f"ALTER_REPLICATION_SLOT {pgconn_quote(options.slot)} (FAILOVER)".encode())
    except ServerError as error:
        raise Usage(f'the slot "{options.slot}" cannot be made a failover slot: {error.text}') from error
    finally:
        pgconn.finish()


def _may_fail_over(pgconn: PGconn) -> bool:
    """PostgreSQL 17 and newer, on a primary; elsewhere slot.failover has no effect, as in Debezium, but is told."""
    if pgconn.server_version < 170000:
        LOG.warning("slot.failover has no effect: the server is older than PostgreSQL 17")
        return False
    if command(pgconn, b"select pg_is_in_recovery()").get_value(0, 0) == b"t":
        LOG.warning("slot.failover has no effect on a standby")
        return False
    return True


def create_in_session(pgconn: PGconn, name: str) -> None:
    """A temporary slot without a snapshot, for streaming on the same connection."""
    _create(pgconn, name, "LOGICAL pgoutput NOEXPORT_SNAPSHOT", temporary=True)


def _create(pgconn: PGconn, name: str, how: str, *, temporary: bool) -> Exported:
    """Protocol: CREATE_REPLICATION_SLOT in "Streaming Replication Protocol". Its keywords are in capitals."""
    kind = "TEMPORARY " if temporary else ""
    try:
        result = command(pgconn, f"CREATE_REPLICATION_SLOT {pgconn_quote(name)} {kind}{how}".encode())
    except ServerError as error:
        raise slot_creation_error(error, name) from error
    lsn, snapshot = (result.get_value(0, column) or b"" for column in (1, 2))
    return Exported(parse_lsn(lsn.decode()), snapshot.decode())


def slot_creation_error(error: ServerError, name: str) -> Stop | Usage:
    """Why a slot could not be made, and the statement that helps."""
    what = f'cannot create the replication slot "{name}": {error.text}'
    match error.sqlstate:
        case "42501":
            return Usage(what, "alter role … replication;   -- as a superuser")
        case "53400":
            return Usage(what, "Raise max_replication_slots, or drop a slot nobody uses: see pg_replication_slots")
        case "55000" | "22023":
            return Usage(what, "alter system set wal_level = logical;   -- then restart the server")
    return Usage(what)


def pgconn_quote(name: str) -> str:
    """An identifier for the replication grammar, which takes double quotes as SQL does."""
    return '"' + name.replace('"', '""') + '"'
