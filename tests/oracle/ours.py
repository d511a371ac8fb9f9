"""Headwater's side of the comparison: one function, the only thing here that knows how events are had."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headwater.testing.debezium import DebeziumEvent

Ours = Callable[[str, Mapping[str, str]], list[DebeziumEvent]]
"""(database URL, Debezium properties) -> events, everything committed before the call.

Called twice per case: with `snapshot.mode=initial_only` for the rows as they are, and, after the statements
ran, with `snapshot.mode=no_data` for what the slot `slot.name` (it exists) has collected since."""


def capture(url: str, properties: Mapping[str, str]) -> list[DebeziumEvent]:
    """Events of the product itself."""
    raise NotImplementedError("the PostgreSQL decoder and the Debezium format are not joined yet")
