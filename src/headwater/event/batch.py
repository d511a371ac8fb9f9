"""A batch of changes of one table under one schema, as Arrow columns.

Everything after the decoder (transforms, formats, sinks, Spark) speaks this. A row is one change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.event.position import Position
from headwater.event.schema import TableSchema
from headwater.event.timeline import Timeline


def change_schema(table: TableSchema) -> pa.Schema:
    """The Arrow schema of `ChangeBatch.records` for a table."""
    return pa.schema(
        [
            # Operation's letter: r c u d t, m in a batch of messages
            pa.field("op", pa.string(), nullable=False),
            # The change's own Position: (commit, ordinal)
            pa.field("commit", pa.int64(), nullable=False),
            pa.field("ordinal", pa.int64(), nullable=False),
            # The change's own address in the log, as the database counts (PostgreSQL: LSN)
            pa.field("lsn", pa.int64()),
            pa.field("commit_time", pa.timestamp("us", tz="UTC")),
            pa.field("transaction_id", pa.int64()),
            # The row before: null when the log does not carry it; key columns only (the rest null) when
            # the log carries just the key.
            pa.field("before", table.arrow),
            # The row after: null for d and t.
            pa.field("after", table.arrow),
            # Names of `after` columns that the log left out because they did not change (unchanged TOAST).
            # Their value in `after` is null and means nothing: keep what the target has. Null = none.
            pa.field("unchanged", pa.list_(pa.string())),
        ]
    )


@dataclass(frozen=True)
class ChangeBatch:
    """Changes of one table, in commit order."""

    table: TableSchema
    records: pa.RecordBatch
    # Where these changes stand in the log among those of other tables; None when the source does not say.
    timeline: Timeline | None = field(default=None, compare=False, repr=False)

    def __len__(self) -> int:
        return int(self.records.num_rows)

    @property
    def op(self) -> pa.Array:
        return self.records.column("op")

    @property
    def before(self) -> pa.StructArray:
        return self.records.column("before")

    @property
    def after(self) -> pa.StructArray:
        return self.records.column("after")

    @property
    def first(self) -> Position:
        return Position(self.records.column("commit")[0].as_py(), self.records.column("ordinal")[0].as_py())

    @property
    def last(self) -> Position:
        return Position(self.records.column("commit")[-1].as_py(), self.records.column("ordinal")[-1].as_py())

    @property
    def places(self) -> list[tuple[int, int]]:
        """(commit, ordinal) of every change."""
        return list(zip(*(self.records.column(name).to_pylist() for name in ("commit", "ordinal")), strict=True))

    def filter(self, mask: pa.BooleanArray) -> ChangeBatch:
        return ChangeBatch(self.table, self.records.filter(mask), self.timeline)

    def take(self, rows: pa.Array) -> ChangeBatch:
        return ChangeBatch(self.table, self.records.take(rows), self.timeline)

    def slice(self, offset: int, length: int | None = None) -> ChangeBatch:
        return ChangeBatch(self.table, self.records.slice(offset, length), self.timeline)

    def between(self, after: Position | None, upto: Position | None) -> ChangeBatch:
        """The changes with after < position <= upto."""
        if not len(self) or ((after is None or self.first > after) and (upto is None or self.last <= upto)):
            return self
        commit = self.records.column("commit").to_numpy()
        ordinal = self.records.column("ordinal").to_numpy()
        keep = np.ones(len(self), dtype=bool)
        if after is not None:
            keep &= (commit > after.commit) | ((commit == after.commit) & (ordinal > after.ordinal))
        if upto is not None:
            keep &= (commit < upto.commit) | ((commit == upto.commit) & (ordinal <= upto.ordinal))
        return self.filter(pa.array(keep))

    @cached_property
    def unchanged_masks(self) -> dict[str, npt.NDArray[np.bool_]]:
        """For every column that some row leaves unchanged: a mask that is true on those rows."""
        unchanged = self.records.column("unchanged")
        if unchanged.null_count == len(unchanged):
            return {}
        parents = pc.list_parent_indices(unchanged).to_numpy(zero_copy_only=False)
        names = pc.list_flatten(unchanged).dictionary_encode()
        indices = names.indices.to_numpy()
        masks = {}
        for code, name in enumerate(names.dictionary.to_pylist()):
            mask = np.zeros(len(self), dtype=bool)
            mask[parents[indices == code]] = True
            masks[name] = mask
        return masks


def concat(batches: Sequence[ChangeBatch]) -> ChangeBatch:
    """Batches of one table and one schema as one, in the given order."""
    filled = [batch for batch in batches if len(batch)]
    if len(filled) <= 1:
        return filled[0] if filled else batches[0]
    merged = pa.Table.from_batches([batch.records for batch in filled]).combine_chunks()
    return ChangeBatch(filled[0].table, merged.to_batches()[0])
