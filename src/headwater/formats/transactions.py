"""Where transactions begin and end, as records between the events (`provide.transaction.metadata`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.event import Position
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.debezium_records import Record, begin_record, end_record
from headwater.formats.order import Orders


@dataclass(frozen=True)
class Boundary:
    """A record right before or right behind the change at its position."""

    record: Record
    position: Position
    opens: bool
    # Commit time, microseconds since the epoch.
    time: int


def boundaries(
    options: DebeziumOptions, orders: Orders, after: Position | None = None, upto: Position | None = None
) -> Iterator[Boundary]:
    """Of a chunk's transactions: each end with the change it stands at, so that who has the one has the other."""
    timeline = orders.timeline
    for transaction, events in orders.transactions():
        milliseconds = transaction.time // 1000
        last = timeline.ordinal[transaction.first + transaction.changes - 1] if transaction.changes else 0
        ends = (
            (transaction.begin, Position(transaction.commit, 1), True),
            (transaction.end, Position(transaction.commit, int(last)), False),
        )
        for name, position, opens in ends:
            if name is None or (after is not None and position <= after) or (upto is not None and position > upto):
                continue
            make = (
                begin_record(options, name, milliseconds) if opens else end_record(options, name, milliseconds, events)
            )
            yield Boundary(make, position, opens, transaction.time)
