"""A journal in Kafka: what is written is read, by one writer at a time; and tail and sinks on different machines."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tests.conftest import Database
from tests.integration.hosts import Hosts, either_side_dies
from tests.unit.journal.chunk_builder import piece, transactions

from headwater.errors import Stop
from headwater.event import ORIGIN, Position, TableSchema
from headwater.journal import Journal, JournalReader, Limits
from headwater.journal.kafka import KafkaStorage
from headwater.journal.writer import JournalBusy
from headwater.testing.kafka import KafkaServer

pytestmark = pytest.mark.server

CAP = 1 << 30
BY_HAND = Limits(CAP, seal_seconds=3600.0)
_numbers = itertools.count(1)


@pytest.fixture
def journal(kafka: KafkaServer) -> Journal:
    made = Journal(f"kafka://{kafka.bootstrap}/journal-{next(_numbers)}")
    made.create("postgres", "postgres:1/shop/slot", {"database": "shop"})
    return made


def elsewhere(journal: Journal) -> Journal:
    """The same journal as another process has it."""
    return Journal(KafkaStorage(*journal.place.removeprefix("kafka://").split("/")))


def frames(journal: Journal) -> list[tuple[int, int, int]]:
    """(commit, ordinal, bytes) of every block that a fresh reader is shown, each read by its place."""
    reader = JournalReader(journal)
    reader.refresh()
    return [
        (block.header.last.commit, block.header.last.ordinal, len(reader.read(block).frames))
        for block in reader.between(ORIGIN, Position(1 << 60))
    ]


def test_small_files_are_replaced_listed_and_removed(journal: Journal):
    again = elsewhere(journal)
    assert again.about() == journal.about()
    with pytest.raises(Stop, match="belongs to another log"):
        again.create("postgres", "postgres:2/shop/slot", {})
    journal.set_consumer("slow/one", Position(100, 1, "0/5"))
    journal.set_consumer("fast", Position(300, 1))
    journal.set_consumer("fast", Position(400, 1))
    assert again.consumer_positions() == {"fast": Position(400, 1), "slow/one": Position(100, 1)}
    again.remove_consumer("slow/one")
    assert journal.durable() == Position(400, 1)
    table = TableSchema("public", "t", (), ("id",), ("id",), {"oid": 5})
    journal.store_schema(table)
    assert again.schema(table.id) == table
    journal.source.append("lines", "one\n")
    journal.source.append("lines", "two\n")
    assert again.source.read("lines") == "one\ntwo\n"


def test_blocks_of_any_size_come_back_in_order_when_their_transaction_is_whole(journal: Journal):
    opened, reader = journal.writer(BY_HAND), JournalReader(elsewhere(journal))
    opened.append(piece(ORIGIN, 100, 1, whole=False, frames=b"x" * 3_000_000))
    opened.sync()
    assert not reader.refresh()
    opened.append(piece(Position(100, 1), 100, 2))
    opened.append(piece(Position(100, 2), 200, 1, frames=b"y" * 1_000_000))
    assert not opened.readable
    opened.sync()
    assert opened.synced == Position(200, 1)
    assert frames(journal) == [(100, 1, 3_000_000), (100, 2, 3), (200, 1, 1_000_000)]
    opened.append(piece(Position(200, 1), 300, 1, whole=False))
    opened.close()

    # What a process that ended inside a transaction left is void.
    again = journal.writer(BY_HAND)
    assert (again.end, again.last_frame) == (Position(200, 1), Position(200, 1))
    again.append(piece(Position(200, 1), 300, 1, frames=b"anew"))
    again.close()
    assert frames(journal)[3:] == [(300, 1, 4)]
    assert reader.refresh()
    assert reader.end == Position(300, 1)


def test_whoever_begins_to_write_fences_all_who_did_before(journal: Journal):
    first, second = transactions(100, 200)
    paused = journal.writer(BY_HAND)
    paused.append(first)
    paused.sync()
    paused.append(second)
    replacement = elsewhere(journal).writer(BY_HAND)

    with pytest.raises(JournalBusy, match="another tail writes"):
        paused.sync()
    with pytest.raises(JournalBusy):
        paused.rewind()

    assert replacement.end == first.last
    replacement.append(piece(Position(100, 1), 300, 1))
    replacement.close()
    assert [commit for commit, _ordinal, _size in frames(journal)] == [100, 300]


def test_what_everybody_has_is_deleted_and_its_room_is_there_again(journal: Journal):
    opened = journal.writer(BY_HAND)
    for chunk in transactions(100, 200, 300, size=1000):
        opened.append(chunk)
        opened.sync()
    reader = JournalReader(elsewhere(journal))
    reader.refresh()
    before = opened.size
    [first, *_] = reader.between(ORIGIN, reader.end)
    opened.forget(Position(200, 1))
    # The broker would give the next block that it has.
    with pytest.raises(Stop, match="missing"):
        reader.read(first)
    assert [commit for commit, _ordinal, _size in frames(journal)] == [300]
    assert opened.size < before / 2
    opened.close()

    again = elsewhere(journal).writer(BY_HAND)
    assert again.end == Position(300, 1)
    assert again.size == opened.size == journal.storage.size()
    again.append(piece(Position(300, 1), 400, 1))
    again.close()
    # One who stood before what was deleted goes on, and is told when it still needs it.
    assert reader.refresh()
    assert reader.end == Position(400, 1)
    late = JournalReader(journal)
    late.refresh()
    with pytest.raises(Stop, match="begins behind"):
        late.between(Position(100, 1), late.end)


@pytest.mark.slow
def test_either_side_dies_and_comes_back_and_nothing_is_lost_or_doubled(
    database: Database, kafka: KafkaServer, tmp_path: Path
):
    hosts = Hosts(database, tmp_path, f"kafka://{kafka.bootstrap}/journal-{next(_numbers)}")
    try:
        either_side_dies(hosts, "nothing secret here")
    finally:
        hosts.close()
