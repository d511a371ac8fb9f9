"""Records of several tables put back into the order of the log."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headwater.event import ChangeBatch
from headwater.formats.record import ORDERED, Encoded


def in_log_order(parts: Sequence[tuple[ChangeBatch, Encoded]]) -> pa.Table:
    """What each batch was encoded to, with the positions of the changes, ordered by them.

    A change that gave several records keeps their order: the sort falls back to the place in the batch."""
    tables = []
    for batch, encoded in parts:
        records = encoded.table
        change = records.column("change")
        positions = [batch.records.column(name).take(change) for name in ("commit", "ordinal", "commit_time")]
        columns = [records.column(name) for name in ("topic", "key", "value", "headers")]
        tables.append(pa.Table.from_arrays([*columns, *positions], schema=ORDERED))
    if not tables:
        return ORDERED.empty_table()
    merged = pa.concat_tables(tables)
    if len(tables) == 1:
        return merged
    numbered = merged.select(["commit", "ordinal"]).append_column("row", pa.array(range(merged.num_rows), pa.int64()))
    keys = [("commit", "ascending"), ("ordinal", "ascending"), ("row", "ascending")]
    return merged.take(pc.sort_indices(numbered, sort_keys=keys))
