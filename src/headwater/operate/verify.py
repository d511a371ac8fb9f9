"""Is the lake what the source is? Every table of a pipeline, row by row, every value by its type.

The source is copied at one position, by the parsers that a snapshot uses; each sink is asked for its contents;
`compare.py` tells the difference. Large tables are cut into parts by key, spilled to disk and compared one at a
time, so memory does not grow with the table.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import HeadwaterError, Usage
from headwater.event import ChangeBatch, Position, TableSchema
from headwater.event.schema import arrow_to_text
from headwater.operate.compare import Difference, compare, joinable
from headwater.pipeline.definition import Definition
from headwater.sinks.base import Contents, Sink
from headwater.sources.base import CopyChunk, Snapshot, Source

# One part of a table, by the size of its heap at the source. Arrow needs about three times that for both sides.
PART_BYTES = 128 << 20

NO_TABLE = "the lake does not have this table"


@dataclass(frozen=True)
class Verdict:
    """What was found about one table in one sink."""

    sink: str
    table: str
    difference: Difference
    # Why the rows were not compared, or not all that could be said: no such table, other columns, other types.
    reason: str = ""

    @property
    def equal(self) -> bool:
        return not self.reason and self.difference.equal

    def to_json(self) -> dict[str, Any]:
        """Plain values; keys, but nothing else of a row."""
        found = self.difference
        return {
            "sink": self.sink,
            "table": self.table,
            "equal": self.equal,
            "reason": self.reason,
            "source_rows": found.source_rows,
            "lake_rows": found.lake_rows,
            "missing": found.missing,
            "extra": found.extra,
            "repeated": found.repeated,
            "different": found.different,
            "columns": sorted(found.columns),
            "keys": [{"kind": kind, "key": key} for kind, key in found.named],
        }


@dataclass
class Verification:
    """A verification under way: `verdicts` compares table by table while the source's snapshot is held open."""

    definition: Definition
    tables: Sequence[str] = ("*",)
    # Where the source was when it was copied; known once the first verdict is.
    position: Position | None = None

    def verdicts(self) -> Iterator[Verdict]:
        """One for every table and sink, as they come. The pipeline should have delivered everything before."""
        source = self.definition.source
        chosen = [table for table in source.tables() if any(fnmatchcase(table.table, p) for p in self.tables)]
        if not chosen:
            raise Usage(f"no captured table matches {', '.join(self.tables)}", "headwater check lists what is captured")
        with source.snapshot(chosen, 1) as snapshot:
            self.position = snapshot.position
            for table in chosen:
                chunks = [chunk for chunk in snapshot.chunks if chunk.table.table == table.table]
                for name, sink in self.definition.sinks.items():
                    yield self._verdict(name, sink, table, chunks, snapshot)

    def _verdict(
        self, name: str, sink: Sink, table: TableSchema, chunks: Sequence[CopyChunk], snapshot: Snapshot
    ) -> Verdict:
        found = Difference()
        try:
            if not chunks:
                return Verdict(name, table.table, found, "the source no longer has this table")
            # As it is in the snapshot, which may be newer than the list.
            table = chunks[0].table
            contents = sink.contents(table)
            if contents is None:
                return Verdict(name, table.table, found, NO_TABLE)
            reason = other_shape(table, contents.schema)
            if not reason:
                _compare_rows(self.definition.source, table, chunks, snapshot, contents, found)
        except HeadwaterError as error:
            reason = error.what
        return Verdict(name, table.table, found, reason)


def other_shape(table: TableSchema, lake: pa.Schema) -> str:
    """How the lake's columns differ from the source's in name, order or type; empty when they do not."""
    names, wanted = lake.names, [column.name for column in table.columns]
    if names != wanted:
        odd = [name for name in [*names, *wanted] if (name in names) != (name in wanted)]
        return f"the columns differ: {', '.join(odd)}" if odd else "the columns have another order"
    for column in table.columns:
        kind = lake.field(column.name).type
        if _word(kind) != _word(column.arrow):
            return f"column {column.name}: the lake has {_word(kind)}, the source gives {_word(column.arrow)}"
    return ""


def _word(kind: pa.DataType) -> str:
    """A type, whatever Arrow and Delta call its insides."""
    if pa.types.is_map(kind):
        return f"map<{_word(kind.key_type)},{_word(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{_word(kind.value_type)}>"
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return "string"
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return "binary"
    try:
        return arrow_to_text(kind)
    except TypeError:
        return str(kind)


# -- rows -----------------------------------------------------------------------------------------------


def _compare_rows(
    source: Source,
    table: TableSchema,
    chunks: Sequence[CopyChunk],
    snapshot: Snapshot,
    contents: Contents,
    found: Difference,
) -> None:
    schema = pa.schema(list(table.arrow))

    def source_rows() -> Iterator[pa.Table]:
        for chunk in chunks:
            for batch in source.copy(chunk, snapshot):
                yield _rows(batch)

    def lake_rows() -> Iterator[pa.Table]:
        for batch in contents.batches:
            if batch.num_rows:
                yield pa.Table.from_batches([batch]).cast(schema)

    parts = 1 + sum(chunk.bytes for chunk in chunks) // PART_BYTES
    if parts == 1:
        compare(_gather(source_rows(), schema), _gather(lake_rows(), schema), contents.key, found)
        return
    with tempfile.TemporaryDirectory(prefix="headwater-verify-") as folder:
        lake = Spill(Path(folder) / "lake", schema, contents.key, parts)
        copied = Spill(Path(folder) / "source", schema, contents.key, parts)
        lake.take(lake_rows())
        copied.take(source_rows())
        for part in range(parts):
            compare(copied.part(part), lake.part(part), contents.key, found)


def _rows(batch: ChangeBatch) -> pa.Table:
    after = batch.after
    return pa.Table.from_arrays(
        [after.field(at) for at in range(after.type.num_fields)], schema=pa.schema(list(after.type))
    )


def _gather(rows: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *rows])


class Spill:
    """One side of a large table on disk, in parts by a hash of the key: the same key is in the same part of both."""

    def __init__(self, folder: Path, schema: pa.Schema, key: Sequence[str], parts: int) -> None:
        folder.mkdir()
        self._key = key
        self._schema = schema
        self._paths = [folder / f"{part}.arrow" for part in range(parts)]

    def take(self, rows: Iterable[pa.Table]) -> None:
        """Write every row to its part."""
        with ExitStack() as stack:
            writers = [stack.enter_context(pa.ipc.new_file(str(path), self._schema)) for path in self._paths]
            for table in rows:
                part = part_of(table, self._key, len(writers))
                for number, writer in enumerate(writers):
                    writer.write_table(table.filter(pa.array(part == number)))

    def part(self, number: int) -> pa.Table:
        """The rows of one part."""
        with pa.memory_map(str(self._paths[number])) as file:
            return pa.ipc.open_file(file).read_all()


def part_of(table: pa.Table, key: Sequence[str], parts: int) -> npt.NDArray[np.uint64]:
    """For every row the number of its part, by its key alone."""
    total = np.zeros(table.num_rows, dtype=np.uint64)
    for name in key:
        # Arrow has no hash to give away. A loop costs 0.3 s a million keys, and only large tables come here.
        column = joinable(table.column(name))
        values = (column if pa.types.is_binary(column.type) else column.cast(pa.string()).cast(pa.binary())).to_pylist()
        hashed = [0 if value is None else zlib.crc32(value) for value in values]
        total = total * np.uint64(31) + np.array(hashed, dtype=np.uint64)
    return total % np.uint64(parts)
