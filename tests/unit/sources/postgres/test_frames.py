"""Frames become chunks: positions, cuts, schemas. Frames are made by hand; no server."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.unit.sources.postgres.frame_builder import (
    begin,
    commit,
    describe,
    describe_visible,
    frame,
    insert,
    message,
    relation,
    truncate,
)

from headwater.event import Chunk, Position
from headwater.sources.postgres.decode import decode, positions
from headwater.sources.postgres.frames import ChunkBuilder
from headwater.sources.postgres.message import MESSAGES
from headwater.sources.postgres.pgoutput import Malformed, Relation
from headwater.sources.postgres.position import at_lsn, flush_lsn

START = at_lsn(50)


class Feed:
    """A builder, and the schemas of what it was told of."""

    def __init__(self, start: Position = START) -> None:
        self.schemas = {MESSAGES.id: MESSAGES}
        self.builder = ChunkBuilder(start, self._remember)

    def _remember(self, relation: Relation):
        schema = describe_visible(relation)
        if schema is not None:
            self.schemas[schema.id] = schema
        return schema

    def add(self, *frames: bytes) -> None:
        for each in frames:
            self.builder.add(each)

    def take_all(self) -> list[Chunk]:
        found = []
        while (chunk := self.builder.take()) is not None:
            found.append(chunk)
        return found

    def rows(self, chunk: Chunk) -> list[tuple[str, int, int, dict[str, str] | None]]:
        """(table, commit, ordinal, after) of every change, in log order."""
        found = [
            (batch.table.name, record["commit"], record["ordinal"], record["after"])
            for batch in decode(chunk, self.schemas)
            for record in batch.records.to_pylist()
        ]
        return sorted(found, key=lambda row: row[1:3])


def test_a_transaction_becomes_a_whole_chunk_that_ends_at_its_commit():
    feed = Feed()
    feed.add(begin(100), relation(1), insert(1, ["1", "a"]), insert(1, ["2", None]), commit(100, 108))

    (chunk,) = feed.take_all()

    assert (chunk.first, chunk.last, chunk.whole) == (START, Position(100, 2), True)
    assert flush_lsn(chunk.last) == 108
    assert [(run.table, run.changes) for run in chunk.tables] == [("public.t", 2)]
    assert feed.rows(chunk) == [("t", 100, 1, {"id": "1", "v": "a"}), ("t", 100, 2, {"id": "2", "v": None})]
    assert positions(chunk) == [Position(100, 1), Position(100, 2)]


def test_changes_that_share_an_lsn_have_positions_of_their_own():
    feed = Feed()
    feed.add(begin(100), relation(1), *(insert(1, [str(n), "x"], lsn=90) for n in range(50)), commit(100))

    (chunk,) = feed.take_all()

    found = positions(chunk)
    assert found == sorted(set(found))
    assert len(found) == 50


def test_a_transaction_cut_anywhere_gives_the_same_changes():
    frames = [begin(100), relation(1), *(insert(1, [str(n), "x"]) for n in range(6)), commit(100, 108)]
    uncut = Feed()
    uncut.add(*frames)
    (expected,) = uncut.take_all()
    for place in range(1, len(frames)):
        feed = Feed()
        feed.add(*frames[:place])
        chunks = feed.take_all()
        feed.add(*frames[place:])
        chunks += feed.take_all()

        assert [row for chunk in chunks for row in feed.rows(chunk)] == uncut.rows(expected)
        assert [chunk.whole for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
        assert all(a.last == b.first for a, b in pairwise(chunks))
        assert chunks[-1].last == expected.last
        assert chunks[-1].last.resume == expected.last.resume
        for chunk in chunks:
            assert all(chunk.first < position <= chunk.last for position in positions(chunk))


def test_a_chunk_ends_with_a_transaction_if_one_ended_in_it():
    feed = Feed()
    feed.add(begin(100), relation(1), insert(1, ["1", "a"]), commit(100, 108))
    feed.add(begin(200), insert(1, ["2", "b"]), insert(1, ["3", "c"]))

    first = feed.builder.take()
    feed.add(insert(1, ["4", "d"]), commit(200, 208))
    (second,) = feed.take_all()

    assert (first.last, first.whole, feed.rows(first)) == (
        Position(100, 1),
        True,
        [("t", 100, 1, {"id": "1", "v": "a"})],
    )
    assert (second.first, second.last, second.whole) == (first.last, Position(200, 3), True)
    assert [row[2:] for row in feed.rows(second)] == [
        (1, {"id": "2", "v": "b"}),
        (2, {"id": "3", "v": "c"}),
        (3, {"id": "4", "v": "d"}),
    ]
    assert [run.changes for chunk in (first, second) for run in chunk.tables] == [1, 3]


def test_a_transaction_s_end_stands_with_its_last_change():
    feed = Feed()
    feed.add(begin(100), relation(1), insert(1, ["1", "a"]), insert(1, ["2", "b"]))
    (piece,) = feed.take_all()
    assert (piece.whole, piece.last) == (False, Position(100, 1))
    assert not feed.builder.pending

    feed.add(commit(100, 108))

    assert feed.builder.pending
    (end,) = feed.take_all()
    assert (end.whole, end.changes, end.last) == (True, 1, Position(100, 2))
    assert flush_lsn(end.last) == 108
    assert not feed.builder.pending


def test_a_message_in_a_transaction_is_one_of_its_changes():
    feed = Feed()
    feed.add(begin(100), relation(1), insert(1, ["1", "a"]), message("p", b"\0x", 96), commit(100, 108))

    (chunk,) = feed.take_all()

    assert chunk.last == Position(100, 2)
    assert [(run.table, run.changes) for run in chunk.tables] == [("public.t", 1), (MESSAGES.table, 1)]
    assert feed.rows(chunk)[1] == (MESSAGES.name, 100, 2, {"prefix": "p", "content": b"\0x"})


def test_a_message_outside_of_transactions_has_a_position_that_no_commit_has():
    feed = Feed()
    feed.add(message("p", b"x", 100, transactional=False))
    (chunk,) = feed.take_all()

    assert chunk.whole
    assert flush_lsn(chunk.last) == 100
    (batch,) = decode(chunk, feed.schemas)
    assert batch.op.to_pylist() == ["m"]
    assert batch.records.column("transaction_id").to_pylist() == [None]
    assert batch.last == chunk.last
    # The next commit record may begin where the message ends.
    feed.add(begin(100), relation(1), insert(1, ["1", "a"]), commit(100))
    (following,) = feed.take_all()
    assert chunk.last < positions(following)[0]


def test_messages_that_nobody_wants_leave_no_trace():
    builder = ChunkBuilder(START, describe, message=lambda prefix: prefix == "wanted")
    builder.add(message("other", b"x", 100, transactional=False))
    assert not builder.pending
    builder.add(message("wanted", b"x", 200, transactional=False))
    assert builder.pending


def test_a_schema_change_inside_a_transaction_begins_a_new_chunk():
    feed = Feed()
    feed.add(
        begin(100),
        relation(1, columns=["id"]),
        insert(1, ["1"]),
        relation(1, columns=["id", "v"]),
        insert(1, ["2", "b"]),
        commit(100),
    )

    first, second = feed.take_all()

    assert (first.whole, second.whole) == (False, True)
    assert feed.rows(first) == [("t", 100, 1, {"id": "1"})]
    assert feed.rows(second) == [("t", 100, 2, {"id": "2", "v": "b"})]


def test_a_table_renamed_into_capture_does_not_bring_its_earlier_rows():
    feed = Feed()
    feed.add(
        begin(100), relation(1, "hidden"), insert(1, ["1", "a"]), relation(1, "t"), insert(1, ["2", "b"]), commit(100)
    )

    rows = [row for chunk in feed.take_all() for row in feed.rows(chunk)]

    assert rows == [("t", 100, 2, {"id": "2", "v": "b"})]


def test_the_same_relation_said_again_does_not_cut():
    feed = Feed()
    feed.add(begin(100), relation(1), insert(1, ["1", "a"]), relation(1), insert(1, ["2", "b"]), commit(100))

    assert len(feed.take_all()) == 1


def test_an_empty_transaction_leaves_no_frame_and_nothing_pending():
    feed = Feed()
    feed.add(begin(100), commit(100, 108))

    assert not feed.builder.pending
    assert feed.builder.size == 0
    assert feed.take_all() == []
    assert feed.builder.position == Position(100, 0)
    # Nothing was handed on: how far an idle log has moved is counted from here.
    assert feed.builder.handed == START


def test_empty_transactions_between_others_do_not_disturb_them():
    feed = Feed()
    feed.add(begin(100), relation(1), insert(1, ["1", "a"]), commit(100), begin(200), commit(200, 208))
    feed.add(begin(300), insert(1, ["2", "b"]), commit(300))

    (chunk,) = feed.take_all()

    assert [row[1:3] for row in feed.rows(chunk)] == [(100, 1), (300, 1)]


def test_truncate_of_several_tables_is_one_change_of_each():
    feed = Feed()
    feed.add(begin(100), relation(1, "a"), relation(2, "b"), insert(2, ["1", "x"]), truncate(1, 2), commit(100))

    (chunk,) = feed.take_all()

    assert chunk.last == Position(100, 3)
    assert feed.rows(chunk) == [
        ("b", 100, 1, {"id": "1", "v": "x"}),
        ("a", 100, 2, None),
        ("b", 100, 3, None),
    ]


def test_only_wanted_tables_are_decoded_and_keep_their_ordinals():
    feed = Feed()
    feed.add(begin(100), relation(1, "a"), relation(2, "b"), insert(1, ["1", "x"]), insert(2, ["2", "y"]), commit(100))
    (chunk,) = feed.take_all()

    (batch,) = decode(chunk, feed.schemas, {"public.b"})

    assert batch.records.column("ordinal").to_pylist() == [2]
    assert positions(chunk, {"public.b"}) == [Position(100, 2)]


def test_a_tick_moves_an_idle_position_with_an_empty_chunk():
    feed = Feed()
    chunk = feed.builder.tick(500)

    assert (chunk.first, chunk.last, chunk.whole, chunk.changes) == (START, at_lsn(500), True, 0)
    assert feed.builder.handed == at_lsn(500)
    feed.add(begin(500), relation(1), insert(1, ["1", "a"]), commit(500))
    (following,) = feed.take_all()
    assert chunk.last < positions(following)[0]


def test_a_start_inside_a_transaction_gives_it_again_from_its_first_change():
    feed = Feed(Position(100, 2))
    feed.add(begin(100), relation(1), *(insert(1, [str(n), "x"]) for n in range(3)), commit(100))

    (chunk,) = feed.take_all()

    assert chunk.first == Position(100, 0)
    assert positions(chunk) == [Position(100, 1), Position(100, 2), Position(100, 3)]
    (batch,) = decode(chunk, feed.schemas)
    assert batch.between(Position(100, 2), None).records.column("ordinal").to_pylist() == [3]


def test_a_message_that_is_not_pgoutput_is_refused():
    builder = ChunkBuilder(START, describe)
    with pytest.raises(Malformed):
        builder.add(frame(b"Zgarbage"))
