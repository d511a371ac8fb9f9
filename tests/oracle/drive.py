"""One case against one server: set up, start Debezium, run the statements, collect the events of both sides."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from headwater.testing.debezium import Debezium, DebeziumEvent

from .cases import Case
from .database import Database
from .ours import Headwater


def record_debezium(database: Database, case: Case, directory: Path) -> list[DebeziumEvent]:
    """Real Debezium's events for a case."""
    with database.prepared(case, case.name), debezium(database, case, directory) as theirs:
        database.wait_until_streaming(case.name, theirs)
        return stream(database, case, theirs)


def record_headwater(database: Database, case: Case) -> list[DebeziumEvent]:
    """Headwater's events for a case."""
    with database.prepared(case, case.name), headwater(database, case) as ours:
        events = ours.snapshot()
        database.before_headwater(case.name)
        ours.start()
        database.run(case.name, case.script.stream)
        return events + ours.streamed()


def both(database: Database, case: Case, directory: Path) -> tuple[list[DebeziumEvent], list[DebeziumEvent]]:
    """(Debezium's, Headwater's) events of a case: the same transactions, read by each in its own way."""
    with database.prepared(case, case.name), headwater(database, case) as ours:
        with debezium(database, case, directory) as theirs:
            database.wait_until_streaming(case.name, theirs)
            our_events = ours.snapshot()
            database.before_headwater(case.name)
            ours.start()
            their_events = stream(database, case, theirs, ours)
        our_events += ours.streamed()
    return their_events, database.without_ends(our_events)


def debezium(database: Database, case: Case, directory: Path) -> Debezium:
    return Debezium(database.url(case.name), {**database.base, **case.properties}, directory)


@contextlib.contextmanager
def headwater(database: Database, case: Case) -> Iterator[Headwater]:
    ours = Headwater(database.url(case.name), {**database.base, **case.properties, **database.ours})
    try:
        yield ours
    finally:
        ours.close()


def stream(database: Database, case: Case, theirs: Debezium, ours: Headwater | None = None) -> list[DebeziumEvent]:
    """Run the case's statements and wait until Debezium has delivered them all, and `ours` has met every table."""
    blocks = case.script.stream
    parts = [(block,) for block in blocks] if case.paced else [blocks]
    for number, part in enumerate(parts, 1):
        database.run(case.name, part)
        database.emit_end(case.name)
        theirs.wait_condition(partial(has_ends, database, theirs, number), 60, "the statements' events")
        if ours is not None:
            ours.read()
    return database.without_ends(theirs.events())


def has_ends(database: Database, theirs: Debezium, number: int) -> bool:
    return sum(map(database.is_end, theirs.events())) >= number
