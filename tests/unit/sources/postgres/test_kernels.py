"""The kernels against their plain twins, over made, random, truncated and bit-flipped bytes.

Run with NUMBA_BOUNDSCHECK=1 to see that a kernel never reads outside of its bytes.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.sources.postgres.frame_builder import SAME, begin, commit, delete, insert, message, truncate, update

from headwater.event import Chunk, Position, TableRun
from headwater.sources.postgres import kernels
from headwater.sources.postgres.changes import Changes, scan
from headwater.sources.postgres.pgoutput import MESSAGE, TRUNCATE, XLOG_HEADER, Malformed
from headwater.sources.postgres.plain import (
    Change,
    Row,
    copy_data_plain,
    copy_values_plain,
    parse_row,
    scan_changes_plain,
)

COLUMNS = 3
RELATIONS = (1, 2, 70_000, 0)
OPENED = (40, 3, 1_600_000_000_000_000, 5, 30)

value = st.one_of(st.none(), st.just(SAME), st.binary(max_size=8))
row = st.lists(value, min_size=COLUMNS, max_size=COLUMNS)
relation_oid = st.sampled_from(RELATIONS[:3])
frame_of_any_kind = st.one_of(
    st.builds(begin, st.integers(1, 2**40), st.integers(1, 2**32 - 1)),
    st.builds(commit, st.integers(1, 2**40), st.integers(1, 2**40)),
    st.builds(message, st.just("p"), st.binary(max_size=4), st.integers(1, 2**40), transactional=st.booleans()),
    st.builds(insert, relation_oid, row, st.integers(0, 2**40)),
    st.builds(update, relation_oid, row, st.one_of(st.none(), row), st.sampled_from([b"K", b"O"])),
    st.builds(delete, relation_oid, row, st.sampled_from([b"K", b"O"])),
    st.lists(relation_oid, min_size=1, max_size=3).map(lambda oids: truncate(*oids)),
)
GOLDEN = [
    begin(100),
    insert(1, ["1", None, b"\0\xff"]),
    insert(2, ["1", "", "x"]),
    update(1, ["1", SAME, SAME], ["1", "old", None]),
    update(1, [SAME, SAME, "x"], ["key", None, None], b"K"),
    update(1, ["1", SAME, "x"]),
    truncate(1, 2),
    delete(70_000, ["1", None, None]),
    delete(1, ["1", "a", None], b"O"),
    message("p", b"in", 98),
    commit(100, 108),
    message("p", b"out", 116, transactional=False),
    begin(200),
    insert(1, ["2", None, None]),
]


def scanned(frames: bytes, lengths: list[int]) -> Changes:
    runs = [TableRun(relation, str(relation), "", 0) for relation in RELATIONS]
    context = dict(zip(("commit", "ordinal", "time", "xid", "previous"), OPENED, strict=True))
    chunk = Chunk(frames, np.array(lengths, dtype=np.uint32), Position(0), Position(0), whole=True, context=context)
    return scan(np.frombuffer(bytearray(frames), dtype=np.uint8), chunk, runs)


def bounds(frames: bytes, changes: Changes) -> list[Row | None]:
    """Every row's bounds by the kernel; None for TRUNCATE. Bounds count from the row's own message."""
    rows = changes.kind.size
    has_new, has_old = np.empty(rows, np.uint8), np.empty(rows, np.uint8)
    new, old = (np.full((COLUMNS, rows), -9, np.int64) for _ in range(2))
    new_size, old_size = (np.full((COLUMNS, rows), -9, np.int32) for _ in range(2))
    array = np.frombuffer(bytearray(frames), dtype=np.uint8)
    # A message has no tuple; the kernel passes over what has none.
    kind = np.where(changes.kind == MESSAGE, TRUNCATE, changes.kind).astype(np.uint8)
    bad = kernels.tuple_bounds(
        array, kind, changes.start, changes.end, COLUMNS, has_new, new, new_size, has_old, old, old_size
    )
    if bad >= 0:
        raise Malformed(bad, 0)

    def image(r, start, size):
        base = int(changes.start[r]) - 5
        return [(int(s) - base if n >= 0 else 0, int(n)) for s, n in zip(start[:, r], size[:, r], strict=True)]

    return [
        None
        if kind[r] == TRUNCATE
        else Row(
            chr(has_old[r]) if has_old[r] else "",
            image(r, old, old_size) if has_old[r] else None,
            image(r, new, new_size) if has_new[r] else None,
        )
        for r in range(rows)
    ]


def by_kernel(frames: bytes, lengths: list[int]) -> tuple[list[tuple[int, ...]], list[Row | None]]:
    changes = scanned(frames, lengths)
    relations = [RELATIONS[run] if run >= 0 else -1 for run in changes.run]
    numbers = (changes.lsn, changes.commit, changes.ordinal, changes.time, changes.xid, changes.previous)
    columns = (changes.kind, relations, *numbers)
    return [tuple(int(part) for part in each) for each in zip(*columns, strict=True)], bounds(frames, changes)


def by_twin(frames: bytes, lengths: list[int]) -> tuple[list[tuple[int, ...]], list[Row | None]]:
    changes = scan_changes_plain(frames, lengths, OPENED)

    def fields(c: Change) -> tuple[int, ...]:
        relation = c.relation if c.relation in RELATIONS else -1
        # Log addresses are signed in Arrow; no real one reaches the sign.
        lsn, at, previous = (_signed(n) for n in (c.lsn, c.commit, c.previous))
        return (c.kind, relation, lsn, at, c.ordinal, c.time, c.xid, previous)

    rows = [None if c.kind in (TRUNCATE, MESSAGE) else parse_row(c.message, COLUMNS) for c in changes]
    return [fields(c) for c in changes], rows


def _signed(number: int) -> int:
    number %= 1 << 64
    return number - (1 << 64) if number >> 63 else number


def outcome(way, frames: bytes, lengths: list[int]):
    try:
        return way(frames, lengths)
    except Malformed:
        return Malformed


@pytest.mark.parametrize("way", [by_kernel, by_twin])
def test_known_frames_give_known_changes(way):
    found, rows = way(b"".join(GOLDEN), [len(each) for each in GOLDEN])

    kinds = "".join(chr(each[0]) for each in found)
    assert kinds == "IIUUUTTDDMMI"
    assert [each[4] for each in found] == [*range(1, 11), 1, 1]
    # A message outside of transactions is where nothing else can be, and the end of what came before.
    assert [each[3] for each in found] == [100] * 10 + [115, 200]
    assert [each[6] for each in found] == [7] * 10 + [-1, 7]
    assert [each[7] for each in found] == [30] * 10 + [116, 116]
    assert [each[1] for each in found] == [1, 2, 1, 1, 1, 1, 2, 70_000, 1, 0, 0, 1]
    sizes = [row and row.new and [size for _start, size in row.new] for row in rows]
    # Left-out values come from the old row under O, only the key's under K, and stay left out without one.
    assert sizes[:5] == [[1, -1, 2], [1, 0, 1], [1, 3, -1], [3, -2, 1], [1, -2, 1]]
    assert [row.old_kind for row in rows if row] == ["", "", "O", "K", "", "K", "O", ""]


@given(st.lists(frame_of_any_kind, max_size=12))
@example([])
def test_random_frames_give_the_same_by_kernel_and_twin(frames):
    data, lengths = b"".join(frames), [len(each) for each in frames]
    assert outcome(by_kernel, data, lengths) == outcome(by_twin, data, lengths)


@given(st.lists(frame_of_any_kind, min_size=1, max_size=4), st.data())
def test_truncated_frames_are_refused_or_read_alike(frames, data):
    cut = data.draw(st.integers(0, len(frames[-1]) - 1))
    frames = [*frames[:-1], frames[-1][:cut]]
    joined, lengths = b"".join(frames), [len(each) for each in frames]

    assert outcome(by_kernel, joined, lengths) == outcome(by_twin, joined, lengths)
    # Lengths that promise more than there is.
    assert outcome(by_kernel, joined, [*lengths[:-1], lengths[-1] + 1]) is Malformed


@given(st.lists(frame_of_any_kind, min_size=1, max_size=4), st.data())
def test_flipped_bits_are_refused_or_read_alike(frames, data):
    joined = bytearray(b"".join(frames))
    for _ in range(data.draw(st.integers(1, 3))):
        joined[data.draw(st.integers(0, len(joined) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    lengths = [len(each) for each in frames]

    assert outcome(by_kernel, bytes(joined), lengths) == outcome(by_twin, bytes(joined), lengths)


def test_a_kind_that_no_chunk_holds_is_refused_and_not_skipped():
    damaged = bytearray(GOLDEN[1])
    damaged[XLOG_HEADER] = ord("X")
    assert outcome(by_kernel, bytes(damaged), [len(damaged)]) is Malformed


# -- COPY messages ---------------------------------------------------------------------------------


def rows_by_kernel(messages: bytes) -> tuple[int, bytes]:
    array = np.frombuffer(bytearray(messages), dtype=np.uint8)
    read, written = kernels.copy_data(array, 0, len(array), 0)
    return read, array[:written].tobytes()


def copy_message(body: bytes, kind: bytes = b"d") -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


@pytest.mark.parametrize("way", [rows_by_kernel, copy_data_plain])
@given(rows=st.lists(st.binary(max_size=5), max_size=5), behind=st.sampled_from([b"", b"c\0\0\0\4", b"Z\0\0\0\5T"]))
def test_copy_messages_are_read_up_to_the_first_of_another_kind(way, rows, behind):
    whole = b"".join(map(copy_message, rows))

    assert way(whole + behind) == (len(whole), b"".join(rows))


@pytest.mark.parametrize("way", [rows_by_kernel, copy_data_plain])
def test_a_copy_message_that_is_cut_off_waits_for_its_rest(way):
    first, second = copy_message(b"one\n"), copy_message(b"two\n")
    for length in range(len(second)):
        assert way(first + second[:length]) == (len(first), b"one\n")


# -- COPY text -------------------------------------------------------------------------------------


def copied_by_kernel(text: bytes, columns: int) -> list[list[bytes | None]]:
    array = np.frombuffer(bytearray(text), dtype=np.uint8)
    rows = int(np.count_nonzero(array == 10))
    start, size = np.empty((columns, rows), np.int64), np.empty((columns, rows), np.int32)
    if kernels.copy_bounds(array, columns, start, size) >= 0:
        raise ValueError(text)
    data = array.tobytes()

    def cell(c: int, r: int) -> bytes | None:
        return None if size[c, r] < 0 else data[start[c, r] : start[c, r] + size[c, r]]

    return [[cell(c, r) for c in range(columns)] for r in range(rows)]


def escaped(value: bytes | None) -> bytes:
    """A value as COPY writes it."""
    if value is None:
        return b"\\N"
    pairs = [(b"\\", b"\\\\"), (b"\b", b"\\b"), (b"\f", b"\\f"), (b"\n", b"\\n"), (b"\r", b"\\r"), (b"\t", b"\\t")]
    for raw, written in [*pairs, (b"\v", b"\\v")]:
        value = value.replace(raw, written)
    return value


copy_value = st.one_of(st.none(), st.sampled_from([b"", b"\\N", b"N", b"\\", b"\t", b"a\nb"]), st.binary(max_size=6))


@pytest.mark.parametrize("way", [copied_by_kernel, copy_values_plain])
@given(rows=st.lists(st.lists(copy_value, min_size=2, max_size=2), max_size=6))
def test_copy_text_gives_back_what_was_written(way, rows):
    text = b"".join(b"\t".join(map(escaped, row)) + b"\n" for row in rows)
    assert way(text, 2) == rows


@given(st.lists(st.sampled_from([b"\\", b"N", b"n", b"a", b"\t", b"\n", b"\\N", b"\\\\"]), max_size=12).map(b"".join))
def test_any_copy_text_is_refused_or_read_alike(text):
    def outcome_of(way):
        try:
            return way(text, 2)
        except ValueError:
            return ValueError

    assert outcome_of(copied_by_kernel) == outcome_of(copy_values_plain)
