"""`event.processing.failure.handling.mode`: what happens to a change of which no event can be made."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from headwater.errors import Stop
from headwater.event import ChangeBatch
from headwater.formats.connector import Moment
from headwater.formats.text import Longs

LOG = logging.getLogger(__name__)

Blocks = tuple[pa.RecordBatch, ...]
Encode = Callable[[ChangeBatch, Moment], Blocks]


def leaving_out(encode: Encode, batch: ChangeBatch, moment: Moment, mode: str) -> Blocks:
    """The records of the batch without the changes that fail; `warn` counts them in the log.

    A batch that does not fail costs nothing; in one that does, halving finds the changes."""
    try:
        return encode(batch, moment)
    except Stop as error:
        failed = _failing(encode, batch, moment, np.arange(len(batch), dtype=np.int64))
        if mode == "warn":
            LOG.warning("%s: %d changes are left out: %s", batch.table.table, len(failed), error.what)
    keep = np.ones(len(batch), dtype=bool)
    keep[failed] = False
    if not keep.any():
        return ()
    rows = np.flatnonzero(keep)
    made = encode(batch.filter(pa.array(keep)), moment)
    return tuple(_renumbered(block, rows) for block in made)


def _failing(encode: Encode, batch: ChangeBatch, moment: Moment, rows: Longs) -> list[int]:
    try:
        encode(batch.take(pa.array(rows)), moment)
    except Stop:
        if len(rows) == 1:
            return [int(rows[0])]
        half = len(rows) // 2
        return [*_failing(encode, batch, moment, rows[:half]), *_failing(encode, batch, moment, rows[half:])]
    return []


def _renumbered(block: pa.RecordBatch, rows: Longs) -> pa.RecordBatch:
    """`change` counts the changes that were encoded; it shall count the batch's."""
    place = block.schema.get_field_index("change")
    change = pa.array(rows[block.column(place).to_numpy()])
    return block.set_column(place, block.schema.field(place), change)
