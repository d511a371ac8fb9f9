"""Values of one column → one Arrow array of the column's lake type, without a Python step per value.

The bytes are those of rows events, or of a result under the binary protocol: where the two write a type
differently there are two readers, and a test asks the server itself whether they agree. Finding the bytes is left to
`kernels.py`; the rules per type are in TYPES.md.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import Stop, Unrepresentable
from headwater.event import Column
from headwater.sources.mysql import time_kernels as times
from headwater.sources.mysql import value_kernels as kernels
from headwater.sources.mysql.charset import UTF8, decode_text, is_wide
from headwater.sources.mysql.json_binary import json_text
from headwater.sources.mysql.types import BINARIES, GEOMETRIES, INTEGERS, TEXTS

Bytes = npt.NDArray[np.uint8]
Starts = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int32]

# Arrow's string and list types count with 32 bits.
MAX_BYTES = (1 << 31) - 1
_DAY = 86_400_000_000


def parse(
    column: Column, data: Bytes, starts: Starts, lengths: Lengths, table: str = "", *, result: bool = False
) -> pa.Array:
    """The values of `column`: value i is data[starts[i]:starts[i] + lengths[i]], null when its length is negative.

    They come from rows events, or from a `result`. Raises Unrepresentable for a value that the lake type cannot
    hold; the error never shows the value."""
    starts = np.ascontiguousarray(starts, dtype=np.int64)
    lengths = np.ascontiguousarray(lengths, dtype=np.int32)
    return _Values(column, data, starts, lengths, table, result).parse()


class _Values:
    """The bytes of one column on their way to Arrow."""

    def __init__(self, column: Column, data: Bytes, starts: Starts, lengths: Lengths, table: str, result: bool) -> None:
        self.column = column
        self.facts = column.detail
        self.table = table
        self.result = result
        self.bytes_of = (data, starts, lengths)
        self.rows = len(lengths)
        present = lengths >= 0
        self.present = present
        self.bytes = int(lengths.sum(dtype=np.int64, where=present))
        if self.bytes > MAX_BYTES:
            raise Stop(
                f"{self.bytes >> 20} MB of column {self.place} came in one batch; Arrow holds 2 GB",
                "let a batch have fewer rows",
            )

    @property
    def place(self) -> str:
        return f"{self.table}.{self.column.name}" if self.table else self.column.name

    def parse(self) -> pa.Array:
        name = self.facts["type"]
        if "cast" in self.facts and name not in TEXTS:
            return self.each(self.server_text)
        if name in INTEGERS:
            return self.integer(name)
        if name in TEXTS:
            return self.text()
        if name in BINARIES or name in GEOMETRIES:
            return self.binary(name)
        match name:
            case "decimal":
                return self.decimal()
            case "float":
                return self.floating(pa.float32(), 4)
            case "double":
                return self.floating(pa.float64(), 8)
            case "date" | "datetime" | "timestamp":
                return self.moment(name)
            case "time":
                return self.time()
            case "year":
                return self.year()
            case "enum" | "set":
                return self.string(self.gathered(pa.string())) if self.result else self.labels(name)
            case "bit":
                return self.bits()
            case "json":
                return self.string(self.gathered(pa.string())) if self.result else self.each(json_text)
            case "uuid":
                return self.string(self.gathered(pa.string())) if self.result else self.uuid()
            case "inet4" | "inet6":
                return self.string(self.gathered(pa.string())) if self.result else self.each(self.server_text)
            case "vector":
                return self.vector()
        raise Stop(
            f"column {self.place} has the type {self.column.type}, which is not read yet",
            "Leave the table out: source.exclude",
        )

    # -- numbers -----------------------------------------------------------------------------------

    def integer(self, name: str) -> pa.Array:
        unsigned = bool(self.facts.get("unsigned"))
        out = np.zeros(self.rows, dtype=np.int64)
        self.check(kernels.read_int(*self.bytes_of, out, not unsigned, False))
        if name == "bigint" and unsigned:
            words = np.zeros(2 * self.rows, dtype=np.int64)
            words[::2] = out
            return self.fixed(self.column.arrow, words)
        return self.fixed(self.column.arrow, out.astype(f"int{self.column.arrow.bit_width}"))

    def floating(self, arrow: pa.DataType, width: int) -> pa.Array:
        out = np.zeros(self.rows * width, dtype=np.uint8)
        self.check(kernels.read_fixed(*self.bytes_of, width, out))
        return self.fixed(arrow, out)

    def decimal(self) -> pa.Array:
        digits, scale = self.facts["length"], self.facts["scale"]
        if not pa.types.is_decimal128(self.column.arrow):
            if self.result:
                return self.string(self.gathered(pa.string()))
            return self.each(lambda raw: kernels.decimal_plain(raw, digits, scale))
        out = np.zeros(2 * self.rows, dtype=np.uint64)
        if self.result:
            self.check(kernels.parse_decimal(*self.bytes_of, out, scale))
        else:
            self.check(kernels.read_decimal(*self.bytes_of, out, digits, scale))
        return self.fixed(self.column.arrow, out)

    def year(self) -> pa.Array:
        out = np.zeros(self.rows, dtype=np.int64)
        self.check(kernels.read_int(*self.bytes_of, out, False, False))
        if not self.result:
            out = np.where(out == 0, 0, out + 1900)
        return self.fixed(pa.int16(), out.astype(np.int16))

    def bits(self) -> pa.Array:
        """Digits, as many as the column has."""
        out = np.zeros(self.rows, dtype=np.int64)
        self.check(kernels.read_int(*self.bytes_of, out, False, True))
        width = self.facts.get("length") or 1
        return self.by_number(out, lambda number: f"{number & (1 << 64) - 1:0{width}b}")

    # -- dates and times ---------------------------------------------------------------------------

    @property
    def form(self) -> int:
        if self.result:
            return times.RESULT
        forms = {"date": times.LOG_DATE, "datetime": times.LOG_DATETIME, "timestamp": times.LOG_TIMESTAMP}
        return forms[self.facts["type"]]

    def moment(self, name: str) -> pa.Array:
        """A date that no calendar has is null."""
        out = np.zeros(self.rows, dtype=np.int64)
        valid = np.zeros(self.rows, dtype=np.uint8)
        self.check(times.read_moment(*self.bytes_of, self.form, _DAY if name == "date" else 1, out, valid))
        self.present = self.present & (valid != 0)
        return self.fixed(self.column.arrow, out.astype(np.int32) if name == "date" else out)

    def time(self) -> pa.Array:
        offsets = np.empty(self.rows + 1, dtype=np.int32)
        out = np.empty(18 * self.rows, dtype=np.uint8)
        self.check(times.time_text(*self.bytes_of, self.result, self.facts.get("fraction", 0), offsets, out))
        return self.variable(pa.string(), offsets, out)

    # -- texts and bytes ---------------------------------------------------------------------------

    def text(self) -> pa.Array:
        charset = "utf8mb4" if self.result else self.facts["charset"]
        if charset in UTF8:
            return self.string(self.gathered(pa.string()))
        raw = self.gathered(pa.binary())
        plain = raw.buffers()[2]
        ascii_only = (
            plain is None or not plain.size or not np.frombuffer(plain, np.uint8)[: self.bytes].max(initial=0) >> 7
        )
        if ascii_only and not is_wide(charset):
            return raw.cast(pa.string())
        return self.each(lambda text: decode_text(text, charset))

    def string(self, texts: pa.Array) -> pa.Array:
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            raise Unrepresentable(
                f"column {self.place} ({self.column.type}) holds a text that is not UTF-8",
                "Declare the column's character set as what it really holds, or as binary",
            ) from None
        return texts

    def binary(self, name: str) -> pa.Array:
        if name == "binary" and not self.result:
            width = self.facts["length"]
            offsets = np.zeros(self.rows + 1, dtype=np.int32)
            out = _room(width * self.rows)
            self.check(kernels.gather_padded(*self.bytes_of, width, offsets, out))
            return self.variable(pa.binary(), offsets, out)
        return self.gathered(pa.binary())

    def labels(self, name: str) -> pa.Array:
        labels = self.facts["labels"]
        out = np.zeros(self.rows, dtype=np.int64)
        self.check(kernels.read_int(*self.bytes_of, out, False, False))
        if name == "set":
            return self.by_number(out, lambda bits: ",".join(label for i, label in enumerate(labels) if bits >> i & 1))
        # 0 stands for a value that was none of the labels when it was written: the server shows it as empty.
        if self.rows and int(out.max(initial=0)) > len(labels):
            self.refuse(int(out.argmax()))
        return pa.array(["", *labels], pa.string()).take(pa.array(out, mask=~self.present))

    def uuid(self) -> pa.Array:
        out = np.zeros(36 * self.rows, dtype=np.uint8)
        self.check(kernels.uuid_text(*self.bytes_of, out))
        return self.variable(pa.string(), np.arange(0, 36 * (self.rows + 1), 36, dtype=np.int32), out)

    def vector(self) -> pa.Array:
        raw = self.gathered(pa.binary())
        places = np.frombuffer(raw.buffers()[1], dtype=np.int32)
        if (places % 4).any():
            self.refuse(0)
        numbers = pa.array(np.frombuffer(raw.buffers()[2] or b"", dtype=np.uint8)[: self.bytes].view(np.float32))
        offsets = pa.py_buffer((places // 4).astype(np.int32))
        return pa.Array.from_buffers(self.column.arrow, self.rows, [self.valid(), offsets], children=[numbers])

    def server_text(self, raw: bytes) -> str:
        """One value as the server prints it: for `cast`, and for rare types."""
        name, fraction = self.facts["type"], self.facts.get("fraction", 0)
        match name:
            case "date":
                return str(times.moment_text(raw, self.form, 0, False))
            case "datetime" | "timestamp":
                return str(times.moment_text(raw, self.form, fraction, True))
            case "decimal":
                digits, scale = self.facts["length"], self.facts["scale"]
                return raw.decode() if self.result else str(kernels.decimal_plain(raw, digits, scale))
            case "inet4":
                return socket.inet_ntop(socket.AF_INET, raw.ljust(4, b"\0"))
            case "inet6":
                return inet6_text(raw.ljust(16, b"\0"))
            case _ if name in INTEGERS:
                return str(int.from_bytes(raw, "little", signed=not self.facts.get("unsigned")))
        raise Stop(
            f"source.cast: {self.place} is {self.column.type}, which has no text of its own",
            "Only dates, times and numbers can be cast to string",
        )

    # -- into Arrow --------------------------------------------------------------------------------

    def each(self, function: Callable[[bytes], str]) -> pa.Array:
        """A plain function for rare types; it sees every distinct value once."""
        distinct = self.gathered(pa.binary()).dictionary_encode()
        texts = []
        for code, raw in enumerate(distinct.dictionary.to_pylist()):
            try:
                texts.append(function(raw))
            except (ValueError, IndexError):
                indices = distinct.indices.fill_null(-1).to_numpy(zero_copy_only=False)
                self.refuse(int(np.flatnonzero(indices == code)[0]))
        return pa.array(texts, pa.string()).take(distinct.indices)

    def by_number(self, numbers: npt.NDArray[np.int64], function: Callable[[int], str]) -> pa.Array:
        """The same for values that are numbers."""
        distinct, places = np.unique(numbers, return_inverse=True)
        texts = pa.array([function(int(number)) for number in distinct], pa.string())
        return texts.take(pa.array(places.astype(np.int64), mask=~self.present))

    def gathered(self, arrow: pa.DataType) -> pa.Array:
        offsets = np.empty(self.rows + 1, dtype=np.int32)
        out = _room(self.bytes)
        kernels.gather(*self.bytes_of, offsets, out)
        return self.variable(arrow, offsets, out)

    def valid(self) -> pa.Buffer | None:
        return None if self.present.all() else pa.py_buffer(np.packbits(self.present, bitorder="little"))

    def fixed(self, arrow: pa.DataType, out: npt.NDArray[Any]) -> pa.Array:
        return pa.Array.from_buffers(arrow, self.rows, [self.valid(), pa.py_buffer(out)])

    def variable(self, arrow: pa.DataType, offsets: npt.NDArray[np.int32], out: Bytes) -> pa.Array:
        return pa.Array.from_buffers(arrow, self.rows, [self.valid(), pa.py_buffer(offsets), pa.py_buffer(out)])

    def check(self, bad: int) -> None:
        if bad >= 0:
            self.refuse(bad)

    def refuse(self, row: int) -> NoReturn:
        size = int(self.bytes_of[2][row])
        # `from None`: what was being handled could show the value.
        raise Unrepresentable(
            f"column {self.place} ({self.column.type}) holds a value that {self.column.arrow} cannot",
            "If the column was altered: load the table anew",
            cause=f"not a value of this type as the server writes it (value {row} of {self.rows}, {size} bytes)",
        ) from None


def inet6_text(raw: bytes) -> str:
    """As the server prints it: the first of the longest runs of zeros is left out, one zero too."""
    groups = [int.from_bytes(raw[k : k + 2]) for k in range(0, 16, 2)]
    begin = size = 0
    for start in range(8):
        run = next((n for n, group in enumerate(groups[start:]) if group), 8 - start)
        if run > size:
            begin, size = start, run
    if begin == 0 and (size == 6 or (size == 5 and groups[5] == 0xFFFF)):
        # An IPv4 address in disguise.
        return ("::ffff:" if size == 5 else "::") + socket.inet_ntop(socket.AF_INET, raw[12:])
    shown = [f"{group:x}" for group in groups]
    return ":".join(shown[:begin]) + "::" + ":".join(shown[begin + size :]) if size else ":".join(shown)


def _room(size: int) -> Bytes:
    # From Arrow's pool, which keeps what was freed: fresh pages cost a third of the copying.
    return np.frombuffer(pa.allocate_buffer(max(size, 1)), dtype=np.uint8)
