"""The journal: what is written is read, once and in order, through crashes, damage and full disks."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from obstore.store import MemoryStore
from tests.unit.journal.chunk_builder import piece, transactions

from headwater.errors import Stop
from headwater.event import ORIGIN, Chunk, Position, TableRun, TableSchema
from headwater.journal import Journal, JournalFull, JournalReader, JournalWriter, Limits, file_writer, objects
from headwater.journal.block import PREFIX, Damaged, decode_header, decode_payload, decode_prefix, encode_block
from headwater.journal.segments import read_block
from headwater.journal.writer import JournalBusy

CAP = Limits(1 << 30)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """In a folder."""
    return created(Journal(tmp_path / "journal"))


@pytest.fixture(params=["folder", "objects"])
def any_journal(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """Wherever a journal may lie."""
    if request.param == "folder":
        return created(Journal(tmp_path / "journal"))
    monkeypatch.setattr(objects, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(objects, "LIST_SECONDS", 0.0)
    return created(Journal(objects.ObjectStorage(MemoryStore(), "memory")))


def created(journal: Journal) -> Journal:
    journal.create("postgres", "postgres:1/shop/slot", {"database": "shop"})
    return journal


def write(journal: Journal, *chunks: Chunk, cap: Limits = CAP) -> None:
    """As a process that ends well."""
    opened = journal.writer(cap)
    append(opened, *chunks)
    opened.close()


def append(opened: JournalWriter, *chunks: Chunk) -> None:
    """Each so that it can be read."""
    for chunk in chunks:
        opened.append(chunk)
        opened.sync()


def crash(journal: Journal, *chunks: Chunk) -> None:
    """As a process that is killed behind these chunks."""
    opened = journal.writer(CAP)
    append(opened, *chunks)
    kill(opened)


def kill(opened: JournalWriter) -> None:
    """As the kernel does with a dead process."""
    if isinstance(opened, file_writer.FileWriter):
        assert opened._file is not None
        opened._file.close()
        opened._lock.close()


def read(journal: Journal) -> list[tuple[int, int]]:
    """The last positions of the blocks that a fresh reader is shown."""
    reader = JournalReader(journal)
    reader.refresh()
    return shown(reader)


def shown(reader: JournalReader) -> list[tuple[int, int]]:
    blocks = reader.between(ORIGIN, Position(1 << 60))
    return [(block.header.last.commit, block.header.last.ordinal) for block in blocks]


def segments(journal: Journal) -> list[Path]:
    return sorted(journal.storage.segments.iterdir())


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block in a segment of its own."""
    monkeypatch.setattr(file_writer, "SEGMENT_BYTES", 1)


# -- blocks ----------------------------------------------------------------------------------------


def test_a_block_gives_back_the_chunk():
    chunk = Chunk(
        frames=b"abcde",
        lengths=np.array([2, 3], dtype=np.uint32),
        first=Position(1, 2),
        last=Position(3, 4, "0/5"),
        whole=True,
        tables=(TableRun(7, 'public."ü\n', "id", 2),),
        context={"commit": 1, "ordinal": 2, "time": 3, "xid": 4},
        commit_time=9,
    )
    data = b"".join(bytes(part) for part in encode_block(chunk, "s1"))

    header_size, payload_size, header_crc, payload_crc = decode_prefix(data)
    header = decode_header(data[PREFIX.size : PREFIX.size + header_size], payload_size, header_crc)
    back = decode_payload(header, bytearray(data[-payload_size:]), payload_crc)

    assert bytes(back.frames) == b"abcde"
    assert back.lengths.tolist() == [2, 3]
    assert (back.first, back.last, back.last.resume, back.whole) == (chunk.first, chunk.last, "0/5", True)
    assert (back.tables, back.context, back.commit_time) == (chunk.tables, chunk.context, 9)
    assert header.session == "s1"


def test_every_flipped_bit_of_a_block_is_noticed(journal):
    write(journal, *transactions(100))
    (path,) = segments(journal)
    whole = path.read_bytes()
    for at in range(len(whole)):
        for bit in (0, 7):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :])
            with pytest.raises(Damaged):
                read_block(path, 0)


# -- writing and reading ---------------------------------------------------------------------------


def test_what_is_appended_is_read_in_order_over_several_segments(journal, small_segments):
    write(journal, *transactions(100, 200, 300))
    write(journal, *transactions(400))

    assert len(segments(journal)) == 4
    assert read(journal) == [(100, 1), (200, 1), (300, 1), (400, 1)]


def test_a_reader_sees_what_a_writer_appends_meanwhile(any_journal):
    opened, reader = any_journal.writer(CAP), JournalReader(any_journal)
    for number, chunk in enumerate(transactions(100, 200, 300), start=1):
        append(opened, chunk)
        assert reader.refresh()
        assert len(shown(reader)) == number
    assert not reader.refresh()
    assert reader.end == Position(300, 1)
    opened.close()


def test_a_block_half_written_is_not_there_yet(journal):
    write(journal, *transactions(100, 200))
    (path,) = segments(journal)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert read(journal) in ([], [(100, 1)])


def test_a_transaction_is_shown_when_its_last_piece_is_there(any_journal):
    opened, reader = any_journal.writer(CAP), JournalReader(any_journal)
    append(opened, piece(ORIGIN, 100, 1, whole=False))
    append(opened, piece(Position(100, 1), 100, 2, whole=False))
    assert not reader.refresh()
    assert reader.end == ORIGIN

    append(opened, piece(Position(100, 2), 100, 3))

    assert reader.refresh()
    assert shown(reader) == [(100, 1), (100, 2), (100, 3)]
    opened.close()


def test_between_gives_the_blocks_of_a_range(any_journal):
    write(any_journal, *transactions(100, 200, 300))
    reader = JournalReader(any_journal)
    reader.refresh()

    def found(after, upto):
        return [block.header.last.commit for block in reader.between(after, upto)]

    assert found(Position(100, 1), Position(300, 1)) == [200, 300]
    assert found(Position(100, 0), Position(200, 1)) == [100, 200]
    assert found(Position(300, 1), Position(400)) == []
    reader.forget(Position(200, 1))
    assert found(ORIGIN, Position(400)) == [300]
    reader.forget(Position(300, 1))
    assert reader.end == Position(300, 1)


# -- after a crash ---------------------------------------------------------------------------------


def test_a_torn_end_is_cut_back_to_the_last_whole_transaction(journal):
    write(journal, *transactions(100))
    (path,) = segments(journal)
    good = path.stat().st_size
    crash(journal, piece(Position(100, 1), 200, 1, whole=False), piece(Position(200, 1), 200, 2))
    whole = path.read_bytes()
    for size in range(good, len(whole), 2):
        path.write_bytes(whole[:size])
        opened = journal.writer(CAP)
        assert opened.end == Position(100, 1)
        assert opened.end.resume == "0/6C"
        opened.close()
        assert path.stat().st_size == good


def test_an_unfinished_transaction_over_segments_is_cut_off(journal, small_segments):
    crash(journal, *transactions(100), piece(Position(100, 1), 200, 1, whole=False))
    crash(journal, piece(Position(100, 1), 200, 1, whole=False), piece(Position(200, 1), 200, 2, whole=False))
    assert len(segments(journal)) == 3

    opened = journal.writer(CAP)

    assert opened.end == Position(100, 1)
    assert len(segments(journal)) == 1
    opened.close()


@pytest.mark.parametrize("where", ["prefix", "header", "frames"])
def test_damage_in_the_middle_is_refused_and_nothing_is_touched(journal, where):
    write(journal, *transactions(100, 200, 300))
    (path,) = segments(journal)
    data = bytearray(path.read_bytes())
    at = {"prefix": 0, "header": PREFIX.size + 3, "frames": len(data) // 3 - 1}[where]
    data[at] ^= 1
    path.write_bytes(data)

    with pytest.raises(Damaged, match="damaged in the middle"):
        journal.writer(CAP)

    assert path.read_bytes() == data


def test_a_torn_segment_before_the_last_is_refused(journal, small_segments):
    write(journal, *transactions(100, 200))
    first, _second = segments(journal)
    first.write_bytes(first.read_bytes()[:-1])

    with pytest.raises(Damaged, match="damaged in the middle"):
        journal.writer(CAP)


def test_a_refused_writer_lets_go_of_the_lock(journal, small_segments):
    write(journal, *transactions(100, 200))
    first, _second = segments(journal)
    whole = first.read_bytes()
    first.write_bytes(whole[:-1])
    with pytest.raises(Damaged):
        journal.writer(CAP)
    first.write_bytes(whole)

    journal.writer(CAP).close()


def test_a_reader_forgets_a_piece_that_a_new_session_cut_off(any_journal):
    crash(any_journal, *transactions(100), piece(Position(100, 1), 200, 1, whole=False, frames=b"void"))
    reader = JournalReader(any_journal)
    reader.refresh()

    write(any_journal, piece(Position(100, 1), 200, 1, whole=False, frames=b"good"), piece(Position(200, 1), 200, 2))

    assert reader.refresh()
    assert shown(reader) == [(100, 1), (200, 1), (200, 2)]
    assert [bytes(reader.read(b).frames) for b in reader.between(Position(100, 1), Position(200, 2))] == [
        b"good",
        b"row",
    ]


def test_a_reader_survives_that_the_segment_of_a_void_piece_is_gone(journal, small_segments):
    crash(journal, *transactions(100), piece(Position(100, 1), 200, 1, whole=False))
    reader = JournalReader(journal)
    reader.refresh()
    opened = journal.writer(CAP)
    assert len(segments(journal)) == 1

    assert not reader.refresh()

    opened.append(piece(Position(100, 1), 200, 1))
    assert reader.refresh()
    assert shown(reader) == [(100, 1), (200, 1)]
    opened.close()


def test_a_reader_finds_what_follows_when_nothing_whole_was_left(journal, small_segments):
    opened = journal.writer(CAP)
    opened.append(*transactions(100))
    reader = JournalReader(journal)
    opened.append(piece(Position(100, 1), 200, 1, whole=False))
    opened.append(piece(Position(200, 1), 200, 2, whole=False))
    opened.forget(Position(100, 1))
    reader.refresh()
    kill(opened)

    write(journal)
    write(journal, piece(Position(100, 1), 200, 1), piece(Position(200, 1), 300, 1))

    reader.refresh()
    assert shown(reader) == [(200, 1), (300, 1)]


def test_a_transaction_that_comes_again_after_a_reconnect_is_shown_once(any_journal):
    opened, reader = any_journal.writer(CAP), JournalReader(any_journal)
    append(opened, piece(ORIGIN, 100, 1, whole=False, frames=b"lost"))
    reader.refresh()

    opened.rewind()
    append(opened, piece(ORIGIN, 100, 1, whole=False, frames=b"once"))
    append(opened, piece(Position(100, 1), 100, 2))

    assert reader.refresh()
    assert shown(reader) == [(100, 1), (100, 2)]
    assert bytes(reader.read(reader.between(ORIGIN, Position(100, 1))[0]).frames) == b"once"
    opened.close()
    assert read(any_journal) == [(100, 1), (100, 2)]


def test_rewinding_a_whole_end_changes_nothing(any_journal):
    opened = any_journal.writer(CAP)
    append(opened, *transactions(100))
    opened.rewind()
    append(opened, piece(Position(100, 1), 200, 1))
    opened.close()

    assert read(any_journal) == [(100, 1), (200, 1)]


# -- room ------------------------------------------------------------------------------------------


def test_at_the_cap_nothing_is_written_until_consumers_have_moved_on(any_journal):
    cap = 20_000
    opened = any_journal.writer(Limits(cap))
    written = []

    def append_all() -> None:
        for chunk in transactions(*range(100, 2000, 100), size=2000):
            append(opened, chunk)
            written.append(chunk.last.commit)

    with pytest.raises(JournalFull) as full:
        append_all()
    assert full.value.at_cap
    assert opened.size <= cap
    assert [commit for commit, _ in read(any_journal)] == written

    opened.forget(opened.end, young=True)

    assert opened.size < cap // 2
    append(opened, piece(opened.end, 5000, 1, frames=b"x" * 2000))
    opened.close()


def test_retention_removes_only_segments_that_everybody_has_read(journal, small_segments):
    opened = journal.writer(CAP)
    for chunk in transactions(100, 200, 300):
        opened.append(chunk)

    opened.forget(Position(200, 0))
    assert [commit for commit, _ in read(journal)] == [200, 300]
    opened.forget(Position(300, 1))
    assert [commit for commit, _ in read(journal)] == [300]
    opened.close()


def test_a_reader_goes_on_when_retention_took_the_segment_it_stood_on(journal, small_segments):
    opened, reader = journal.writer(CAP), JournalReader(journal)
    first, second, third = transactions(100, 200, 300)
    opened.append(first)
    reader.refresh()
    opened.append(second)
    opened.forget(Position(100, 1))
    opened.append(third)

    assert reader.refresh()
    assert shown(reader) == [(100, 1), (200, 1), (300, 1)]
    opened.close()


def test_a_full_disk_takes_back_the_part_of_a_block_and_says_so(journal, monkeypatch):
    opened = journal.writer(CAP)
    first, second = transactions(100, 200, size=1000)
    opened.append(first)
    real = os.write

    def disk_full(descriptor, data):
        if len(data) == 1000:
            real(descriptor, bytes(data)[:500])
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", disk_full)
    with pytest.raises(JournalFull, match="disk"):
        opened.append(second)
    monkeypatch.setattr(os, "write", real)

    assert opened.end == Position(100, 1)
    opened.append(second)
    opened.close()
    assert read(journal) == [(100, 1), (200, 1)]


def test_the_last_of_the_disk_is_left_alone(journal, monkeypatch):
    monkeypatch.setattr(file_writer, "SPARE_BYTES", 1 << 62)
    opened = journal.writer(CAP)
    with pytest.raises(JournalFull, match="free") as full:
        opened.append(*transactions(100))
    assert not full.value.at_cap
    opened.close()


# -- the folder ------------------------------------------------------------------------------------


def test_a_journal_of_another_log_is_refused(any_journal):
    with pytest.raises(Stop, match="belongs to another log") as refused:
        any_journal.create("postgres", "postgres:2/shop/slot", {})
    assert "state" in str(refused.value)
    any_journal.create("postgres", "postgres:1/shop/slot", {})


def test_a_journal_of_another_format_is_refused(journal):
    (journal.storage.path / "journal.json").write_text('{"format": 99}')
    with pytest.raises(Stop, match="format 99"):
        journal.about()


def test_one_process_writes_and_the_second_is_told_who(journal):
    opened = journal.writer(CAP)
    with pytest.raises(JournalBusy, match=f"process {os.getpid()}"):
        journal.writer(CAP)
    opened.close()


def test_durable_is_what_the_slowest_consumer_holds(any_journal):
    assert any_journal.durable() is None
    any_journal.set_consumer("fast/one", Position(300, 1, "0/5"))
    assert any_journal.durable().resume == "0/5"
    any_journal.set_consumer("slow", None)
    assert any_journal.durable() is None
    any_journal.set_consumer("slow", Position(200, 4))
    assert any_journal.durable() == Position(200, 4)
    assert set(any_journal.consumer_positions()) == {"fast/one", "slow"}
    any_journal.remove_consumer("slow")
    assert any_journal.durable() == Position(300, 1)


def test_a_damaged_position_is_an_error_and_not_a_beginning(journal):
    journal.set_consumer("delta", Position(300, 1))
    (path,) = (journal.storage.path / "consumers").iterdir()
    path.write_text('{"name": "delta", "position": {"commit"')
    with pytest.raises(Stop, match="damaged"):
        journal.durable()


def test_a_stored_schema_comes_back_and_a_missing_or_damaged_one_is_named(journal):
    table = TableSchema("public", "t", (), ("id",), ("id",), {"oid": 5})
    journal.store_schema(table)
    assert journal.schema(table.id) == table
    with pytest.raises(Stop, match="lacks the table definition"):
        journal.schema("0" * 16)
    (journal.storage.path / "schemas" / f"{table.id}.json").write_text("{}")
    with pytest.raises(Stop, match="damaged"):
        journal.schema(table.id)


# -- holes -----------------------------------------------------------------------------------------


def test_a_chunk_that_does_not_go_on_where_the_journal_ends_is_refused(any_journal: Journal):
    opened = any_journal.writer(CAP)
    append(opened, transactions(100)[0])
    with pytest.raises(Stop, match="would be missing without a trace"):
        append(opened, piece(Position(150), 200, 1))
    append(opened, Chunk.gap(Position(100, 1), Position(150), "trust_slot"))
    append(opened, piece(Position(150), 200, 1))
    opened.close()

    assert read(any_journal) == [(100, 1), (200, 1)]
    reader = JournalReader(any_journal)
    reader.refresh()
    assert [block.header.gap for block in reader.gaps()] == ["trust_slot"]


def test_a_reader_that_went_back_behind_the_journal_is_told(any_journal: Journal):
    write(any_journal, piece(Position(100), 200, 1), piece(Position(200, 1), 300, 1))
    reader = JournalReader(any_journal)
    reader.refresh()
    assert len(reader.between(Position(100), reader.end)) == 2
    assert len(reader.between(ORIGIN, reader.end)) == 2
    with pytest.raises(Stop, match="begins behind the position asked for"):
        reader.between(Position(99), reader.end)


def test_how_far_the_journal_goes_on_from_a_position(any_journal: Journal):
    write(any_journal, piece(Position(100), 200, 1), piece(Position(200, 1), 300, 1))
    reader = JournalReader(any_journal)
    reader.refresh()
    assert [reader.reach(Position(lsn)) for lsn in (99, 100, 250, 301)] == [
        Position(99),
        Position(300, 1),
        Position(300, 1),
        Position(301),
    ]


def test_ticks_are_no_frames_and_an_unfinished_transaction_is_none_any_more(any_journal: Journal):
    opened = any_journal.writer(CAP)
    (first,) = transactions(100)
    append(opened, first)
    append(opened, Chunk(b"", np.empty(0, np.uint32), first.last, Position(150), whole=True))
    assert (opened.last_frame, opened.end) == (Position(100, 1), Position(150))
    append(opened, piece(Position(150), 200, 1, whole=False))
    assert opened.last_frame == Position(200, 1)
    opened.rewind()
    assert (opened.last_frame, opened.end) == (Position(100, 1), Position(150))
    append(opened, piece(Position(150), 200, 1))
    opened.close()
