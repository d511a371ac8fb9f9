"""Text columns, and templates that put them together row by row: `{"id":` + column + `,"name":` + column + `}`.

Knows bytes and rows, nothing of what they mean; `writers.py` makes text columns from Arrow values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.formats import kernels

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Rows that are put together at a time: small enough that their text (about 600 bytes a row) stays near the
# processor while column after column is written into it, large enough that the 50 calls a block do not count.
# Measured in docs/decisions/0004-json-by-columns.md.
BLOCK_ROWS = 16384
# A block has fewer rows when they are long: text may be six times its input, and Arrow counts bytes with 31 bits.
BLOCK_BYTES = 64 << 20

NONE: Bytes = np.empty(0, dtype=np.uint8)


def blocks(records: pa.RecordBatch, constant: int = 0) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(first row, part) of a batch, part after part; `constant` is the length of what every row has in common."""
    rows = max(1, min(BLOCK_ROWS, BLOCK_BYTES // (constant + 1)))
    for begin in range(0, records.num_rows, rows):
        yield from _halved(begin, records.slice(begin, rows))


def _halved(begin: int, part: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    if part.num_rows <= 1 or part.nbytes <= BLOCK_BYTES:
        yield begin, part
        return
    half = part.num_rows // 2
    yield from _halved(begin, part.slice(0, half))
    yield from _halved(begin + half, part.slice(half))


def literal(text: str) -> Bytes:
    """A constant text as the kernels take it."""
    return np.frombuffer(text.encode(), dtype=np.uint8)


@dataclass(frozen=True)
class Text:
    """One text per row: row i is data[begins[i]:ends[i]], unless `state` says otherwise.

    `state` is empty when every row has its text; else one of the kernels' VALUE, NULL, UNAVAILABLE, FAILED."""

    data: Bytes
    begins: Longs
    ends: Longs
    state: Bytes = field(default_factory=lambda: NONE)

    def __len__(self) -> int:
        return len(self.begins)

    def rows(self, kind: int) -> Mask:
        """A mask of the rows in that state."""
        if not self.state.size:
            return np.full(len(self), kind == kernels.VALUE)
        return np.asarray(self.state == kind)

    def marked(self, mask: Mask, kind: int) -> Text:
        """The same texts, with the rows under `mask` in another state."""
        state = self.state.copy() if self.state.size else np.zeros(len(self), dtype=np.uint8)
        state[mask] = kind
        return Text(self.data, self.begins, self.ends, state)

    def take(self, index: Longs) -> Text:
        """Rows by number; the bytes stay where they are."""
        state = self.state[index] if self.state.size else NONE
        return Text(self.data, self.begins[index], self.ends[index], state)

    def to_arrow(self) -> pa.StringArray:
        """As Arrow strings; rows that have no text are null."""
        text = self if self._packed else PACK.fill([self], len(self)).with_state(self.state)
        valid = pa.array(text.state == kernels.VALUE).buffers()[1] if text.state.size else None
        offsets = np.zeros(len(text) + 1, dtype=np.int64)
        np.cumsum(text.ends - text.begins, out=offsets[1:])
        if offsets[-1] > np.iinfo(np.int32).max:
            raise OverflowError("more than 2 GB of text in one Arrow array; encode fewer rows at a time")
        places = pa.py_buffer(offsets.astype(np.int32))
        return pa.StringArray.from_buffers(len(text), places, pa.py_buffer(text.data), valid)

    def with_state(self, state: Bytes) -> Text:
        return Text(self.data, self.begins, self.ends, state)

    @property
    def _packed(self) -> bool:
        """Whether the rows lie end to end from the first byte on, as Arrow wants them."""
        if not len(self):
            return True
        return bool(self.begins[0] == 0 and (self.begins[1:] == self.ends[:-1]).all())

    @staticmethod
    def from_ends(data: Bytes, ends: Longs, state: Bytes = NONE) -> Text:
        """As the kernels leave it: ends[0] = 0, the rows end to end."""
        return Text(data, ends[:-1], ends[1:], state)

    @staticmethod
    def from_arrow(array: pa.Array) -> Text:
        """The bytes of a string or binary array as they are, without a copy."""
        data, offsets = bytes_of(array)
        return Text(data, offsets[:-1], offsets[1:], null_state(array))

    @staticmethod
    def nulls(rows: int) -> Text:
        """Nothing but nulls."""
        nowhere = np.zeros(rows, dtype=np.int64)
        return Text(NONE, nowhere, nowhere, np.full(rows, kernels.NULL, dtype=np.uint8))


def bytes_of(array: pa.Array) -> tuple[Bytes, Longs]:
    """The buffers of a string or binary array: bytes, and where each row begins."""
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, offsets, data = array.buffers()
    kind = np.int64 if wide else np.int32
    if offsets is None or not len(array):
        return NONE, np.zeros(len(array) + 1, dtype=np.int64)
    places = np.frombuffer(offsets, dtype=kind)[array.offset : array.offset + len(array) + 1]
    raw = NONE if data is None else np.frombuffer(data, dtype=np.uint8)
    return raw, places.astype(np.int64)


def null_state(array: pa.Array) -> Bytes:
    """`Text.state` of an Arrow array: NULL where it is null."""
    if not array.null_count:
        return NONE
    state: Bytes = pc.is_null(array).to_numpy(zero_copy_only=False).astype(np.uint8)
    return state


@dataclass(frozen=True)
class Slot:
    """Where a column goes in a template, and what stands there when a row has no value."""

    before: str
    null: str = "null"
    unavailable: str = "null"

    @cached_property
    def literals(self) -> tuple[Bytes, Bytes, Bytes]:
        return literal(self.before), literal(self.null), literal(self.unavailable)


@dataclass(frozen=True)
class Template:
    """Literal, column, literal, column, …, literal."""

    slots: tuple[Slot, ...]
    end: str

    @cached_property
    def size(self) -> int:
        """Bytes that every row has in common."""
        return sum(len(slot.literals[0]) for slot in self.slots) + len(self.end)

    def fill(self, columns: Sequence[Text], rows: int, end: str | None = None) -> Text:
        """One text per row. `end` replaces the last literal for this call."""
        last = literal(self.end if end is None else end)
        sizes = np.full(rows, len(last), dtype=np.int64)
        for slot, column in zip(self.slots, columns, strict=True):
            before, null, unavailable = slot.literals
            kernels.add_sizes(sizes, len(before), column.begins, column.ends, column.state, len(null), len(unavailable))
        offsets = np.zeros(rows + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:])
        out = np.empty(offsets[-1], dtype=np.uint8)
        cursor = offsets[:-1].copy()
        for slot, column in zip(self.slots, columns, strict=True):
            before, null, unavailable = slot.literals
            kernels.put(out, cursor, before, column.data, column.begins, column.ends, column.state, null, unavailable)
        nowhere = np.zeros(rows, dtype=np.int64)
        kernels.put(out, cursor, last, NONE, nowhere, nowhere, NONE, NONE, NONE)
        return Text(out, offsets[:-1], offsets[1:])


PACK = Template((Slot("", "", ""),), "")
"""Copies texts so that they lie end to end."""
