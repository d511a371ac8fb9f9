"""The checker of order per key lets a legal path pass and nothing else."""

from __future__ import annotations

import pytest
from tests.unit.sinks.lake_of_orders import Changes, row

from headwater.testing.order import KeyOrder, OutOfOrder, events_of, events_of_debezium


def played(changes: Changes) -> KeyOrder:
    order = KeyOrder()
    for event in events_of(changes.batch()):
        order.add(event)
    return order


def test_a_legal_path_leaves_the_rows_it_should():
    changes = Changes().insert(**row(1, body="long")).update(unchanged=["body"], **row(1, note="x", body=None)).next()
    changes.update(unchanged=["body"], before={"id": 1}, **row(2, note="y", body=None)).next()
    changes.insert(**row(1)).delete(id=1).insert(**row(1, note="again"))

    order = played(changes)

    assert order.rows("shop.orders") == [row(2, note="y", body="long"), row(1, note="again")]
    assert order.events == 6


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (Changes().insert(**row(1)).insert(**row(1)), "there already"),
        (Changes().update(**row(1)), "not there"),
        (Changes().delete(id=1), "not there"),
        (Changes().insert(**row(1)).delete(id=1).delete(id=1), "not there"),
        (Changes().insert(**row(1)).insert(**row(2)).update(before={"id": 1}, **row(2)), "there already"),
        (Changes().insert(**row(1)).truncate().update(**row(1)), "not there"),
        (Changes().insert(**row(1)).update(before=row(1, note="other"), **row(1)), "was never so"),
    ],
)
def test_an_impossible_step_is_refused(changes, why):
    with pytest.raises(OutOfOrder, match=why):
        played(changes)


def test_events_that_come_twice_or_out_of_order_are_refused():
    first, second = events_of(Changes().insert(**row(1)).insert(**row(2)).batch())
    order = KeyOrder()
    order.add(second)

    with pytest.raises(OutOfOrder, match="comes after position"):
        order.add(first)


def test_debezium_values_are_read_too():
    source = {"schema": "shop", "table": "orders"}
    values = [
        {"op": "c", "before": None, "after": row(1), "source": source},
        {"op": "d", "before": row(1), "after": None, "source": source},
        {"op": "c", "before": None, "after": row(2), "source": source},
    ]
    order = KeyOrder()
    for event in events_of_debezium(values, {"shop.orders": ["id"]}):
        order.add(event)

    assert order.rows("shop.orders") == [row(2)]
