"""A journal in an object store: one history whoever writes, nothing lost when requests fail, damage refused by name.

What it has in common with a folder is in `test_journal.py`; here the store is obstore's own in memory.
"""

from __future__ import annotations

import json
import pickle
import platform
import threading
import time
from collections.abc import Callable

import obstore
import pytest
from obstore.store import MemoryStore
from tests.unit.journal.chunk_builder import piece, transactions

from headwater.errors import Retry, Stop
from headwater.event import ORIGIN, Position
from headwater.journal import Journal, JournalReader, Limits, objects, remote
from headwater.journal.block import Damaged
from headwater.journal.objects import ObjectStorage, name_of
from headwater.journal.writer import JournalBusy

CAP = 1 << 30
# Nothing is stored before somebody asks for it.
BY_HAND = Limits(CAP, seal_seconds=3600.0)


class Store(ObjectStorage):
    """In memory, and as unreliable as told."""

    def __init__(self) -> None:
        self.objects = MemoryStore()
        super().__init__(self.objects, "memory")
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None

    def create(self, number: int, data: bytes) -> None:
        self.before()
        super().create(number, data)
        self.after()

    def overwrite(self, number: int, change: Callable[[bytes], bytes]) -> None:
        name = f"segments/{name_of(number)}"
        obstore.put(self.objects, name, change(bytes(obstore.get(self.objects, name).bytes())))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(objects, "LIST_SECONDS", 0.0)
    monkeypatch.setattr(remote, "WATCH_SECONDS", 0.01)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def journal(store: Store) -> Journal:
    return Journal(store)


def fail() -> None:
    raise Retry("the store is away")


def commits(journal: Journal) -> list[int]:
    reader = JournalReader(journal)
    reader.refresh()
    return [block.header.last.commit for block in reader.between(ORIGIN, Position(1 << 60))]


def frames(journal: Journal) -> list[bytes]:
    reader = JournalReader(journal)
    reader.refresh()
    return [bytes(reader.read(block).frames) for block in reader.between(ORIGIN, Position(1 << 60))]


def numbers(store: Store) -> list[int]:
    return [stored.number for stored in store.stored()]


# -- when segments are stored ----------------------------------------------------------------------


def test_the_first_goes_at_once_and_the_next_when_its_time_has_come(journal: Journal):
    opened = journal.writer(Limits(CAP, seal_seconds=3600.0))
    first, second, third = transactions(100, 200, 300)
    opened.append(first)
    opened.sync_when_due()
    while opened.patience < 1:
        opened.sync_when_due()
    assert (opened.synced, opened.readable, commits(journal)) == (first.last, True, [100])

    opened.append(second)
    assert (opened.end, opened.synced, opened.readable) == (second.last, first.last, False)
    assert commits(journal) == [100]
    opened._sealed_at -= 3600
    assert opened.patience == 0
    opened.append(third)
    opened.sync()

    assert (opened.synced, commits(journal)) == (third.last, [100, 200, 300])
    opened.close()


def test_a_giant_transaction_goes_through_many_segments_and_little_memory(journal: Journal, store: Store):
    opened = journal.writer(Limits(CAP, seal_seconds=3600.0, seal_bytes=10_000))
    opened._sealed_at = time.monotonic()
    most = 0
    for ordinal in range(1, 101):
        opened.append(
            piece(
                Position(100, ordinal - 1) if ordinal > 1 else ORIGIN,
                100,
                ordinal,
                whole=ordinal == 100,
                frames=b"x" * 1000,
            )
        )
        most = max(most, opened._gathered)
    assert most <= 10_000
    assert opened.synced == ORIGIN
    opened.close()

    assert len(numbers(store)) >= 10
    assert commits(journal) == [100] * 100


# -- requests that fail ----------------------------------------------------------------------------


def test_what_could_not_be_stored_is_read_from_the_log_again(journal: Journal, store: Store):
    opened = journal.writer(BY_HAND)
    first, second = transactions(100, 200)
    opened.append(first)
    opened.sync()
    store.before = fail
    opened.append(second)
    with pytest.raises(Retry, match="away"):
        opened.sync()
    assert opened.synced == first.last

    store.before = lambda: None
    opened.rewind()
    assert opened.end == first.last
    opened.append(second)
    opened.close()

    assert commits(journal) == [100, 200]


def test_a_segment_whose_answer_was_lost_is_there_once(journal: Journal, store: Store):
    opened = journal.writer(BY_HAND)
    first, second = transactions(100, 200)
    store.after = fail
    opened.append(first)
    with pytest.raises(Retry):
        opened.sync()
    store.after = lambda: None

    opened.rewind()

    assert (opened.end, opened.synced, opened.last_frame) == (first.last, first.last, first.last)
    opened.append(second)
    opened.close()
    assert commits(journal) == [100, 200]


def test_an_unfinished_transaction_that_was_stored_is_void_when_it_comes_again(journal: Journal):
    opened = journal.writer(Limits(CAP, seal_seconds=0.0))
    opened.append(piece(ORIGIN, 100, 1, whole=False, frames=b"lost"))
    opened.rewind()
    opened.append(piece(ORIGIN, 100, 1, whole=False, frames=b"once"))
    opened.append(piece(Position(100, 1), 100, 2))
    opened.close()

    assert frames(journal) == [b"once", b"row"]


# -- two writers -----------------------------------------------------------------------------------


def test_a_writer_that_another_has_replaced_cannot_write(journal: Journal):
    first, second = transactions(100, 200)
    paused = journal.writer(BY_HAND)
    paused.append(first)
    paused.sync()
    paused.append(second)
    replacement = journal.writer(BY_HAND)

    with pytest.raises(Retry, match="there already"):
        paused.sync()
    with pytest.raises(JournalBusy, match="another tail writes"):
        paused.rewind()

    assert replacement.end == first.last
    replacement.append(piece(Position(100, 1), 300, 1))
    replacement.close()
    assert commits(journal) == [100, 300]


def test_the_one_who_writes_while_another_opens_is_not_lost(journal: Journal, store: Store):
    first, second = transactions(100, 200)
    writing = journal.writer(BY_HAND)
    writing.append(first)

    def be_quicker() -> None:
        store.before = lambda: None
        writing.sync()

    store.before = be_quicker
    opened = journal.writer(BY_HAND)

    assert opened.end == first.last
    opened.append(second)
    opened.close()
    assert commits(journal) == [100, 200]


def say(journal: Journal, *, ago: float = 0.0, host: str = "elsewhere", pid: int = 4711) -> None:
    journal.set_status({"state": "reading", "host": host, "pid": pid, "beat": time.time() - ago})


def test_a_tail_that_goes_on_speaking_is_not_replaced(journal: Journal):
    ended = threading.Event()

    def speak() -> None:
        while not ended.wait(0.005):
            say(journal)

    say(journal)
    speaker = threading.Thread(target=speak)
    speaker.start()
    try:
        with pytest.raises(JournalBusy):
            journal.writer(BY_HAND)
    finally:
        ended.set()
        speaker.join()


def test_a_tail_that_has_fallen_silent_is_replaced(journal: Journal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(remote, "LEASE_SECONDS", 0.2)
    say(journal)
    journal.writer(BY_HAND).close()


@pytest.mark.parametrize(
    "said",
    [
        {"ago": 3600.0},
        # Of this machine, and there is no such process.
        {"host": platform.node(), "pid": 1 << 30},
    ],
)
def test_a_tail_that_is_known_to_be_dead_is_replaced_at_once(journal: Journal, said):
    say(journal, **said)
    assert journal.storage.written_by() is None
    journal.writer(BY_HAND).close()


# -- damage ----------------------------------------------------------------------------------------


def three_segments(journal: Journal) -> None:
    opened = journal.writer(BY_HAND)
    for chunk in transactions(100, 200, 300):
        opened.append(chunk)
        opened.sync()
    opened.close()


def test_a_missing_segment_is_named_by_readers_and_writers(journal: Journal, store: Store):
    three_segments(journal)
    store.remove_segment(3)

    for attempt in (lambda: commits(journal), lambda: journal.writer(BY_HAND)):
        with pytest.raises(Damaged, match=r"segment 000000000000003\.hwj in memory: it is missing") as refused:
            attempt()
        assert "expires objects" in str(refused.value)


def test_a_reader_that_misses_what_it_still_needs_is_stopped(journal: Journal, store: Store):
    opened, reader = journal.writer(BY_HAND), JournalReader(journal)
    first, second, third = transactions(100, 200, 300)
    opened.append(first)
    opened.sync()
    reader.refresh()
    for chunk in (second, third):
        opened.append(chunk)
        opened.sync()
    for number in (1, 2, 3):
        store.remove_segment(number)
    reader.refresh()

    with pytest.raises(Stop, match="begins behind the position asked for"):
        reader.between(first.last, reader.end)
    assert [block.header.last.commit for block in reader.between(second.last, reader.end)] == [300]
    opened.close()


def test_every_flipped_bit_of_a_segment_is_noticed(journal: Journal, store: Store):
    three_segments(journal)
    whole = bytes(obstore.get(store.objects, f"segments/{name_of(3)}").bytes())
    for at in range(0, len(whole), 5):
        store.overwrite(3, lambda _data, at=at: whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(Damaged, match=name_of(3)):
            frames(journal)


def test_an_index_larger_than_the_first_request_is_read_whole(journal: Journal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(objects, "INDEX_BYTES", 100)
    opened = journal.writer(BY_HAND)
    opened._sealed_at = time.monotonic()
    for chunk in transactions(*range(100, 3000, 100)):
        opened.append(chunk)
    opened.close()
    assert commits(journal) == list(range(100, 3000, 100))


# -- retention -------------------------------------------------------------------------------------


def test_retention_removes_from_the_oldest_on_and_knows_what_it_did_not_write(journal: Journal, store: Store):
    three_segments(journal)
    opened = journal.writer(BY_HAND)
    assert numbers(store) == [1, 2, 3, 4, 5]

    opened.forget(Position(200, 0), young=True)
    assert numbers(store) == [3, 4, 5]
    opened.forget(Position(300, 1), young=True)
    assert numbers(store) == [5]
    assert opened.size < 1000
    opened.close()

    again = journal.writer(BY_HAND)
    assert again.end == Position(300, 1)
    again.close()


def test_what_is_young_stays_for_replays(journal: Journal, store: Store):
    three_segments(journal)
    opened = journal.writer(Limits(CAP, keep_seconds=3600.0, seal_seconds=3600.0))
    opened.forget(opened.end)
    opened.close()
    assert numbers(store) == [1, 2, 3, 4, 5]


# -- the rest --------------------------------------------------------------------------------------


def test_credentials_do_not_travel_with_a_storage(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "topsecret")
    journal = Journal("s3://bucket/some/prefix/")
    packed = pickle.dumps(journal.storage)
    assert b"topsecret" not in packed
    assert pickle.loads(packed).place == "s3://bucket/some/prefix"  # noqa: S301
    assert "topsecret" not in json.dumps(journal.place)


def test_a_reader_that_is_interrupted_while_it_catches_up_misses_nothing(
    journal: Journal, store: Store, monkeypatch: pytest.MonkeyPatch
):
    three_segments(journal)
    reader, real = JournalReader(journal), store.segment

    def away_from_the_third_on(number: int) -> objects.Segment | None:
        if number >= 3:
            raise Retry("the store is away")
        return real(number)

    monkeypatch.setattr(store, "segment", away_from_the_third_on)
    with pytest.raises(Retry):
        reader.refresh()
    monkeypatch.setattr(store, "segment", real)
    assert reader.refresh()
    assert [block.header.last.commit for block in reader.between(ORIGIN, reader.end)] == [100, 200, 300]
