"""Which history a server has lived through: its timelines, and where each was left for the next.

A promoted standby, or a backup restored to a point in time, begins a new timeline. Up to that point its log is
the one we read; behind it, it is another, with the same addresses. The two are never mixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.pq.abc import PGconn

from headwater.errors import Retry, Stop
from headwater.event import Position
from headwater.journal import SourceFiles
from headwater.sources.postgres.connection import command
from headwater.sources.postgres.options import PostgresOptions
from headwater.sources.postgres.position import flush_lsn, format_lsn, parse_lsn

FILE = "history.json"
_ANEW = "To load the tables anew: drop the slot, remove the state folder and the tables in the lake, and run again"


@dataclass(frozen=True)
class History:
    """A server's past as its own words have it."""

    system: str
    database: str
    timeline: int
    # Timelines before this one → where each was left.
    left: Mapping[int, int]
    # How far its log goes by now.
    end: int


def read_history(pgconn: PGconn) -> History:
    """Protocol: IDENTIFY_SYSTEM and TIMELINE_HISTORY in "Streaming Replication Protocol"."""
    result = command(pgconn, b"IDENTIFY_SYSTEM")
    system, number, end, database = ((result.get_value(0, column) or b"").decode() for column in range(4))
    timeline, left = int(number), {}
    if timeline > 1:
        content = command(pgconn, b"TIMELINE_HISTORY %d" % timeline).get_value(0, 1) or b""
        # Lines of: timeline, tab, where it was left, tab, why.
        rows = [line.split() for line in content.decode().splitlines() if line.strip() and not line.startswith("#")]
        left = {int(row[0]): parse_lsn(row[1]) for row in rows}
    return History(system, database, timeline, left, parse_lsn(end))


def known_timeline(files: SourceFiles | None) -> int | None:
    """The timeline on which our positions were read; None when nothing was kept."""
    read = files.read_json(FILE) if files else None
    return None if read is None else int(read["timeline"])


def keep_timeline(files: SourceFiles | None, timeline: int) -> None:
    """From here on, positions are this timeline's."""
    if files is not None and known_timeline(files) != timeline:
        files.write(FILE, f'{{"timeline": {timeline}}}')


def refuse_other_history(history: History, known: int | None, lsn: int, *, standby: bool) -> None:
    """Stop when what we have read up to `lsn` is not a part of this server's past."""
    if known is not None and known != history.timeline:
        left = history.left.get(known)
        if left is None:
            raise Stop(
                f"the server is on timeline {history.timeline}, which does not come from timeline {known}"
                " that was read before",
                _ANEW,
                cause="It was restored or promoted from a time before; its history is not the one in the journal",
            )
        if left < lsn:
            raise Stop(
                f"the server left timeline {known} at {format_lsn(left)}, but we have read it up to {format_lsn(lsn)}",
                _ANEW,
                "To avoid it: slot.failover: true, and synchronized_standby_slots on the primary (PostgreSQL 17)",
                cause="A standby was promoted, or a backup restored, that lacks changes which were delivered already",
            )
    if history.end < lsn:
        if standby:
            raise Retry(f"the standby has replayed up to {format_lsn(history.end)}, not yet to {format_lsn(lsn)}")
        raise Stop(
            f"the server's log ends at {format_lsn(history.end)}, before our position {format_lsn(lsn)}",
            _ANEW,
            cause="It was restored from a backup of an earlier time; its history is another one now",
        )


def refuse_rewritten(
    connection: psycopg.Connection[Any], options: PostgresOptions, confirmed: int, witness: Position
) -> None:
    """Stop when a transaction that we have is not in the log that the slot would send again.

    A slot that has gone back is ordinary after a crash of the server: it sends once more what we have. A backup that
    went on by itself, on the same timeline, has another transaction there, or none."""
    if not witness.ordinal or not confirmed <= witness.commit < flush_lsn(witness) - 1:
        # Confirmed already, or not the end of a transaction: the log has nothing to show.
        return
    commit = b"C\0" + witness.commit.to_bytes(8, "big")
    try:
        row = connection.execute(
            "select exists (select from pg_logical_slot_peek_binary_changes("
            "%s, %s::pg_lsn, null, 'proto_version', '1', 'publication_names', %s)"
            " where substring(data from 1 for 10) = %s)",
            [options.slot, format_lsn(flush_lsn(witness)), _quoted(options.publication), commit],
        ).fetchone()
    except (psycopg.errors.UndefinedObject, psycopg.errors.ObjectInUse, psycopg.errors.ObjectNotInPrerequisiteState):
        # A publication that is missing and a slot that is lost or taken are told by whoever reads the slot.
        return
    if row is None or not row[0]:
        raise Stop(
            f"the server's log has no transaction that commits at {format_lsn(witness.commit)}, which we have read",
            _ANEW,
            cause="It was restored from a backup and went on from there: another history, with the same addresses",
        )


def _quoted(name: str) -> str:
    """A publication in the list that pgoutput takes: names as in SQL, with commas between them."""
    return '"' + name.replace('"', '""') + '"'
