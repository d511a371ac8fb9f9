"""Proof of order per key: emitted events, read one after the other, must be a path that a row can take.

A key is inserted when it is absent, changed or deleted when it is there; an update that moves a row leaves one key and
takes another that was free; positions only grow. What is left at the end is the table, so it can be compared with
the source. Anything else is an `OutOfOrder`, and says where.

    order = KeyOrder()
    for event in events_of(batch):      # a ChangeBatch, a changelog table or Debezium values
        order.add(event)
    assert order.rows("public.orders") == …
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headwater.event import ChangeBatch, Operation

Row = dict[str, Any]
Key = tuple[Any, ...]


class OutOfOrder(AssertionError):
    """These events cannot have happened in this order."""


@dataclass(frozen=True)
class Event:
    """One emitted change of one row."""

    table: str
    op: Operation
    key: tuple[str, ...]
    before: Row | None
    after: Row | None
    # Columns of `after` that the log left out because they did not change.
    unchanged: frozenset[str] = frozenset()
    # (commit, ordinal); None where the form does not carry it.
    position: tuple[int, int] | None = None


class KeyOrder:
    """The rows that a sequence of events leaves; every step is checked."""

    def __init__(self) -> None:
        self.events = 0
        self._rows: dict[str, dict[Key, Row]] = defaultdict(dict)
        self._last: dict[str, tuple[int, int]] = {}

    def add(self, event: Event) -> None:
        """Take one step; raises OutOfOrder when the row cannot take it."""
        self.events += 1
        rows = self._rows[event.table]
        # A snapshot's rows share the snapshot's position.
        if event.position is not None and event.op is not Operation.READ:
            if event.position <= self._last.get(event.table, (-1, -1)):
                raise self._wrong(event, f"comes after position {self._last[event.table]}")
            self._last[event.table] = event.position
        match event.op:
            case Operation.READ | Operation.CREATE:
                self._arrive(event, rows, _row(event.after))
            case Operation.UPDATE:
                after = _row(event.after)
                old = _key(event, event.before if _knows_key(event) else after)
                if old not in rows:
                    raise self._wrong(event, f"changes {old}, which is not there")
                before = rows.pop(old)
                self._compare(event, before)
                self._arrive(
                    event, rows, {name: before[name] if name in event.unchanged else after[name] for name in after}
                )
            case Operation.DELETE:
                old = _key(event, event.before)
                if old not in rows:
                    raise self._wrong(event, f"deletes {old}, which is not there")
                self._compare(event, rows.pop(old))
            case Operation.TRUNCATE:
                rows.clear()

    def rows(self, table: str) -> list[Row]:
        """What the table holds after the last event."""
        return list(self._rows[table].values())

    def _arrive(self, event: Event, rows: dict[Key, Row], row: Row) -> None:
        new = _key(event, row)
        if new in rows:
            raise self._wrong(event, f"makes {new}, which is there already")
        rows[new] = row

    def _compare(self, event: Event, held: Row) -> None:
        """Where the log carries the whole old row, it must be the one that the last event left."""
        before = event.before
        if before is None or any(before.get(name) is None for name in before if held.get(name) is not None):
            return
        different = [name for name, value in before.items() if name in held and value != held[name]]
        if different:
            raise self._wrong(event, f"names an old row whose {different[0]!r} was never so")

    def _wrong(self, event: Event, what: str) -> OutOfOrder:
        return OutOfOrder(f"{event.table}: event {self.events}, {event.op.name} at {event.position}: {what}")


def events_of(batch: ChangeBatch) -> Iterator[Event]:
    """The events of a decoded batch."""
    key = tuple(batch.table.key)
    for record in batch.records.to_pylist():
        yield _event(batch.table.table, key, record, "")


def events_of_changelog(table: str, key: Sequence[str], rows: pa.Table) -> Iterator[Event]:
    """The events of a changelog as the sinks' mode `append` writes it, in log order whatever the files' order."""
    records = rows.to_pylist()
    reads = [record for record in records if record["_headwater_op"] == Operation.READ]
    rest = [record for record in records if record["_headwater_op"] != Operation.READ]
    rest.sort(key=lambda record: (record["_headwater_commit"], record["_headwater_ordinal"]))
    for record in (*reads, *rest):
        yield _event(table, tuple(key), record, "_headwater_")


def events_of_debezium(values: Sequence[Mapping[str, Any]], keys: Mapping[str, Sequence[str]]) -> Iterator[Event]:
    """The events of Debezium values (without `schema`), in the order they were emitted; `keys` by schema.table.

    Debezium writes a moved row as a delete and a create, so no position is checked: two events share one."""
    for value in values:
        source = value["source"]
        table = f"{source['schema']}.{source['table']}"
        yield Event(table, Operation(value["op"]), tuple(keys[table]), value.get("before"), value.get("after"))


def _event(table: str, key: tuple[str, ...], record: Mapping[str, Any], prefix: str) -> Event:
    return Event(
        table=table,
        op=Operation(record[f"{prefix}op"]),
        key=key,
        before=record["before"],
        after=record["after"],
        unchanged=frozenset(record[f"{prefix}unchanged"] or ()),
        position=(record[f"{prefix}commit"], record[f"{prefix}ordinal"]),
    )


def _row(row: Row | None) -> Row:
    if row is None:
        raise OutOfOrder("an insert or update without the row it leaves")
    return row


def _knows_key(event: Event) -> bool:
    return event.before is not None and all(event.before.get(name) is not None for name in event.key)


def _key(event: Event, row: Row | None) -> Key:
    if row is None:
        raise OutOfOrder(f"{event.table}: {event.op.name} at {event.position} does not say which row")
    return tuple(row[name] for name in event.key)
