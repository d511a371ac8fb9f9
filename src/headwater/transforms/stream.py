"""Decoded changes → events in the order of the log, with what stands between them: for whoever prints or streams."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headwater.event import ChangeBatch, Position
from headwater.formats.connector import Connector, Moment, Run
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.log_order import in_log_order
from headwater.formats.transactions import Boundary, boundaries
from headwater.transforms.chain import Chain
from headwater.transforms.encoder import encoder


class EventStream:
    """One instance per thread."""

    def __init__(
        self, options: DebeziumOptions, connector: Connector, transforms: Chain | None = None, run: Run | None = None
    ) -> None:
        self._options = options
        self._transforms = transforms or Chain()
        self._encoder = encoder(options, connector, self._transforms.events, run)

    def events(
        self, decoded: Sequence[ChangeBatch], now: int, after: Position | None = None, upto: Position | None = None
    ) -> pa.Table:
        """The events of one chunk's changes (as ORDERED); of those with after < position <= upto when given.

        `decoded` has every table of the chunk, without rows where none lies in between: the ends of
        transactions are known from all of them."""
        parts = []
        for whole in decoded:
            batch = self._transforms.apply(whole.between(after, upto))
            if len(batch):
                parts.append((batch, self._encoder.encode(batch, moment_of(batch, whole, now))))
        return in_log_order(parts, self._boundaries(decoded, after, upto))

    def _boundaries(
        self, decoded: Sequence[ChangeBatch], after: Position | None, upto: Position | None
    ) -> list[Boundary]:
        orders = self._encoder.orders(decoded[0]) if decoded else None
        return [] if orders is None else list(boundaries(self._options, orders, after, upto))


def moment_of(batch: ChangeBatch, whole: ChangeBatch, now: int) -> Moment:
    """What the events of a batch have in common. Rows of a snapshot know whether they begin or end it, if they are
    still there: `batch` is what was left of `whole`."""
    marks = whole.records.schema.metadata or {}
    first, last = (marks.get(key, b"true").decode() for key in (b"first", b"last"))
    return Moment(
        now=now,
        first=first if batch.first == whole.first else "true",
        last=last if batch.last == whole.last else "true",
    )
