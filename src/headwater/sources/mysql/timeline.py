"""The changes of a chunk of binlog frames as a Timeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from headwater.event import Chunk, TableSchema
from headwater.event.timeline import MOVED, Keys, Mask, Timeline, Transaction
from headwater.sources.mysql import binlog, values
from headwater.sources.mysql.decode import Bytes, Frames, Longs, bounds, scan, writable
from headwater.sources.mysql.position import FILE_BITS, FileProgress, parse_progress

_LETTER = np.zeros(256, dtype=np.uint8)
_LETTER[[23, 24, 25, 30, 31, 32, 2]] = list(b"cudcudt")
_UPDATES = (24, 31)


class MySqlTimeline(Timeline):
    """See `Timeline`. Nothing is worked out before it is asked for: typed rows never ask."""

    def __init__(self, data: Bytes, chunk: Chunk, schemas: Mapping[str, TableSchema]) -> None:
        self.earlier = chunk.context.get("earlier", {})
        self._data, self._chunk, self._schemas = data, chunk, schemas

    @cached_property
    def _frames(self) -> Frames:
        """Of all captured tables, whichever are wanted."""
        return scan(self._data, self._chunk, list(self._chunk.tables))

    @cached_property
    def _each(self) -> Longs:
        """The frame of every change."""
        return np.repeat(np.arange(self._frames.rows.size), self._frames.rows)

    @cached_property
    def commit(self) -> Longs:  # type: ignore[override]
        return self._frames.commit[self._each]

    @cached_property
    def ordinal(self) -> Longs:  # type: ignore[override]
        rows = self._frames.rows
        number_in_event = np.arange(self._each.size) - (np.cumsum(rows) - rows)[self._each]
        ordinal: Longs = self._frames.ordinal[self._each] + 1 + number_in_event
        return ordinal

    @cached_property
    def letter(self) -> npt.NDArray[np.uint8]:  # type: ignore[override]
        letters: npt.NDArray[np.uint8] = _LETTER[self._frames.kind[self._each]]
        return letters

    @cached_property
    def previous(self) -> Longs:  # type: ignore[override]
        """No event of these connectors names the transaction before."""
        return np.zeros(self._each.size, dtype=np.int64)

    @cached_property
    def tables(self) -> Sequence[TableSchema]:  # type: ignore[override]
        return [self._schemas[run.schema] for run in self._chunk.tables]

    @cached_property
    def table(self) -> npt.NDArray[np.int32]:
        return self._frames.run[self._each]

    @cached_property
    def transactions(self) -> list[Transaction]:
        """From the begin frames; a few bytes each, read one by one."""
        frames = self._frames
        begins = [self._data[frames.start[i] : frames.end[i]].tobytes() for i in np.flatnonzero(frames.run == -2)]
        continued = bytes.fromhex(self._chunk.context.get("begin", ""))
        whole = [continued, *begins] if continued else begins
        found = []
        for number, frame in enumerate(whole):
            commit, time, _number, address = binlog.BEGIN.unpack_from(frame, binlog.HEADER_BYTES)
            name = frame[binlog.HEADER_BYTES + binlog.BEGIN.size :].decode() or self._place(address)
            first, behind = np.searchsorted(self.commit, [commit, commit + 1]).tolist()
            # With its first change, wherever the chunk was cut.
            begun = number > 0 or not continued or not self._chunk.context["ordinal"]
            if begun and behind == first:
                continue
            if behind - first == 1 and self.letter[first] == ord("t"):
                # TRUNCATE: a definition, with a GTID of its own and in no transaction.
                continue
            ended = number < len(whole) - 1 or self._chunk.whole
            found.append(
                Transaction(commit, time, first, behind - first, name if begun else None, name if ended else None)
            )
        return found

    def moved(self, keys: Keys) -> Mask:
        moved = np.zeros(self._each.size, dtype=bool)
        updates = np.isin(self._frames.kind, _UPDATES)
        for number, table in enumerate(self.tables):
            places = [place for place, column in enumerate(table.columns) if column.name in keys(table)]
            mask = updates & (self._frames.run == number)
            if places and mask.any():
                moved[mask[self._each]] = self._key_changed(self._frames.where(mask), table, places)
        return moved

    def counts(self, keys: Keys) -> dict[str, dict[str, int]]:
        """Of the last transaction, with what it had before this chunk: what the next chunk gets as `earlier`."""
        last = self.transactions[-1]
        counted = {name: Counter(letters) for name, letters in self.earlier.items()} if last.begin is None else {}
        rows = slice(last.first, last.first + last.changes)
        moved = self.moved(keys)[rows]
        for place, table in enumerate(self.tables):
            own = self.table[rows] == place
            letters = Counter(chr(letter) for letter in self.letter[rows][own].tolist())
            letters[MOVED] = int(moved[own].sum())
            counted[table.table] = counted.get(table.table, Counter()) + letters
        return {name: dict(letters) for name, letters in counted.items() if letters}

    def _key_changed(self, frames: Frames, table: TableSchema, places: list[int]) -> Mask:
        new_start, new_size, old_start, old_size = bounds(self._data, frames, table)
        changed = np.zeros(int(frames.rows.sum()), dtype=bool)
        for place in places:
            column = table.columns[place]
            new = values.parse(column, self._data, new_start[place], new_size[place], table.table)
            old = values.parse(column, self._data, old_start[place], old_size[place], table.table)
            changed |= pc.fill_null(pc.not_equal(new, old), False).to_numpy(zero_copy_only=False)
        return changed

    def _place(self, address: int) -> str:
        """What Debezium calls a transaction without a GTID."""
        progress = parse_progress(self._chunk.context["resume"])
        log, _, digits = progress.file.rpartition(".") if isinstance(progress, FileProgress) else ("", "", "")
        return f"file={log}.{address >> FILE_BITS:0{len(digits)}},pos={address & (1 << FILE_BITS) - 1}"


def open_transaction(chunk: Chunk, schemas: Mapping[str, TableSchema]) -> dict[str, dict[str, int]]:
    """How many changes the transaction that goes on behind this chunk has had: {table: {letter: changes}}."""
    timeline = MySqlTimeline(writable(np.frombuffer(chunk.frames, dtype=np.uint8)), chunk, schemas)
    return timeline.counts(lambda table: table.key) if timeline.transactions else {}
