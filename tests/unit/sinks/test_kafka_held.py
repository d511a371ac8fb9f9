"""What the position topic says of tables that stay behind: nothing of them is skipped, nothing else comes again."""

from __future__ import annotations

import dataclasses

from tests.unit.sinks.lake_of_orders import ORDERS

from headwater.event import Position
from headwater.sinks.kafka.position import Held
from headwater.sinks.kafka.sink import catching_up

ITEMS = dataclasses.replace(ORDERS, name="items")
AT = {n: Position(n, 0, f"resume-{n}") for n in (50, 70, 100, 120)}


def written(held: Held, upto: Position, stopped: dict[str, Position]) -> Held:
    """The sink's memory after a transaction that ends at `upto`."""
    facts = list(catching_up(held, upto, stopped))
    if held.position is None or held.position < upto:
        facts.append(held.fact("position", "", upto))
    after = Held(held.sink)
    after.position, after.stopped = held.position, dict(held.stopped)
    for key, value in facts:
        after.learn(key, value)
    return after


def test_a_table_that_stops_holds_what_is_durable_and_nothing_else() -> None:
    held = written(Held("kafka", position=AT[50]), AT[100], {ORDERS.table: AT[50]})

    assert held.durable == AT[50]
    assert held.durable.resume == "resume-50"
    assert held.reached(ORDERS) == AT[50]
    assert held.reached(ITEMS) == AT[100]


def test_after_the_remedy_it_catches_up_batch_by_batch() -> None:
    stopped = written(Held("kafka", position=AT[50]), AT[100], {ORDERS.table: AT[50]})

    # The next run begins at what is durable, and its batches end where they end.
    on_its_way = written(stopped, AT[70], {})
    assert (on_its_way.durable, on_its_way.reached(ORDERS), on_its_way.reached(ITEMS)) == (AT[70], AT[70], AT[100])
    there = written(on_its_way, AT[120], {})
    assert (there.durable, there.reached(ORDERS), there.reached(ITEMS)) == (AT[120],) * 3
    assert there.stopped == {}


def test_a_table_that_is_refused_again_stays_where_it_was() -> None:
    stopped = written(Held("kafka", position=AT[50]), AT[100], {ORDERS.table: AT[50]})

    again = written(stopped, AT[120], {ORDERS.table: AT[50]})

    assert (again.durable, again.reached(ORDERS), again.reached(ITEMS)) == (AT[50], AT[50], AT[120])
