"""From a server's packets to chunks and changes, on recorded bytes: whole, in pieces, and damaged."""

from __future__ import annotations

import random
import time

import pytest
from tests.unit.sources.mysql.recorded import PACKETS, Reader, events

from headwater.errors import HeadwaterError, Stop
from headwater.event import ChangeBatch, Chunk
from headwater.sources.mysql.binlog import HEADER, Event, Malformed
from headwater.sources.mysql.decode import decode, positions


def changes(reader: Reader, chunks: list[Chunk]) -> list[tuple[str, str, object, object]]:
    found = []
    for chunk in chunks:
        for batch in decode(chunk, reader.schemas):
            found += [(row["commit"], row["ordinal"], batch, row) for row in batch.records.to_pylist()]
    found.sort(key=lambda entry: entry[:2])
    return [(row["op"], batch.table.name, row["before"], row["after"]) for _, _, batch, row in found]


def brief(found: list[tuple[str, str, object, object]]) -> list[tuple[str, str, object]]:
    return [(op, table, (after or before or {}).get("id", "")) for op, table, before, after in found]  # type: ignore[attr-defined]


WHOLE = [
    *[("c", "orders", 1), ("c", "orders", 2), ("u", "orders", 1), ("u", "orders", 2)],
    *[("c", "other", ""), ("c", "other", ""), ("c", "other", ""), ("d", "orders", 2)],
    *[("c", "orders", 10), ("t", "orders", ""), ("c", "orders", 3), ("c", "orders", 4)],
]


def test_a_recorded_log_gives_the_changes_that_were_committed() -> None:
    reader = Reader()
    found = changes(reader, reader.feed(PACKETS))

    assert brief(found) == WHOLE
    first = found[0][3]
    assert str(first) == (
        "{'id': 1, 'customer': 'Ärger', 'amount': Decimal('12.500'), 'placed': datetime.datetime(2024, 1, 2, 3, 4, 5,"
        " 678000), 'state': 'new', 'tags': 'a,b', 'note': 'x', 'flag': '101', 'small': 255, 'picture': b'\\x00\\xff'}"
    )
    assert found[2][3]["state"] == "paid"  # type: ignore[index]
    assert found[8][3]["note"] == "long" * 300  # type: ignore[index]
    assert "note" not in found[10][3]  # type: ignore[operator]


@pytest.mark.parametrize("seed", range(5))
def test_where_the_bytes_are_cut_makes_no_difference(seed: int) -> None:
    r = random.Random(seed)  # noqa: S311
    reader, rest, found = Reader(), b"", []
    place = 0
    while place < len(PACKETS):
        size = r.randrange(1, 400)
        chunks = reader.feed(rest + PACKETS[place : place + size])
        rest, place = reader.rest, place + size
        assert [chunk.first for chunk in chunks[1:]] == [chunk.last for chunk in chunks[:-1]]
        found += changes(reader, chunks)

    assert rest == b""
    assert brief(found) == WHOLE


def test_a_chunk_ends_with_a_transaction_if_one_ended_in_it() -> None:
    whole, packets, place = Reader(), [], 0
    while place < len(PACKETS):
        size = 4 + int.from_bytes(PACKETS[place : place + 3], "little")
        packets.append(PACKETS[place : place + size])
        place += size
    expected = changes(whole, whole.feed(PACKETS))
    for cut in range(1, len(packets)):
        reader = Reader()
        before = reader.feed(b"".join(packets[:cut]))
        after = reader.feed(b"".join(packets[cut:]))

        assert changes(reader, before) + changes(reader, after) == expected
        counted = [sum(run.changes for run in chunk.tables) for chunk in (*before, *after)]
        assert counted == [len(positions(chunk)) for chunk in (*before, *after)]
        commits = {position.commit for chunk in before for position in positions(chunk)}
        assert len(commits) < 2 or before[0].whole


def test_only_captured_tables_are_kept() -> None:
    reader = Reader("other")
    chunks = reader.feed(PACKETS)

    assert brief(changes(reader, chunks)) == [("c", "other", "")] * 3
    assert {run.table for chunk in chunks for run in chunk.tables} == {"shop.other"}


def test_positions_grow_and_resume_before_their_transaction() -> None:
    reader = Reader()
    chunks = reader.feed(PACKETS)
    found = [position for chunk in chunks for position in positions(chunk)]

    assert found == sorted(found)
    assert len(found) == len(set(found)) == len(WHOLE)
    assert found[0].resume == "mariadb:0-1-3"
    assert [p.resume for p in found[2:8]] == ["mariadb:0-1-4"] * 6
    assert chunks[-1].last.resume == "mariadb:0-1-10"
    assert chunks[-1].whole


def test_a_chunk_can_be_decoded_alone_though_its_transaction_began_in_another() -> None:
    reader = Reader()
    rest, seen = b"", []
    for place in range(0, len(PACKETS), 97):
        for chunk in reader.feed(rest + PACKETS[place : place + 97]):
            seen += [row["commit"] for batch in decode(chunk, reader.schemas) for row in batch.records.to_pylist()]
            for batch in decode(chunk, reader.schemas):
                assert_transactions_known(batch)
        rest = reader.rest
    assert seen == sorted(seen)


def assert_transactions_known(batch: ChangeBatch) -> None:
    from headwater.sources.mysql.debezium import transactions

    found = transactions(batch.records)
    numbers = [int(gtid.rpartition("-")[2]) for gtid in found.gtids.to_pylist()]
    # A TRUNCATE has a GTID, and is in no transaction.
    assert [number for number, row in zip(numbers, batch.records.to_pylist(), strict=True) if row["op"] != "t"] == [
        row["transaction_id"] for row in batch.records.to_pylist() if row["op"] != "t"
    ]
    assert set(found.servers.tolist()) == {1}
    assert found.threads.null_count == len(batch)


def test_a_wrong_checksum_is_noticed() -> None:
    damaged = bytearray(PACKETS)
    damaged[PACKETS.index("Ärger".encode())] ^= 1

    with pytest.raises(Malformed, match="checksum"):
        Reader().feed(bytes(damaged))


def without_checksums() -> list[bytes]:
    """The recorded events as a server without checksums would send them."""
    found = []
    for event in events():
        time_, kind, server, size, end, flags = HEADER.unpack_from(event)
        if kind == Event.FORMAT_DESCRIPTION:
            found.append(event[:-5] + b"\0" + event[-4:])
        else:
            found.append(HEADER.pack(time_, kind, server, size - 4, end, flags) + event[19:-4])
    return found


def packets(found: list[bytes]) -> bytes:
    return b"".join((len(e) + 1).to_bytes(3, "little") + b"\0\0" + e for e in found)


def test_a_log_without_checksums_is_read_too() -> None:
    reader = Reader()

    assert brief(changes(reader, reader.feed(packets(without_checksums())))) == WHOLE


@pytest.mark.parametrize("kind", [Event.INCIDENT, Event.PARTIAL_UPDATE_ROWS, Event.EXECUTE_LOAD_QUERY, 99])
def test_events_that_would_lose_data_stop_by_name(kind: int) -> None:
    reader = Reader()
    found = without_checksums()
    event = HEADER.pack(0, kind, 1, 19 + 8, 0, 0) + bytes(8)

    with pytest.raises(Stop) as stopped:
        reader.feed(packets([*found[:2], event]))
    assert reader.builder.place.file in str(stopped.value)


def test_an_unknown_event_that_may_be_ignored_is() -> None:
    reader = Reader()
    found = without_checksums()
    event = HEADER.pack(0, 99, 1, 19 + 8, 0, 0x80) + bytes(8)

    assert brief(changes(reader, reader.feed(packets([*found[:2], event, *found[2:]])))) == WHOLE


def query(text: str) -> bytes:
    body = bytes(8) + b"\x04" + bytes(4) + b"shop\0" + text.encode()
    return HEADER.pack(0, Event.QUERY, 1, 19 + len(body), 0, 0) + body


@pytest.mark.parametrize(
    "text",
    ["insert into orders values (1)", "/* a */ UPDATE orders set id = 1", "with x as (select 1) delete from orders"],
)
def test_a_change_logged_as_a_statement_stops(text: str) -> None:
    found = without_checksums()

    with pytest.raises(Stop, match="as a statement") as stopped:
        Reader().feed(packets([*found[:2], query(text)]))
    assert "binlog_format" in str(stopped.value)


def test_a_log_that_breaks_off_inside_a_transaction_is_opened_again() -> None:
    found = without_checksums()
    begins = next(i for i, event in enumerate(found) if event[4] == Event.WRITE_ROWS_V1)

    with pytest.raises(HeadwaterError, match="breaks off"):
        Reader().feed(packets([*found[: begins + 1], found[1]]))


@pytest.mark.parametrize("seed", range(2))
def test_damaged_bytes_end_with_an_error_of_ours(seed: int) -> None:
    """For a while: bits turned, bytes cut, events doubled and in disorder. Never anything but our own errors."""
    r = random.Random(seed)  # noqa: S311
    plain = without_checksums()
    deadline, runs = time.monotonic() + 0.25, 0
    while time.monotonic() < deadline or not runs:
        found = [bytearray(event) for event in plain]
        for _ in range(r.randrange(1, 4)):
            event = r.choice(found[2:])
            match r.randrange(4):
                case 0:
                    event[r.randrange(len(event))] ^= 1 << r.randrange(8)
                case 1:
                    del event[r.randrange(19, len(event) + 1) :]
                    event[9:13] = len(event).to_bytes(4, "little")
                case 2:
                    event[r.randrange(19, len(event) + 1) :] = r.randbytes(r.randrange(60))
                    event[9:13] = len(event).to_bytes(4, "little")
                case 3:
                    found.insert(r.randrange(2, len(found)), bytearray(event))
        reader = Reader()
        try:
            for chunk in reader.feed(packets([bytes(event) for event in found])):
                decode(chunk, reader.schemas)
                positions(chunk)
        except HeadwaterError:
            pass
        runs += 1
