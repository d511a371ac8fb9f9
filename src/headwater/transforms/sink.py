"""A sink that sees transformed changes: wraps any sink, so that neither the flow nor the sink knows of transforms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from headwater.errors import Drift, Usage
from headwater.event import ChangeBatch, Position, TableSchema
from headwater.sinks.base import NOTHING_STOPPED, Again, Contents, Sink, WrappedSink, Written
from headwater.sources.base import Finding
from headwater.transforms.chain import Chain


class TransformedSink(WrappedSink):
    """Tables and batches go through the chain on their way to the sink inside."""

    def __init__(self, inner: Sink, chain: Chain) -> None:
        super().__init__(inner)
        self.chain = chain
        # The target's name of a table → the source's.
        self._origins: dict[str, str] = {}

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

    def table_position(self, table: TableSchema) -> Position | None:
        return self.inner.table_position(self._table(table))

    def replaced(self, table: TableSchema) -> bool:
        return self.inner.replaced(self._table(table))

    def target(self, table: TableSchema) -> str:
        return self.inner.target(self._table(table))

    def write(self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position) -> Written:
        left = self.chain.apply_all(batches)
        target = self._table(table)
        if not left:
            # Nothing for this table; its own position may stay behind, what comes again is filtered again.
            return Written(target.table, 0, 0.0)
        return self.inner.write(target, left, upto)

    def write_late(self, table: TableSchema, batches: Sequence[ChangeBatch]) -> Written:
        left = self.chain.apply_all(batches)
        target = self._table(table)
        return self.inner.write_late(target, left) if left else Written(target.table, 0, 0.0)

    def replay(self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position) -> Written:
        left = self.chain.apply_all(batches)
        target = self._table(table)
        return self.inner.replay(target, left, upto) if left else Written(target.table, 0, 0.0)

    def contents(self, table: TableSchema) -> Contents | None:
        raise Usage(f"what sink {self.name!r} holds was transformed on its way: it cannot be compared with the source")

    def takes_frame(self, table: TableSchema, settings: Mapping[str, str]) -> bool:
        # The chain works on batches.
        return False

    def spark_settings(self, tables: Sequence[TableSchema]) -> Mapping[str, str]:
        return {}

    def write_log(
        self,
        decoded: Iterable[Sequence[ChangeBatch]],
        upto: Position,
        stopped: Mapping[str, Position] = NOTHING_STOPPED,
    ) -> list[Written]:
        targets = {origin: target for target, origin in self._origins.items()}
        try:
            return self.inner.write_log(
                Again(lambda: self._applied(decoded)),
                upto,
                {targets.get(name, name): at for name, at in stopped.items()},
            )
        except Drift as error:
            error.table = self._origins.get(error.table, error.table)
            raise

    def _applied(self, decoded: Iterable[Sequence[ChangeBatch]]) -> Iterator[list[ChangeBatch]]:
        for batches in decoded:
            for batch in batches:
                if not batch.table.message:
                    self._table(batch.table)
            yield self.chain.apply_all(batches)

    def load_part(self, table: TableSchema, rows: Iterable[ChangeBatch]) -> str:
        def left() -> Iterator[ChangeBatch]:
            return filter(len, map(self.chain.apply, rows))

        return self.inner.load_part(self._table(table), Again(left))

    def load(self, table: TableSchema, receipts: Sequence[str], upto: Position) -> None:
        self.inner.load(self._table(table), receipts, upto)
