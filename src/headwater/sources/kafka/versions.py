"""One table out of the schemas that its partitions have at different times.

A column that is added shows in one partition while older records still come from another. Those are read as what they
are, rows that do not have the column yet: they get it as null. Within a partition order is order: a column that it had
and has no longer was dropped.
"""

from __future__ import annotations

from dataclasses import replace

from headwater.event import Column, TableSchema
from headwater.sources.kafka.known import KnownTables


class Versions:
    """The columns of every topic, and since when each partition has them."""

    def __init__(self, known: KnownTables) -> None:
        self._known = known
        self._columns: dict[str, dict[str, Column]] = {}
        # The last schema of each partition, and the table it makes.
        self._last: dict[tuple[str, int], TableSchema] = {}
        self._made: dict[str, dict[str, TableSchema]] = {}

    def table(self, topic: str, partition: int, offset: int, own: TableSchema) -> TableSchema:
        """The table that a record with the schema `own` is a row of."""
        if self._last.get((topic, partition)) is not own:
            self._last[topic, partition] = own
            self._move(topic, partition, offset, own)
        made = self._made[topic]
        if own.id not in made:
            made[own.id] = _completed(own, self._columns[topic])
        return made[own.id]

    def _move(self, topic: str, partition: int, offset: int, own: TableSchema) -> None:
        """A partition goes over to another schema at this offset."""
        columns = self._columns.get(topic)
        if columns is None:
            known = self._known(topic)
            columns = {column.name: column for column in (known.columns if known is not None else ())}
        since = self._known.since(topic, partition)
        names = {column.name for column in own.columns}
        for name in [name for name, first in since.items() if name not in names and first < offset]:
            del since[name]
            columns.pop(name, None)
        for name in names:
            since[name] = min(offset, since.get(name, offset))
        if not columns.keys() <= names:
            # Those that are new come last, as in the table.
            columns |= {column.name: column for column in own.columns}
        else:
            columns = {column.name: column for column in own.columns}
        self._columns[topic] = columns
        self._made[topic] = {}


def _completed(own: TableSchema, columns: dict[str, Column]) -> TableSchema:
    """The table with the columns that its schema does not have yet, in everybody's order."""
    named = {column.name: column for column in own.columns}
    if columns.keys() == named.keys():
        return own
    return replace(own, columns=tuple(named.get(name) or replace(c, nullable=True) for name, c in columns.items()))
