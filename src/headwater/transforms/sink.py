"""A sink that sees transformed changes: wraps any sink, so that neither the flow nor the sink knows of transforms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headwater.errors import Usage
from headwater.event import ChangeBatch, Position, TableSchema
from headwater.sinks.base import Sink, Written
from headwater.sources.base import Finding
from headwater.transforms.chain import Chain


class TransformedSink(Sink):
    """Tables and batches go through the chain on their way to the sink inside."""

    def __init__(self, inner: Sink, chain: Chain) -> None:  # a wrapper, not a plug-in: has no options of its own
        self.inner = inner
        self.chain = chain
        self.name = inner.name
        self._origins: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        # What this wrapper does not know is the sink's own; while unpickling there is no inner sink yet.
        if name.startswith("__") or name in ("inner", "chain", "_origins"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def _table(self, table: TableSchema) -> TableSchema:
        """The table in the target. Two tables in one place would overwrite each other's position."""
        found = self.chain.table(table)
        origin = self._origins.setdefault(found.table, table.table)
        if origin != table.table:
            raise Usage(
                f"transforms: {origin} and {table.table} would both be written to {found.table}",
                "give each its own name; to gather shards in one topic use the event transform `reroute`",
            )
        return found

    def check(self, tables: Sequence[TableSchema]) -> list[Finding]:
        return self.inner.check([self._table(table) for table in tables])

    def position(self) -> Position | None:
        return self.inner.position()

    def table_position(self, table: TableSchema) -> Position | None:
        return self.inner.table_position(self._table(table))

    def write(self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position) -> Written:
        left = self.chain.apply_all(batches)
        target = self._table(table)
        if not left:
            # Nothing for this table; its own position may stay behind, what comes again is filtered again.
            return Written(target.table, 0, 0.0)
        return self.inner.write(target, left, upto)

    def replay(self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position) -> Written:
        left = self.chain.apply_all(batches)
        target = self._table(table)
        return self.inner.replay(target, left, upto) if left else Written(target.table, 0, 0.0)

    def warm_up(self) -> None:
        self.inner.warm_up()

    def takes_log(self) -> bool:
        return self.inner.takes_log()

    def write_log(self, decoded: Iterable[Sequence[ChangeBatch]], upto: Position) -> list[Written]:
        return self.inner.write_log((self.chain.apply_all(batches) for batches in decoded), upto)

    def load_part(self, table: TableSchema, rows: Iterable[ChangeBatch]) -> str:
        left = (self.chain.apply(batch) for batch in rows)
        return self.inner.load_part(self._table(table), (batch for batch in left if len(batch)))

    def load(self, table: TableSchema, receipts: Sequence[str], upto: Position) -> None:
        self.inner.load(self._table(table), receipts, upto)

    def advance(self, upto: Position) -> None:
        self.inner.advance(upto)
