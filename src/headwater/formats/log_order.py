"""Records of several tables, and what stands between them, put back into the order of the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headwater.event import ChangeBatch
from headwater.formats.record import HEADERS, ORDERED, Encoded
from headwater.formats.transactions import Boundary


def in_log_order(parts: Sequence[tuple[ChangeBatch, Encoded]], boundaries: Sequence[Boundary] = ()) -> pa.Table:
    """What each batch was encoded to, with the positions of the changes, ordered by them.

    A change that gave several records keeps their order: the sort falls back to the place in the batch."""
    tables = []
    for batch, encoded in parts:
        records = encoded.table
        change = records.column("change")
        positions = [batch.records.column(name).take(change) for name in ("commit", "ordinal", "commit_time")]
        columns = [records.column(name) for name in ("topic", "key", "value", "headers")]
        tables.append(pa.Table.from_arrays([*columns, *positions], schema=ORDERED))
    if boundaries:
        begins, ends = (_boundaries(b for b in boundaries if b.opens is opens) for opens in (True, False))
        tables = [begins, *tables, ends]
    if not tables:
        return ORDERED.empty_table()
    merged = pa.concat_tables(tables)
    if len(tables) == 1:
        return merged
    numbered = merged.select(["commit", "ordinal"]).append_column("row", pa.array(range(merged.num_rows), pa.int64()))
    keys = [("commit", "ascending"), ("ordinal", "ascending"), ("row", "ascending")]
    return merged.take(pc.sort_indices(numbered, sort_keys=keys))


def _boundaries(boundaries: Iterable[Boundary]) -> pa.Table:
    found = list(boundaries)
    columns = {
        "topic": [boundary.record.topic for boundary in found],
        "key": [boundary.record.key for boundary in found],
        "value": [boundary.record.value for boundary in found],
        "headers": pa.nulls(len(found), HEADERS),
        "commit": [boundary.position.commit for boundary in found],
        "ordinal": [boundary.position.ordinal for boundary in found],
        "commit_time": pa.array([boundary.time for boundary in found], pa.int64()).cast(pa.timestamp("us", tz="UTC")),
    }
    return pa.Table.from_pydict(columns, schema=ORDERED)
