"""The tail's loop over a scripted log: what it stores, confirms, and says about itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.journal.chunk_builder import piece, transactions

from headwater.errors import Retry, Stop
from headwater.event import ORIGIN, Chunk, Position, TableSchema
from headwater.journal import Journal, JournalReader, Limits
from headwater.journal.file_writer import FileWriter
from headwater.journal.folder import FolderStorage
from headwater.sources.base import Confirm, Log, SourceOptions
from headwater.tail import loop
from headwater.tail.loop import GaveUp, Tail

CAP = 1 << 30


class ScriptedLog(Log):
    """Hands out chunks and raises errors in the given order; afterwards nothing comes."""

    def __init__(self, script: list[Chunk | Exception]) -> None:
        self.script = script
        self.confirmed: list[Position] = []
        self.received = 0
        self.held = 0
        self.closed = False

    def read(self, timeout: float) -> Chunk | None:
        if not self.script:
            return None
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        self.received = step.last.commit
        return step

    def schema(self, schema: str) -> TableSchema:
        return TableSchema("public", "t", ())

    def confirm(self, position: Position) -> None:
        self.confirmed.append(position)

    def hold(self) -> None:
        self.held += 1

    def close(self) -> None:
        self.closed = True

    def lag(self) -> Mapping[str, Any]:
        return {"received": self.received}


class ScriptedSource:
    """One log after the other, as connections break."""

    def __init__(
        self, *scripts: list[Chunk | Exception] | Exception, confirms: Confirm = Confirm.DURABLE, retries: int = -1
    ) -> None:
        self.confirms = confirms
        self.options = SourceOptions(errors_max_retries=retries)
        self.logs = [each if isinstance(each, Exception) else ScriptedLog(each) for each in scripts]
        self.opened_after: list[Position] = []
        self._left = list(self.logs)

    def log(self, after: Position) -> Log:
        self.opened_after.append(after)
        found = self._left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    made = Journal(tmp_path / "journal")
    made.create("postgres", "postgres:1/shop/slot", {})
    return made


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every turn keeps house, and nobody sleeps long."""
    monkeypatch.setattr(FolderStorage, "pace", 0.0)
    monkeypatch.setattr(loop, "READ_SECONDS", 0.001)
    monkeypatch.setattr(loop, "FIRST_BACKOFF_SECONDS", 0.001)


def run(source: ScriptedSource, journal: Journal, until: Callable[[], bool], cap: int = CAP) -> None:
    """Until the condition holds, or the turns that it may take are over."""
    turns = iter(range(5000))
    tail = Tail(
        source, journal, Position(50, 0, "0/32"), Limits(cap), lambda: not until() and next(turns, None) is not None
    )
    try:
        tail.run()
    finally:
        tail.close()
    assert until()


def commits(journal: Journal) -> list[tuple[int, int]]:
    reader = JournalReader(journal)
    reader.refresh()
    return [(b.header.last.commit, b.header.last.ordinal) for b in reader.between(ORIGIN, Position(1 << 60))]


def test_what_the_log_hands_out_is_in_the_journal_and_then_in_the_status(journal):
    source = ScriptedSource(list(transactions(100, 200)))
    run(source, journal, lambda: journal.status().get("received") == 200)

    assert commits(journal) == [(100, 1), (200, 1)]
    assert source.opened_after == [Position(50)]
    status = journal.status()
    assert (status["state"], status["changes"], status["end"]) == ("reading", 2, [200, 1])
    assert source.logs[0].closed


def test_a_broken_connection_is_opened_again_behind_the_last_whole_transaction(journal):
    (first,) = transactions(100)
    half = piece(Position(100, 1), 200, 1, whole=False)
    source = ScriptedSource(
        [first, half, Retry("cut")],
        [half, piece(Position(200, 1), 200, 2)],
    )
    run(source, journal, lambda: (200, 2) in commits(journal))

    assert source.opened_after == [Position(50), Position(100, 1)]
    # Once, though its first piece came twice.
    assert commits(journal) == [(100, 1), (200, 1), (200, 2)]


def test_a_server_that_cannot_be_reached_is_tried_again_and_said(journal):
    source = ScriptedSource(Retry("nobody answers"), list(transactions(100)))
    said = []

    def done() -> bool:
        said.append(journal.status().get("error", ""))
        return bool(commits(journal))

    run(source, journal, done)
    assert any("nobody answers" in text for text in said)


def test_an_error_that_a_person_must_decide_ends_the_tail(journal):
    with pytest.raises(Stop, match="gone"):
        run(ScriptedSource([Stop("the slot is gone")]), journal, lambda: False)


def test_only_what_every_consumer_holds_is_confirmed_and_again_on_a_new_connection(journal):
    journal.set_consumer("one", Position(100, 1, "0/6C"))
    journal.set_consumer("two", None)
    source = ScriptedSource([*transactions(100, 200), Retry("cut")], [])
    turns = 0

    def done() -> bool:
        nonlocal turns
        turns += 1
        if turns == 4:
            assert source.logs[0].confirmed == []
            journal.set_consumer("two", Position(200, 1, "0/D0"))
        return bool(source.logs[1].confirmed)

    run(source, journal, done)

    assert [position.resume for position in source.logs[1].confirmed] == ["0/6C"]


def test_at_the_cap_reading_waits_and_the_status_does_not_run_ahead(journal):
    journal.set_consumer("slow", None)
    chunks = transactions(100, 200, 300, size=3000)
    source = ScriptedSource(list(chunks))
    seen = set()

    def done() -> bool:
        status = journal.status()
        if status.get("state") == "full":
            seen.add((status["received"], status["end"][0]))
            # The chunk that does not fit was handed out, but nobody can read it yet.
            assert status["received"] == status["end"][0]
            if source.logs[0].held > 2:
                journal.set_consumer("slow", Position(status["end"][0], 1))
        return (300, 1) in commits(journal)

    run(source, journal, done, cap=8000)
    assert seen
    assert source.logs[0].held > 2


def test_a_transaction_larger_than_the_cap_stops_with_the_remedy(journal):
    journal.set_consumer("quick", Position(50))
    pieces = [piece(Position(100, n), 100, n + 1, whole=False, frames=b"x" * 3000) for n in range(5)]
    with pytest.raises(Stop, match="larger than the journal's cap") as stopped:
        run(ScriptedSource(list(pieces)), journal, lambda: False, cap=8000)
    assert "journal_max_bytes" in str(stopped.value)


def test_a_consumer_ahead_of_the_journal_decides_where_the_log_begins(journal):
    journal.set_consumer("delta", Position(900, 3))
    source = ScriptedSource([])
    run(source, journal, lambda: bool(source.opened_after))
    assert source.opened_after[0] == Position(900, 3)


def tick(first: Position, lsn: int) -> Chunk:
    """The log moved on without a change."""
    return Chunk(b"", np.empty(0, np.uint32), first, Position(lsn, 0, f"0/{lsn:X}"), whole=True)


@pytest.mark.parametrize(
    ("confirms", "sink", "told"),
    [
        (Confirm.DURABLE, 100, 108),
        (Confirm.DURABLE, 200, 208),
        # Something is in flight: the server's word counts for nothing yet.
        (Confirm.IDLE, 100, 108),
        (Confirm.IDLE, 200, 300),
        (Confirm.JOURNALED, 100, 300),
        (Confirm.JOURNALED, None, 300),
        (Confirm.DURABLE, None, None),
        (Confirm.IDLE, None, None),
        (Confirm.NEVER, 200, None),
    ],
)
def test_how_far_the_log_is_confirmed(journal, monkeypatch, confirms, sink, told):
    monkeypatch.setattr(FileWriter, "sync_seconds", 0.0)
    journal.set_consumer("sink", None if sink is None else Position(sink, 1, f"0/{sink + 8:X}"))
    source = ScriptedSource([*transactions(100, 200), tick(Position(200, 1), 300)], confirms=confirms)
    turns = iter(range(20))
    run(source, journal, lambda: journal.status().get("received") == 300 and next(turns, None) is None)
    confirmed = source.logs[0].confirmed
    assert (confirmed[-1].resume if confirmed else None) == (None if told is None else f"0/{told:X}")


def test_what_is_confirmed_by_the_journal_alone_is_on_disk_first(journal, monkeypatch):
    monkeypatch.setattr(FileWriter, "sync_seconds", 3600.0)
    source = ScriptedSource(list(transactions(100)), confirms=Confirm.JOURNALED)
    turns = iter(range(20))
    run(source, journal, lambda: journal.status().get("received") == 100 and next(turns, None) is None)
    assert source.logs[0].confirmed == []


def test_a_journal_that_lost_its_end_names_the_hole(journal):
    opened = journal.writer(Limits(CAP))
    for chunk in transactions(100, 200):
        opened.append(chunk)
    opened.close()
    journal.set_consumer("delta", Position(500, 1, "0/1FC"))
    source = ScriptedSource([piece(Position(500, 1), 600, 1)])
    run(source, journal, lambda: (600, 1) in commits(journal))

    reader = JournalReader(journal)
    reader.refresh()
    assert [(b.header.first.commit, b.header.last.commit, b.header.gap) for b in reader.gaps()] == [
        (200, 500, "every consumer had it")
    ]


def test_a_source_that_does_not_come_back_is_given_up_after_the_attempts_allowed(journal):
    source = ScriptedSource(*[Retry("nobody answers", "start it")] * 4, retries=3)
    with pytest.raises(GaveUp, match="after 3 attempts in a row: nobody answers") as gave_up:
        run(source, journal, lambda: False)
    assert gave_up.value.exit_status == 1
    assert "errors.max.retries" in str(gave_up.value)


def test_a_connection_that_brought_something_is_not_counted_against_the_source(journal):
    chunks = transactions(100, 200, 300, 400)
    source = ScriptedSource(*([chunk, Retry("cut")] for chunk in chunks), [], retries=1)
    run(source, journal, lambda: len(source.opened_after) == 5)
