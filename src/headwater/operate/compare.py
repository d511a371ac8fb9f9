"""Two Arrow tables of the same rows, compared by key and then column by column. Pure: knows no source and no sink.

Values are compared exactly: type, precision, NULL against empty, -0 against 0. Only NaN equals NaN. Reports keys,
never other values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# So many differing keys are named; the rest are counted.
NAMED = 5

Mask = npt.NDArray[np.bool_]


@dataclass
class Difference:
    """How two sets of rows differ. Adds up over parts of a table."""

    source_rows: int = 0
    lake_rows: int = 0
    # Keys that only the source has, that only the lake has, that the lake has more than once.
    missing: int = 0
    extra: int = 0
    repeated: int = 0
    # Keys whose values differ, and in which columns.
    different: int = 0
    columns: set[str] = field(default_factory=set)
    # The first of each kind: (kind, key).
    named: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        return not (self.missing or self.extra or self.repeated or self.different)

    def name(self, kind: str, keys: pa.Table) -> None:
        """Remember the first keys of a kind."""
        room = NAMED - sum(known == kind for known, _key in self.named)
        for row in keys.slice(0, max(0, room)).to_pylist():
            self.named.append((kind, {column: str(value) for column, value in row.items()}))


def compare(source: pa.Table, lake: pa.Table, key: Sequence[str], into: Difference) -> None:
    """Add the difference of two tables with the same columns to `into`."""
    into.source_rows += source.num_rows
    into.lake_rows += lake.num_rows
    # pyarrow takes rows of one chunk much faster, and offsets of one column stay below 2 GB by the caller's parts.
    source, lake = source.combine_chunks(), lake.combine_chunks()
    source_keys, lake_keys = _numbered(source, key, "source"), _numbered(lake, key, "lake")
    distinct = lake_keys.group_by(list(key)).aggregate([("lake", "min"), ("lake", "count")])
    repeated = distinct.filter(pc.greater(distinct.column("lake_count"), 1))
    into.repeated += repeated.num_rows
    into.name("repeated", lake.select(list(key)).take(repeated.column("lake_min")))
    lake_keys = distinct.select([*key, "lake_min"]).rename_columns([*key, "lake"])
    joined = source_keys.join(lake_keys, list(key), join_type="full outer", use_threads=False)
    joined = joined.sort_by([("source", "ascending"), ("lake", "ascending")]).combine_chunks()
    for kind, there, absent in (("missing", "source", "lake"), ("extra", "lake", "source")):
        rows = joined.filter(pc.is_null(joined.column(absent))).column(there)
        setattr(into, kind, getattr(into, kind) + len(rows))
        into.name(kind, {"source": source, "lake": lake}[there].select(list(key)).take(rows))
    both = joined.filter(pc.and_(pc.is_valid(joined.column("source")), pc.is_valid(joined.column("lake"))))
    _compare_values(source.take(both.column("source")), lake.take(both.column("lake")), key, into)


def _compare_values(source: pa.Table, lake: pa.Table, key: Sequence[str], into: Difference) -> None:
    """Rows of the same keys, one beside the other."""
    wrong = np.zeros(source.num_rows, dtype=bool)
    for name in source.column_names:
        differs = differing(source.column(name), lake.column(name))
        if differs.any():
            into.columns.add(name)
            wrong |= differs
    into.different += int(wrong.sum())
    into.name("different", source.select(list(key)).filter(pa.array(wrong)))


def differing(one: pa.ChunkedArray, other: pa.ChunkedArray) -> Mask:
    """For every row whether two columns of one type differ; NULL equals NULL, NaN equals NaN."""
    if pa.types.is_floating(one.type):
        return _differing_floats(one, other)
    if pa.types.is_nested(one.type):
        if one.equals(other) and not _has_floats(one.type):
            # Nested types have no equality by element, and nearly always this is the answer.
            return np.zeros(len(one), dtype=bool)
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        # repr: exact for numbers, tells None from empty, and one NaN from none.
        return np.array([repr(left) != repr(right) for left, right in pairs], dtype=bool)
    equal = pc.fill_null(pc.equal(one, other), False)
    return ~np.asarray(pc.or_(equal, pc.and_(pc.is_null(one), pc.is_null(other))))


def _has_floats(kind: pa.DataType) -> bool:
    """Arrow takes -0 for 0 inside of lists too."""
    if pa.types.is_nested(kind):
        return any(_has_floats(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))


def _differing_floats(one: pa.ChunkedArray, other: pa.ChunkedArray) -> Mask:
    """By their bits, so that -0 is not 0."""
    both_null = np.asarray(pc.and_(pc.is_null(one), pc.is_null(other)))
    one_null = np.asarray(pc.xor(pc.is_null(one), pc.is_null(other)))
    left, right = (np.asarray(pc.fill_null(side, 0.0).to_numpy()) for side in (one, other))
    same = (left == right) & (np.signbit(left) == np.signbit(right))
    same |= np.isnan(left) & np.isnan(right)
    return np.asarray((~same & ~both_null) | one_null)


def _numbered(table: pa.Table, key: Sequence[str], name: str) -> pa.Table:
    """The key columns, in a form that can be joined, and the number of every row."""
    columns = {column: joinable(table.column(column)) for column in key}
    return pa.table({**columns, name: pa.array(np.arange(table.num_rows))})


def joinable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A key column as Arrow's joins and groups take it."""
    if pa.types.is_nested(column.type):
        return pa.chunked_array([pa.array([_text(value) for value in column.to_pylist()], pa.string())])
    if pa.types.is_floating(column.type):
        # As PostgreSQL's own keys see it: -0 is 0.
        return pc.add(column, pa.scalar(0.0, column.type))
    return column


def _text(value: Any) -> str | None:
    return None if value is None else repr(value)
