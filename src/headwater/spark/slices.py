"""Slices: a range of the journal, cut for tasks. Plain data, planned on the driver, read on executors.

A slice names blocks and tables; it holds no rows and no secret.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from headwater.dead_letters.decode import Refuse, decode_apart
from headwater.errors import Unrepresentable
from headwater.event import ChangeBatch, Position, TableSchema
from headwater.journal import BlockRef, Journal
from headwater.registry import source_class

# Decoding releases the GIL, so a task that owns one hot table still uses several cores.
DECODE_THREADS = min(4, os.cpu_count() or 1)


@dataclass(frozen=True)
class Slice:
    """The changes of some tables in (after, upto]: what one task works on."""

    journal: str
    source: str
    after: Position
    upto: Position
    # None: all tables.
    tables: tuple[str, ...] | None
    # (segment, offset, size) of each block
    blocks: tuple[tuple[str, int, int], ...]
    # Whether a heartbeat follows on its events.
    beat: bool = False

    def without(self, tables: Collection[str]) -> Slice:
        """The same, less some tables."""
        if not tables or self.tables is None:
            return self
        return replace(self, tables=tuple(table for table in self.tables if table not in tables))

    def to_json(self) -> str:
        fields = {**self.__dict__, "after": self.after.to_json(), "upto": self.upto.to_json()}
        return json.dumps(fields, ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> Slice:
        read = json.loads(text)
        return Slice(
            journal=read["journal"],
            source=read["source"],
            after=Position.from_json(read["after"]),
            upto=Position.from_json(read["upto"]),
            tables=None if read["tables"] is None else tuple(read["tables"]),
            blocks=tuple((segment, offset, size) for segment, offset, size in read["blocks"]),
            beat=read["beat"],
        )


def admit_bytes(blocks: Sequence[BlockRef], end: Position, budget: int) -> Position:
    """How far a batch of about `budget` bytes goes: whole blocks, at least one, and up to a transaction's end if there
    is one among them."""
    upto = boundary = None
    for block in blocks:
        budget -= block.size
        if budget < 0 and upto is not None:
            return boundary or upto
        upto = block.header.last
        boundary = upto if block.header.whole else boundary
    return end


def size_of(slices: Sequence[Slice]) -> int:
    """Bytes of log that they touch together."""
    return sum(size for _segment, _offset, size in {place for part in slices for place in part.blocks})


def plan_by_table(
    journal: Journal, blocks: Sequence[BlockRef], after: Position, upto: Position, tasks: int
) -> list[Slice]:
    """One slice per task, each owning some tables whole: order per table and per key holds.

    Cost grows with what changed: only tables named in the blocks are looked at."""
    sizes: dict[str, int] = defaultdict(int)
    for block in blocks:
        for run in block.header.tables:
            sizes[run.table] += run.changes
    groups: list[tuple[int, list[str]]] = [(0, []) for _ in range(max(1, min(tasks, len(sizes))))]
    for table, size in sorted(sizes.items(), key=lambda item: -item[1]):
        smallest = min(range(len(groups)), key=lambda i: groups[i][0])
        groups[smallest] = (groups[smallest][0] + size, [*groups[smallest][1], table])
    return [_slice(journal, blocks, after, upto, tables) for _size, tables in groups]


def plan_by_range(
    journal: Journal, blocks: Sequence[BlockRef], after: Position, upto: Position, tasks: int, table: str | None
) -> list[Slice]:
    """Slices one behind the other, about equal in bytes: rows come out in log order, slice by slice."""
    wanted = [b for b in blocks if table is None or any(run.table == table for run in b.header.tables)]
    total = sum(block.size for block in wanted)
    share = max(1, -(-total // tasks))
    slices: list[Slice] = []
    part: list[BlockRef] = []
    size = 0
    for block in wanted:
        part.append(block)
        size += block.size
        if size >= share:
            slices.append(_slice(journal, part, after, upto, None if table is None else [table]))
            part, size = [], 0
    if part:
        slices.append(_slice(journal, part, after, upto, None if table is None else [table]))
    return slices


def idle_slice(journal: Journal, after: Position, upto: Position, *, beat: bool = False) -> Slice:
    """Nothing happened in between; but that is known now."""
    about = journal.about() or {}
    return Slice(journal.place, str(about["source"]), after, upto, (), (), beat)


def _slice(
    journal: Journal, blocks: Sequence[BlockRef], after: Position, upto: Position, tables: Sequence[str] | None
) -> Slice:
    about = journal.about() or {}
    wanted = None if tables is None else set(tables)
    places = tuple(
        (block.segment, block.offset, block.size)
        for block in blocks
        if wanted is None or any(run.table in wanted for run in block.header.tables)
    )
    owned = None if tables is None else tuple(tables)
    return Slice(journal.place, str(about["source"]), after, upto, owned, places)


def read_slice(part: Slice, *, events: bool = False, refuse: Refuse | None = None) -> Iterator[list[ChangeBatch]]:
    """The changes of a slice, block by block in order; `events`: for making events of them."""
    for decoded in decode_slice(part, events=events, refuse=refuse):
        kept = (batch.between(part.after, part.upto) for batch in decoded)
        yield [batch for batch in kept if len(batch)]


def decode_slice(part: Slice, *, events: bool = False, refuse: Refuse | None = None) -> Iterator[list[ChangeBatch]]:
    """The changes of all blocks that a slice touches, block by block; decoded some blocks ahead by threads. `refuse`
    gets changes with values that fit no lake type."""
    source = source_class(part.source)
    decode = source.decode_events if events else source.decode
    journal = Journal(part.journal)
    tables = None if part.tables is None else set(part.tables)
    schemas: dict[str, TableSchema] = {}

    def work(place: tuple[str, int, int]) -> list[ChangeBatch]:
        chunk = journal.storage.block(*place)
        for run in chunk.tables:
            if run.schema not in schemas:
                schemas[run.schema] = journal.schema(run.schema)
        try:
            return decode(chunk, schemas, tables)
        except Unrepresentable as error:
            if refuse is None:
                raise
            return decode_apart(source, chunk, schemas, tables, refuse, error)

    if not part.blocks:
        return
    if len(part.blocks) == 1:
        yield work(part.blocks[0])
        return
    with ThreadPoolExecutor(DECODE_THREADS) as pool:
        yield from pool.map(work, part.blocks)
