"""Open transactions: what is published is what would have come at the commit, and memory does not hold it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.unit.sources.postgres.frame_builder import (
    begin,
    commit,
    describe_visible,
    frame,
    in_block,
    insert,
    relation,
    stream_abort,
    stream_commit,
    stream_start,
    stream_stop,
)

from headwater.errors import Retry
from headwater.event import Chunk
from headwater.sources.postgres import pgoutput, spill
from headwater.sources.postgres.decode import decode
from headwater.sources.postgres.frames import ChunkBuilder
from headwater.sources.postgres.pgoutput import XLOG_HEADER, Malformed
from headwater.sources.postgres.position import at_lsn, flush_lsn
from headwater.sources.postgres.spill import Spill


class Stream:
    """A builder and a spill, wired as the log wires them."""

    def __init__(self, folder: Path) -> None:
        self.schemas = {}
        self.spill = Spill(folder)
        self.builder = ChunkBuilder(at_lsn(50), self._remember, self._streamed)
        self._inside = False

    def _remember(self, described: pgoutput.Relation):
        schema = describe_visible(described)
        if schema is not None:
            self.schemas[schema.id] = schema
        return schema

    def _streamed(self, tag: int, message: bytes) -> None:
        match tag:
            case pgoutput.STREAM_START:
                self.spill.begin(pgoutput.parse_stream_start(message))
                self._inside = True
            case pgoutput.STREAM_ABORT:
                self.spill.abort(*pgoutput.parse_stream_abort(message))
            case pgoutput.STREAM_COMMIT:
                for each in self.spill.commit(pgoutput.parse_stream_commit(message)):
                    self.builder.add(each)

    def add(self, *frames: bytes) -> None:
        for each in frames:
            if self._inside and each[XLOG_HEADER] == pgoutput.STREAM_STOP:
                self.spill.end()
                self._inside = False
            elif self._inside:
                self.spill.add(each)
            else:
                self.builder.add(each)

    def rows(self) -> list[tuple[int, int, str]]:
        """(commit, ordinal, id) of every change handed on so far."""
        chunks: list[Chunk] = []
        while (chunk := self.builder.take()) is not None:
            chunks.append(chunk)
        found = [
            (record["commit"], record["ordinal"], record["after"]["id"])
            for chunk in chunks
            for batch in decode(chunk, self.schemas)
            for record in batch.records.to_pylist()
        ]
        return sorted(found)


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path / "spill")


def row(xid: int, name: str) -> bytes:
    return in_block(insert(1, [name, "x"]), xid)


def block(xid: int, *frames: bytes) -> list[bytes]:
    return [stream_start(xid), *frames, stream_stop()]


def test_a_transaction_in_blocks_is_published_at_its_commit_and_in_the_order_of_commits(stream: Stream):
    stream.add(*block(7, in_block(relation(1), 7), row(7, "a"), row(7, "b")))
    stream.add(*block(8, in_block(relation(1), 8), row(8, "p")))
    # One that is short and quick passes both.
    stream.add(begin(100, xid=9), relation(1), insert(1, ["q", "x"]), commit(100))
    assert stream.rows() == [(100, 1, "q")]
    stream.add(*block(7, row(7, "c")))
    assert stream.rows() == []
    assert stream.spill.facts()["open_transactions"] == 2

    stream.add(stream_commit(8, 200))
    assert stream.rows() == [(200, 1, "p")]
    stream.add(stream_commit(7, 300, 308))
    assert stream.rows() == [(300, 1, "a"), (300, 2, "b"), (300, 3, "c")]
    assert flush_lsn(stream.builder.position) == 308
    assert stream.spill.facts() == {"open_transactions": 0, "spilled_bytes": 0, "oldest_open": 0.0}


def test_what_was_rolled_back_is_never_published(stream: Stream, tmp_path: Path):
    stream.add(*block(7, in_block(relation(1), 7), row(7, "a"), row(71, "savepoint"), row(72, "b")))
    stream.add(stream_abort(7, 71), *block(7, row(73, "again"), row(7, "c")), stream_abort(7, 73))
    stream.add(*block(8, in_block(relation(1), 8), row(8, "p")), stream_abort(8, 8))
    # A sub-transaction of one that sent nothing yet.
    stream.add(stream_abort(9, 91))
    stream.add(stream_commit(7, 300))
    assert stream.rows() == [(300, 1, "a"), (300, 2, "b"), (300, 3, "c")]
    assert list((tmp_path / "spill").iterdir()) == []


def test_a_description_that_came_with_a_savepoint_outlives_it(stream: Stream):
    stream.add(*block(7, in_block(relation(1), 71), row(71, "void")), stream_abort(7, 71))
    stream.add(*block(7, row(7, "a")), stream_commit(7, 300))
    assert stream.rows() == [(300, 1, "a")]


def test_a_transaction_of_which_nothing_is_left_moves_the_position_only(stream: Stream):
    stream.add(*block(7, in_block(relation(1), 71), row(71, "void")), stream_abort(7, 71), stream_commit(7, 300, 308))
    assert stream.rows() == []
    assert flush_lsn(stream.builder.position) == 308


def test_rows_go_to_files_in_pieces_and_the_files_go_as_they_are_read(stream: Stream, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(spill, "PIECE_BYTES", 200)
    monkeypatch.setattr(spill, "FILE_BYTES", 1000)
    frames = [row(7, str(n)) for n in range(100)]
    stream.add(*block(7, in_block(relation(1), 7), *frames[:60]), *block(7, *frames[60:]))
    files = list((tmp_path / "spill").iterdir())
    assert len(files) > 3
    assert stream.spill.size == sum(path.stat().st_size for path in files)

    left = []
    for each in stream.spill.commit(pgoutput.StreamCommit(300, 308, 0, 7)):
        stream.builder.add(each)
        left.append(len(list((tmp_path / "spill").iterdir())))
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0
    assert [name for _, _, name in stream.rows()] == sorted(map(str, range(100)), key=int)


def test_an_origin_inside_a_block_names_no_transaction(stream: Stream):
    origin = frame(b"O" + bytes(8) + b"elsewhere\0")
    stream.add(*block(7, origin, in_block(relation(1), 7), row(7, "a")), stream_commit(7, 300))
    assert stream.rows() == [(300, 1, "a")]


def test_a_commit_of_what_never_came_is_refused(stream: Stream):
    with pytest.raises(Malformed):
        stream.add(stream_commit(7, 300))


def test_a_new_session_begins_with_nothing(tmp_path: Path):
    first = Stream(tmp_path / "spill")
    first.add(*block(7, in_block(relation(1), 7), row(7, "a")))
    second = Stream(tmp_path / "spill")
    assert second.spill.size == 0
    assert list((tmp_path / "spill").iterdir()) == []
    second.spill.close()
    assert not (tmp_path / "spill").exists()


def test_a_full_disk_is_worth_another_try(stream: Stream, monkeypatch):
    def full(*_args: object, **_kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    stream.add(stream_start(7), row(7, "a"))
    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(Retry, match="is full"):
        stream.add(stream_stop())
