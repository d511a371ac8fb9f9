"""Trees of JSON columns as Avro's binary form, column by column.

What an event is made of (`transforms/events_model.py`) stays as it is; only what is written at the end is another
thing. Arrays, maps and structs inside one column go value by value through `avro_plain.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.formats import avro_kernels, kernels
from headwater.formats.avro_plain import encode_text
from headwater.formats.connect import Schema
from headwater.formats.text import NONE, Bytes, Text

_KERNELS = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), avro_kernels.long_avro),
    "boolean": avro_kernels.boolean_avro,
    "string": avro_kernels.string_avro,
    "bytes": avro_kernels.bytes_avro,
}
# A number of one digit may take two bytes; any value may have a branch and a length before it.
_ROOM_PER_ROW = 12


def leaf_avro(schema: Schema, values: Text) -> Text:
    """One column; rows without a value stay without one (`part` puts what stands for them)."""
    rows = len(values)
    if rows > 1 and not values.state.size and _constant(values):
        one = leaf_avro(schema, values.take(np.zeros(1, dtype=np.int64)))
        return one.take(np.zeros(rows, dtype=np.int64))
    branch = _branch(schema)
    kernel = _KERNELS.get(schema.type)
    if kernel is not None:
        out = np.empty(int((values.ends - values.begins).sum()) + _ROOM_PER_ROW * rows, dtype=np.uint8)
        ends = np.zeros(rows + 1, dtype=np.int64)
        kernel(values.data, values.begins, values.ends, values.state, branch, out, ends)
        return Text.from_ends(out, ends, values.state)
    if schema.type in ("float", "double"):
        return _floats(schema, values, branch)
    return _one_by_one(schema, values)


def _constant(values: Text) -> bool:
    return bool((values.begins == values.begins[0]).all() and (values.ends == values.ends[0]).all())


def _branch(schema: Schema) -> int:
    """The byte before a value: of a union with null, the branch that the value is."""
    if not schema.optional:
        return -1
    return 2 if schema.default is None else 0


def _floats(schema: Schema, values: Text, branch: int) -> Text:
    texts = pc.replace_substring(values.to_arrow(), '"', "")
    numbers = texts.cast(pa.float32() if schema.type == "float" else pa.float64())
    array = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False)
    width = array.itemsize
    raw = array.astype(f"<f{width}").view(np.uint8).reshape(len(values), width)
    if branch >= 0:
        raw = np.column_stack([np.full(len(values), branch, dtype=np.uint8), raw])
    begins = np.arange(len(values), dtype=np.int64) * raw.shape[1]
    return Text(np.ascontiguousarray(raw).reshape(-1), begins, begins + raw.shape[1], values.state)


def _one_by_one(schema: Schema, values: Text) -> Text:
    encoded = [b"" if text is None else encode_text(schema, text) for text in values.to_arrow().to_pylist()]
    ends = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in encoded], out=ends[1:])
    return Text.from_ends(np.frombuffer(b"".join(encoded), dtype=np.uint8), ends, values.state)


@lru_cache(maxsize=4096)
def constant_avro(schema: Schema, text: str) -> Bytes:
    """What stands for null or for a value that the log left out, given as JSON."""
    return np.frombuffer(encode_text(schema, text), dtype=np.uint8)


Part = tuple[Text, Bytes, Bytes]
"""A column and what stands there for null and for a value that the log left out."""


def joined(parts: Sequence[Part], rows: int, before: bytes = b"") -> Text:
    """The columns of every row, one behind the other, behind `before`."""
    opening = np.frombuffer(before, dtype=np.uint8)
    sizes = np.full(rows, len(opening), dtype=np.int64)
    for column, null, unavailable in parts:
        kernels.add_sizes(sizes, 0, column.begins, column.ends, column.state, len(null), len(unavailable))
    offsets = np.zeros(rows + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    out = np.empty(offsets[-1], dtype=np.uint8)
    cursor = offsets[:-1].copy()
    nowhere = np.zeros(rows, dtype=np.int64)
    kernels.put(out, cursor, opening, NONE, nowhere, nowhere, NONE, NONE, NONE)
    for column, null, unavailable in parts:
        kernels.put(out, cursor, NONE, column.data, column.begins, column.ends, column.state, null, unavailable)
    return Text(out, offsets[:-1], offsets[1:])
