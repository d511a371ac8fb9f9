"""Events numbered within their transactions, whether these come in one chunk or in many."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.sources.mysql.recorded import PACKETS, Reader

from headwater.event import Chunk
from headwater.formats.order import Orders
from headwater.sources.mysql.decode import decode


def chunks_of(reader: Reader, size: int) -> list[Chunk]:
    """The recorded log, handed on every `size` bytes, in the middle of transactions too."""
    rest, found = b"", []
    for place in range(0, len(PACKETS), size):
        found += reader.feed(rest + PACKETS[place : place + size])
        rest = reader.rest
    return found


def numbered(size: int) -> tuple[list[Any], list[Any]]:
    """(table, total order, order in the table) of every change; (transaction, which ends, counts) of every boundary."""
    reader = Reader()
    changes, ends = [], []
    for chunk in chunks_of(reader, size):
        batches = decode(chunk, reader.schemas, events=True)
        if not batches:
            continue
        timeline = batches[0].timeline
        assert timeline is not None
        orders = Orders(timeline, (), lambda table: table.key)
        for place, number in enumerate(timeline.table.tolist()):
            total, own = int(orders._total[place]) + 1, int(orders._own[place]) + 1
            changes.append((int(timeline.commit[place]), total, timeline.tables[number].name, own))
        for transaction, counts in orders.transactions():
            ends += [(transaction.begin, "begin")] if transaction.begin else []
            ends += [(transaction.end, dict(sorted(counts.items())))] if transaction.end else []
    return changes, ends


def test_changes_are_numbered_in_their_transaction_and_in_their_table() -> None:
    changes, ends = numbered(len(PACKETS))

    # Two updates, three rows of another table and a delete, in one transaction.
    assert [change[1:] for change in changes if change[0] == changes[2][0]] == [
        (1, "orders", 1),
        (2, "orders", 2),
        (3, "other", 1),
        (4, "other", 2),
        (5, "other", 3),
        (6, "orders", 3),
    ]
    assert ("0-1-5", "begin") in ends
    assert ("0-1-5", {"shop.orders": 3, "shop.other": 3}) in ends


@pytest.mark.parametrize("size", [97, 150, 333])
def test_a_transaction_is_counted_through_wherever_the_log_is_cut(size: int) -> None:
    changes, ends = numbered(size)
    whole, whole_ends = numbered(len(PACKETS))

    assert changes == whole
    assert [each for each in ends if each[1] == "begin"] == [each for each in whole_ends if each[1] == "begin"]
    # An end that comes in a chunk without changes has no event to stand behind.
    assert [each for each in ends if each[1] != "begin"] == [
        each for each in whole_ends if each[1] != "begin" and each in ends
    ]


def test_a_truncate_is_in_no_transaction() -> None:
    reader = Reader()
    rows = [
        row
        for chunk in chunks_of(reader, len(PACKETS))
        for batch in decode(chunk, reader.schemas, events=True)
        for row in batch.records.to_pylist()
        if row["op"] == "t"
    ]

    assert [row["transaction_id"] for row in rows] == [None]
    names = [name for name, _ in numbered(len(PACKETS))[1]]
    assert all(names.count(name) == 2 for name in names)
