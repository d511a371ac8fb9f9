"""Where every value of a run of JSON events stands: what `kernels.scan_events` found, by part and column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from headwater.formats.connect import quote
from headwater.sources.kafka import kernels
from headwater.sources.kafka.kernels import AFTER, BEFORE, SOURCE
from headwater.sources.kafka.values import Bytes, Longs, Tokens

# What is wanted of `source`: when the change was committed, and in which transaction.
SOURCE_FIELDS = ("ts_us", "ts_ms", "txId")


@dataclass(frozen=True)
class Scan:
    """Parallel arrays, an entry per event; those of values by name first."""

    data: Bytes
    columns: int
    # By part: whether it is there.
    present: npt.NDArray[np.uint8]
    op: Bytes
    start: npt.NDArray[np.int64]
    size: npt.NDArray[np.int32]
    kind: npt.NDArray[np.uint8]
    status: Bytes

    def tokens(self, part: int, place: int) -> Tokens:
        """A column of `before` or `after`, or a field of `source`."""
        name = {BEFORE: 0, AFTER: self.columns, SOURCE: 2 * self.columns}[part] + place
        return Tokens(self.data, self.start[name], self.size[name], self.kind[name])

    def kinds(self, part: int) -> npt.NDArray[np.uint8]:
        """What the values of a part are, by column."""
        begin = part * self.columns
        return self.kind[begin : begin + self.columns]


def scan(data: Bytes, begins: Longs, finishes: Longs, columns: Sequence[str]) -> Scan:
    """Events in data[begins[i]:finishes[i]], whose rows have these columns."""
    names, ends, parts = _names(tuple(columns))
    rows, count = begins.size, ends.size - 1
    present, op = np.empty((3, rows), np.uint8), np.empty(rows, np.uint8)
    start, size = np.zeros((count, rows), np.int64), np.zeros((count, rows), np.int32)
    kind, status = np.zeros((count, rows), np.uint8), np.empty(rows, np.uint8)
    kernels.scan_events(data, begins, finishes, names, ends, parts, present, op, start, size, kind, status)
    return Scan(data, len(columns), present, op, start, size, kind, status)


@lru_cache(maxsize=1024)
def _names(columns: tuple[str, ...]) -> tuple[Bytes, Longs, Longs]:
    """The names as they stand in JSON, end to end; where each ends; where those of each part begin."""
    own = [quote(name)[1:-1].encode() for name in columns]
    whole = [*own, *own, *(name.encode() for name in SOURCE_FIELDS)]
    ends = np.zeros(len(whole) + 1, dtype=np.int64)
    np.cumsum([len(name) for name in whole], out=ends[1:])
    parts = np.array([0, len(own), 2 * len(own), len(whole)], dtype=np.int64)
    return np.frombuffer(b"".join(whole), dtype=np.uint8), ends, parts
