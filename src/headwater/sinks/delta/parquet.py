"""Parquet files of a Delta table: written fast, with the statistics a MERGE prunes by; read back whole.

Leaves the commit to `log`: a file written here belongs to nobody until its DataFile is committed.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.sinks.delta.place import Folder

# Rows per row group: 128 Ki rows of a narrow table are 2-4 MB, what a reader likes to skip or take.
ROW_GROUP = 128 * 1024
# Statistics are kept for the key and this many leading columns, as Delta's own writers do (they keep 32).
STATISTICS = 16
# A text value this long or longer gives no maximum: a cut maximum would be too low.
LONG_TEXT = 64
# Rows looked at to decide whether a text column is worth a dictionary. Dictionaries of distinct values cost
# a factor of 3 to 7 in writing (1 million rows, 5 columns: 1.4 s with, 0.2 s without).
DICTIONARY_SAMPLE = 2048

# Dates and times outside these years have no ISO form in Delta's statistics; delta-rs panics on them when it
# reads (1.6.6), so a file that holds one has no statistics for that column. The values themselves are exact.
FIRST_DAY, LAST_DAY = -719162, 2932896
DAY = 86_400_000_000


@dataclass(frozen=True)
class DataFile:
    """One Parquet file, as the table's log will name it. Plain data: it travels in a load receipt."""

    path: str
    size: int
    rows: int
    statistics: str
    written: int = field(default_factory=lambda: int(time.time() * 1000))


def write_files(
    folder: Folder, schema: pa.Schema, tables: Iterable[pa.Table], *, file_bytes: int, key: Sequence[str] = ()
) -> list[DataFile]:
    """Write rows into as many files as their size asks for; none for no rows."""
    done: list[DataFile] = []
    writer: _Writer | None = None
    try:
        for table in tables:
            for start in range(0, table.num_rows, ROW_GROUP):
                writer = writer or _Writer(folder, schema, table, key)
                writer.write(table.slice(start, ROW_GROUP))
                if writer.bytes >= file_bytes:
                    done.append(writer.close())
                    writer = None
        if writer is not None:
            done.append(writer.close())
    except BaseException:
        if writer is not None:
            writer.abandon()
        discard(folder, done)
        raise
    return done


def discard(folder: Folder, files: Sequence[DataFile]) -> None:
    """Remove files that were never committed; one that stays behind does no harm."""
    for file in files:
        folder.delete(file.path)


def read_file(folder: Folder, path: str, schema: pa.Schema) -> pa.Table:
    """A file's rows as `schema`; columns that came later than the file are NULL."""
    with folder.files.open_input_file(path) as stream:
        # INT96 is what Spark may have written in an OPTIMIZE; nanoseconds would overflow.
        read = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
        stored = {column.name: at for at, column in enumerate(read.schema_arrow)}
        present = [column for column in schema if column.name in stored]
        table = read.read() if len(present) == len(stored) else _read_some(read, present)
    columns = []
    for column in schema:
        if column.name in stored:
            columns.append(table.column(column.name).cast(column.type))
        else:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, column.type)]))
    return pa.Table.from_arrays(columns, schema=schema)


def _read_some(read: pq.ParquetFile, columns: Sequence[pa.Field]) -> pa.Table:
    """Only these columns. Row groups share one schema, so names are looked up once."""
    return read.read(columns=[column.name for column in columns])


class _Writer:
    """One file being written."""

    def __init__(self, folder: Folder, schema: pa.Schema, sample: pa.Table, key: Sequence[str]) -> None:
        self.path = f"part-{uuid.uuid4()}.parquet"
        self.rows = 0
        self._folder = folder
        self._sink = folder.create(self.path)
        self._schema = schema
        self._statistics = _Statistics(schema, key)
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=_repetitive(sample),
            # Row-group statistics of extreme dates are harmless: readers take them as numbers.
            store_schema=False,
        )

    @property
    def bytes(self) -> int:
        return int(self._sink.tell())

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=ROW_GROUP)
        self._statistics.add(table)
        self.rows += table.num_rows

    def close(self) -> DataFile:
        self._writer.close()
        size = self.bytes
        self._sink.close()
        self._folder.sync(self.path)
        return DataFile(self.path, size, self.rows, self._statistics.to_json(self.rows))

    def abandon(self) -> None:
        self._sink.close()
        self._folder.delete(self.path)


def _repetitive(sample: pa.Table) -> list[str]:
    """The text columns whose values repeat, by the first rows."""
    head = sample.slice(0, DICTIONARY_SAMPLE)
    if head.num_rows < 64:
        return []
    names = []
    for column in head.schema:
        if (pa.types.is_string(column.type) or pa.types.is_binary(column.type)) and "." not in column.name:
            distinct = pc.count_distinct(head.column(column.name)).as_py()
            if distinct * 8 <= head.num_rows:
                names.append(column.name)
    return names


class _Statistics:
    """Minimum, maximum and number of NULLs of the leading columns, as Delta's log writes them."""

    def __init__(self, schema: pa.Schema, key: Sequence[str]) -> None:
        wanted = [column for at, column in enumerate(schema) if at < STATISTICS or column.name in key]
        self._columns = [column for column in wanted if _has_order(column.type)]
        self._low: dict[str, Any] = {}
        self._high: dict[str, Any] = {}
        self._nulls = {column.name: 0 for column in self._columns}
        self._unknown: set[str] = set()

    def add(self, table: pa.Table) -> None:
        for column in self._columns:
            name, values = column.name, table.column(column.name)
            self._nulls[name] += values.null_count
            if name in self._unknown:
                continue
            ends = pc.min_max(_countable(values))
            low, high = ends["min"].as_py(), ends["max"].as_py()
            if low is None:
                continue
            if not _writable(column.type, low, high):
                self._unknown.add(name)
                continue
            self._low[name] = min(low, self._low.get(name, low))
            self._high[name] = max(high, self._high.get(name, high))

    def to_json(self, rows: int) -> str:
        known = [column for column in self._columns if column.name in self._low and column.name not in self._unknown]
        return json.dumps(
            {
                "numRecords": rows,
                "minValues": {c.name: _spell(c.type, self._low[c.name], up=False) for c in known},
                "maxValues": {c.name: _spell(c.type, self._high[c.name], up=True) for c in known},
                "nullCount": self._nulls,
            },
            ensure_ascii=False,
        )


def _has_order(kind: pa.DataType) -> bool:
    """Types whose statistics are exact in JSON. Decimals and floats are not; neither has NaN an order."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind) or pa.types.is_string(kind)
    )


def _countable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates and times as plain numbers: Python has no year 10000."""
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32())
    return values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values


def _writable(kind: pa.DataType, low: Any, high: Any) -> bool:
    if pa.types.is_date32(kind):
        return bool(low >= FIRST_DAY and high <= LAST_DAY)
    if pa.types.is_timestamp(kind):
        return bool(low >= FIRST_DAY * DAY and high < (LAST_DAY + 1) * DAY - 1000)
    return len(low) < LONG_TEXT and len(high) < LONG_TEXT if pa.types.is_string(kind) else True


def _spell(kind: pa.DataType, value: Any, *, up: bool) -> Any:
    """A bound as Delta's log spells it; times are rounded outwards to milliseconds, as far as readers look."""
    if pa.types.is_date32(kind):
        return date.fromordinal(value - FIRST_DAY + 1).isoformat()
    if pa.types.is_timestamp(kind):
        millis = -(-value // 1000) if up else value // 1000
        seconds, rest = divmod(millis, 1000)
        day, second = divmod(seconds, 86400)
        day_text = date.fromordinal(day - FIRST_DAY + 1).isoformat()
        clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{rest:03}"
        return f"{day_text}T{clock}" + ("Z" if kind.tz else "")
    return value
