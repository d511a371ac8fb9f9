"""Keys as small integers: which rows have the same key, and which rows of a file a batch touches.

Everything by column: a key of several columns is folded into one integer, column after column. Leaves
to `reduce` what the changes of a key amount to, and to `merge` what happens to the rows found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import Stop
from headwater.event import TableSchema

Ids = npt.NDArray[np.int64]


def merge_key(table: TableSchema, keys: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The columns that say which row a change is about; empty when the table has none that can be trusted.

    The `keys` option wins; then the primary key, if the log carries it for old rows; then the index that the
    log identifies rows by (PostgreSQL: REPLICA IDENTITY USING INDEX). An identity of all columns
    (FULL) is no key: two rows may be equal."""
    if table.unquoted in keys:
        return tuple(keys[table.unquoted])
    if table.key and (not table.identity or set(table.key) <= set(table.identity)):
        return table.key
    if table.identity and len(table.identity) < len(table.columns):
        return table.identity
    return table.key


def comparable(column: pa.Array) -> pa.Array:
    """A key column in a form in which equal keys are equal values for Arrow's hash kernels."""
    kind = column.type
    if pa.types.is_floating(kind):
        # PostgreSQL: -0 = 0 and NaN = NaN; Arrow hashes the former apart.
        return pc.add(column, pa.scalar(0.0, kind))
    if pa.types.is_nested(kind):
        # An array as a key is legal and rare: its text is exact, one value at a time.
        return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
    return column


def _codes(column: pa.Array, values: pa.Array) -> Ids:
    """For every row the index of its value in `values`, -1 when it is not there. NULL equals NULL."""
    found = pc.index_in(column, value_set=values, skip_nulls=False)
    return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), dtype=np.int64)


@dataclass(frozen=True)
class KeyIndex:
    """The distinct keys of a batch, numbered from 0, and the way to find them in other columns."""

    # Distinct keys: row i of every column is key i.
    columns: tuple[pa.Array, ...]
    # The distinct values of each key column, and per fold the distinct pairs (prefix, value) as one integer.
    _values: tuple[pa.Array, ...]
    _pairs: tuple[pa.Array, ...]

    def __len__(self) -> int:
        return len(self.columns[0])

    @staticmethod
    def of(columns: Sequence[pa.Array]) -> tuple[KeyIndex, Ids]:
        """Number the keys in these columns; also the number of every row's key."""
        plain = [comparable(column) for column in columns]
        encoded = plain[0].dictionary_encode(null_encoding="encode")
        values, pairs = [encoded.dictionary], []
        ids = np.asarray(encoded.indices.to_numpy(), dtype=np.int64)
        for column in plain[1:]:
            encoded = column.dictionary_encode(null_encoding="encode")
            values.append(encoded.dictionary)
            pair = ids * len(encoded.dictionary) + encoded.indices.to_numpy()
            folded = pa.array(pair).dictionary_encode()
            pairs.append(folded.dictionary)
            ids = np.asarray(folded.indices.to_numpy(), dtype=np.int64)
        count = len(pairs[-1]) if pairs else len(values[0])
        first = np.empty(count, dtype=np.int64)
        # Written backwards, so the first row of a key is what stays.
        first[ids[::-1]] = np.arange(len(ids), dtype=np.int64)[::-1]
        rows = pa.array(first)
        return KeyIndex(tuple(column.take(rows) for column in columns), tuple(values), tuple(pairs)), ids

    def find(self, columns: Sequence[pa.Array]) -> Ids:
        """The number of every row's key, -1 for a key that is not in this index."""
        ids = _codes(comparable(columns[0]), self._values[0])
        for column, values, pairs in zip(columns[1:], self._values[1:], self._pairs, strict=True):
            code = _codes(comparable(column), values)
            known = (ids >= 0) & (code >= 0)
            pair = np.where(known, ids * len(values) + code, -1)
            ids = _codes(pa.array(pair), pairs)
        return ids


def require_whole_keys(table: TableSchema, key: Sequence[str], columns: Sequence[pa.Array]) -> None:
    """Refuse a change that does not say which row it is about."""
    for name, column in zip(key, columns, strict=True):
        if column.null_count and name in (table.key or key):
            raise Stop(
                f"{table.table}: a change has no value in the key column {name!r}",
                "the log must carry the key of old rows: give the table a primary key, or set REPLICA IDENTITY FULL",
                "or use mode: append, which needs no key",
            )


def integers(column: pa.Array) -> npt.NDArray[np.int64] | None:
    """A column of numbers, dates or times as int64 (NULL as 0); None for a type without such a form."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(kind):
        column = column.cast(pa.int32()).cast(pa.int64())
    elif pa.types.is_integer(kind):
        column = column.cast(pa.int64())
    else:
        return None
    return np.asarray(pc.fill_null(column, 0).to_numpy(zero_copy_only=False), dtype=np.int64)


def may_hold(index: KeyIndex, minima: Sequence[Any], maxima: Sequence[Any]) -> npt.NDArray[np.bool_]:
    """Which files can hold one of the keys, by their statistics: one pa.Array of minima and maxima per key column.

    A file without statistics may hold anything. Every column must agree."""
    keep = np.ones(len(minima[0]), dtype=bool)
    for column, low, high in zip(index.columns, minima, maxima, strict=True):
        unknown = np.asarray(pc.or_(pc.is_null(low), pc.is_null(high)).to_numpy(zero_copy_only=False))
        lows, highs, values = integers(low), integers(high), integers(column)
        if lows is not None and highs is not None and values is not None and not column.null_count:
            ordered = np.unique(values)
            touched = np.searchsorted(ordered, lows, "left") < np.searchsorted(ordered, highs, "right")
        elif pa.types.is_string(column.type) and not column.null_count:
            # Text: only the batch's own range, because random text (a UUID) touches every file anyway.
            ends = pc.min_max(column)
            above = pc.greater_equal(high.cast(pa.string()), ends["min"])
            below = pc.less_equal(low.cast(pa.string()), ends["max"])
            touched = np.asarray(pc.fill_null(pc.and_(above, below), True).to_numpy(zero_copy_only=False))
        else:
            continue
        keep &= unknown | touched
    return keep
