"""Texts of one column → one Arrow array of the column's lake type, without a Python step per value.

The texts are what pgoutput and COPY … TO STDOUT both give under connection.SESSION_SETTINGS, so snapshot and
stream cannot differ. Finding the texts is left to `kernels.py` and the snapshot; the rules per type are in TYPES.md.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import Stop, Unrepresentable
from headwater.event import Column, unquoted
from headwater.sources.postgres import nested_kernels as nested
from headwater.sources.postgres import time_kernels as times
from headwater.sources.postgres import value_kernels as kernels

Bytes = npt.NDArray[np.uint8]
Starts = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int32]

# Arrow's string and list types count with 32 bits.
MAX_BYTES = (1 << 31) - 1


def parse(column: Column, data: Bytes, starts: Starts, lengths: Lengths, table: str = "") -> pa.Array:
    """The values of `column`: value i is data[starts[i]:starts[i] + lengths[i]], null when its length is
    negative (NULL, or left out by the log). They may lie anywhere and in any order.

    Raises Unrepresentable for a value that the lake type cannot hold; the error never shows the value."""
    starts = np.ascontiguousarray(starts, dtype=np.int64)
    lengths = np.ascontiguousarray(lengths, dtype=np.int32)
    values = _Values(column, data, starts, lengths, table)
    return values.parse(column.arrow, column.detail)


class _Values:
    """The texts of one column, or of the elements of one, on their way to Arrow."""

    def __init__(self, column: Column, data: Bytes, starts: Starts, lengths: Lengths, table: str) -> None:
        self.column = column
        self.table = table
        self.texts = (data, starts, lengths)
        self.rows = len(lengths)
        present = lengths >= 0
        self.nulls = self.rows - int(np.count_nonzero(present))
        self.present = pa.py_buffer(np.packbits(present, bitorder="little")) if self.nulls else None
        self.bytes = int(lengths.sum(dtype=np.int64, where=present))
        if self.bytes > MAX_BYTES:
            raise Stop(
                f"{self.bytes >> 20} MB of column {self.place} came in one batch; Arrow holds 2 GB",
                "let a batch have fewer rows",
            )

    @property
    def place(self) -> str:
        return f"{self.table}.{self.column.name}" if self.table else self.column.name

    def parse(self, arrow: pa.DataType, facts: Any) -> pa.Array:
        kinds = pa.types
        if kinds.is_string(arrow):
            return self.string()
        if kinds.is_signed_integer(arrow):
            return self.integer(arrow)
        if kinds.is_decimal128(arrow):
            return self.decimal(arrow)
        if kinds.is_timestamp(arrow):
            return self.timestamp(arrow)
        if kinds.is_floating(arrow):
            return self.floating(arrow)
        if kinds.is_boolean(arrow):
            return self.boolean()
        if kinds.is_date32(arrow):
            return self.date()
        if kinds.is_binary(arrow):
            return self.binary()
        if kinds.is_list(arrow):
            return self.array(arrow, facts)
        if kinds.is_map(arrow):
            return self.hstore(arrow)
        raise TypeError(f"{arrow} is not a lake type")

    def integer(self, arrow: pa.DataType) -> pa.Array:
        out = np.zeros(self.rows, dtype=f"int{arrow.bit_width}")
        limits = np.iinfo(out.dtype)
        self.check(kernels.parse_int(*self.texts, out, limits.min, limits.max))
        return self.fixed(arrow, out)

    def boolean(self) -> pa.Array:
        out = np.zeros(self.rows, dtype=np.uint8)
        self.check(kernels.parse_bool(*self.texts, out))
        return self.fixed(pa.bool_(), np.packbits(out, bitorder="little"))

    def date(self) -> pa.Array:
        out = np.zeros(self.rows, dtype=np.int32)
        self.check(times.parse_date(*self.texts, out))
        return self.fixed(pa.date32(), out)

    def timestamp(self, arrow: pa.DataType) -> pa.Array:
        out = np.zeros(self.rows, dtype=np.int64)
        self.check(times.parse_timestamp(*self.texts, out, arrow.tz is not None))
        return self.fixed(arrow, out)

    def decimal(self, arrow: pa.DataType) -> pa.Array:
        out = np.zeros(2 * self.rows, dtype=np.uint64)
        self.check(kernels.parse_decimal(*self.texts, out, arrow.precision, arrow.scale))
        return self.fixed(arrow, out)

    def floating(self, arrow: pa.DataType) -> pa.Array:
        # Arrow's parser rounds exactly and knows NaN and Infinity. Its error would show the value.
        texts = self.gathered(pa.string())
        try:
            return texts.cast(arrow)
        except pa.ArrowInvalid:
            self.refuse(next(row for row in range(self.rows) if not _is_float(texts[row])))

    def string(self) -> pa.Array:
        texts = self.gathered(pa.string())
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            # A server with encoding SQL_ASCII stores and sends any bytes.
            raise Unrepresentable(
                f"column {self.place} ({self.column.type}) holds a text that is not UTF-8",
                "store UTF-8 in the database (its encoding is probably SQL_ASCII)",
                "or leave the table out: source.exclude",
            ) from None
        return texts

    def binary(self) -> pa.Array:
        offsets = np.empty(self.rows + 1, dtype=np.int32)
        out = _room(self.bytes // 2)
        self.check(kernels.parse_hex(*self.texts, offsets, out))
        return self.variable(pa.binary(), offsets, out)

    def gathered(self, arrow: pa.DataType) -> pa.Array:
        offsets = np.empty(self.rows + 1, dtype=np.int32)
        out = _room(self.bytes)
        kernels.gather(*self.texts, offsets, out)
        return self.variable(arrow, offsets, out)

    def array(self, arrow: pa.DataType, facts: Any) -> pa.Array:
        element: dict[str, Any] = facts.get("element", {})
        delimiter = ord(element.get("delimiter", ","))
        count = nested.count_elements(*self.texts, delimiter)
        offsets = np.zeros(self.rows + 1, dtype=np.int32)
        starts, lengths = _bounds(count)
        out = _room(self.bytes)
        self.check(nested.parse_array(*self.texts, delimiter, offsets, starts, lengths, out))
        found = int(offsets[-1])
        inner = _Values(self.column, out, starts[:found], lengths[:found], self.table)
        return self.nesting(arrow, offsets, inner.parse(arrow.value_type, element))

    def hstore(self, arrow: pa.DataType) -> pa.Array:
        count = nested.count_pairs(*self.texts)
        offsets = np.zeros(self.rows + 1, dtype=np.int32)
        keys, items = _bounds(count), _bounds(count)
        out = _room(self.bytes)
        self.check(nested.parse_hstore(*self.texts, offsets, *keys, *items, out))
        found = int(offsets[-1])
        sides = [
            _Values(self.column, out, starts[:found], lengths[:found], self.table).string()
            for starts, lengths in (keys, items)
        ]
        entries = pa.StructArray.from_arrays(sides, fields=[arrow.key_field, arrow.item_field])
        return self.nesting(arrow, offsets, entries)

    def fixed(self, arrow: pa.DataType, out: npt.NDArray[Any]) -> pa.Array:
        return pa.Array.from_buffers(arrow, self.rows, [self.present, pa.py_buffer(out)], self.nulls)

    def variable(self, arrow: pa.DataType, offsets: npt.NDArray[np.int32], out: Bytes) -> pa.Array:
        buffers = [self.present, pa.py_buffer(offsets), pa.py_buffer(out)]
        return pa.Array.from_buffers(arrow, self.rows, buffers, self.nulls)

    def nesting(self, arrow: pa.DataType, offsets: npt.NDArray[np.int32], children: pa.Array) -> pa.Array:
        buffers = [self.present, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(arrow, self.rows, buffers, self.nulls, children=[children])

    def check(self, bad: int) -> None:
        if bad >= 0:
            self.refuse(bad)

    def refuse(self, row: int) -> NoReturn:
        data, starts, lengths = self.texts
        text = data[starts[row] : starts[row] + lengths[row]].tobytes()
        place = f"{unquoted(self.table) or '<schema>.<table>'}.{self.column.name}"
        error = Unrepresentable(
            f"column {self.place} ({self.column.type}) holds a value that {_name(self.column.arrow)} cannot",
            f'To keep the server\'s text instead: source.cast: {{"{place}": string}}',
            cause=f"{_reason(text, self.column)} (value {row} of {self.rows}, {len(text)} bytes)",
        )
        error.column = self.column.name
        # `from None`: what Arrow says would show the value.
        raise error from None


def _room(size: int) -> Bytes:
    # From Arrow's pool, which keeps what was freed: fresh pages cost a third of the copying.
    return np.frombuffer(pa.allocate_buffer(max(size, 1)), dtype=np.uint8)


def _bounds(count: int) -> tuple[Starts, Lengths]:
    return np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int32)


def _is_float(text: pa.StringScalar) -> bool:
    try:
        text.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _name(arrow: pa.DataType) -> str:
    return "a map" if pa.types.is_map(arrow) else str(arrow)


def _reason(text: bytes, column: Column) -> str:
    """Why a text was refused, without saying what it is."""
    arrow = column.arrow
    if pa.types.is_list(arrow):
        if text.startswith(b"["):
            return "an array with explicit lower bounds"
        if text.startswith(b"{"):
            return "an array of more than one dimension"
        arrow = arrow.value_type
    if pa.types.is_decimal(arrow) and text in (b"NaN", b"Infinity", b"-Infinity"):
        return "NaN or Infinity in a decimal column"
    if pa.types.is_timestamp(arrow) and text[:6].isdigit():
        return "a timestamp behind 294247-01-10 04:00:54.775806, the last that 64 bits of microseconds hold"
    return "not the text of this type as we asked the server to write it"
