"""Values of a batch's columns replaced, column by column, in the rows before and after alike."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from headwater.event import ChangeBatch
from headwater.formats.column_options import ArrayMap


def map_columns(batch: ChangeBatch, maps: Mapping[str, ArrayMap]) -> ChangeBatch:
    """The batch with each named column passed through its map. Rows that are null stay null."""
    if not maps:
        return batch
    arrays = batch.records.columns
    names = batch.records.schema.names
    for side in ("before", "after"):
        place = names.index(side)
        arrays[place] = _mapped(arrays[place], batch, maps)
    # The schema's metadata is the caller's: it stays.
    return ChangeBatch(batch.table, pa.RecordBatch.from_arrays(arrays, schema=batch.records.schema), batch.timeline)


def _mapped(rows: pa.StructArray, batch: ChangeBatch, maps: Mapping[str, ArrayMap]) -> pa.StructArray:
    if rows.null_count == len(rows):
        return rows
    fields = []
    for i, column in enumerate(batch.table.columns):
        change = maps.get(column.name)
        values = rows.field(i)
        fields.append(values if change is None else change(values).cast(column.arrow))
    return pa.StructArray.from_arrays(fields, fields=list(batch.table.arrow), mask=rows.is_null())
