"""Reading the journal: an index of its blocks that grows as the tail writes, and blocks read by reference.

Any number of processes read while one writes. Only whole transactions are ever shown.
"""

from __future__ import annotations

import bisect
import os
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import Stop
from headwater.event import ORIGIN, Chunk, Position
from headwater.journal.block import MAGIC, PREFIX, Damaged, Header, decode_header, decode_payload, decode_prefix
from headwater.journal.folder import Journal


@dataclass(frozen=True)
class BlockRef:
    """Where a block lies, and its header: the index entry."""

    path: Path
    offset: int
    size: int
    header: Header


class JournalReader:
    """The blocks of whole transactions, in order. `refresh` looks for new ones."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._blocks: list[BlockRef] = []
        # Blocks of a transaction that has not ended yet.
        self._open: list[BlockRef] = []
        self._segment: Path | None = None
        self._offset = 0
        # The last segment and the one that will follow it.
        self._watched = ("", "")

    @property
    def end(self) -> Position:
        """The last whole transaction."""
        return self._blocks[-1].header.last if self._blocks else ORIGIN

    @property
    def start(self) -> Position:
        """Everything after this is here, if anything is."""
        return self._blocks[0].header.first if self._blocks else ORIGIN

    def refresh(self) -> bool:
        """Take in what was written since; True when there is something new."""
        if self._nothing_written():
            return False
        self._drop_void()
        before = len(self._blocks)
        while True:
            path = self._segment or self._next_segment()
            if path is None:
                break
            found, end = _new_blocks(path, self._offset)
            for block in found:
                self._open.append(block)
                if block.header.whole:
                    self._blocks.extend(self._open)
                    self._open = []
            self._segment, self._offset = path, end
            following = self._next_segment()
            if following is None:
                break
            self._segment, self._offset = following, 0
        if self._segment is not None:
            self._watched = str(self._segment), str(_following(self._segment))
        return len(self._blocks) > before

    def forget(self, upto: Position) -> None:
        """Drop index entries that lie wholly at or before `upto`."""
        keep = bisect.bisect_right(self._blocks, upto, key=lambda block: block.header.last)
        # The last block stays: it carries `end`.
        del self._blocks[: min(keep, len(self._blocks) - 1)]

    def reach(self, after: Position) -> Position:
        """How far everything that follows `after` is here; `after` itself when the journal does not go on from it."""
        return self.end if self.start <= after <= self.end else after

    def gaps(self) -> list[BlockRef]:
        """Where something was left out, by somebody's decision."""
        return [block for block in self._blocks if block.header.gap]

    def between(self, after: Position, upto: Position) -> list[BlockRef]:
        """Blocks with changes in (after, upto], in order. `after` is where a reader is, or ORIGIN: all there are.

        Raises Stop when what follows `after` is no longer here."""
        low = bisect.bisect_right(self._blocks, after, key=lambda block: block.header.last)
        if ORIGIN < after < upto and low < len(self._blocks) and self._blocks[low].header.first > after:
            raise Stop(
                f"the journal in {self.journal.path} begins behind the position asked for:"
                f" {self._blocks[low].header.first.to_json()}, not {after.to_json()}",
                "If a checkpoint or a sink was restored from a backup: restore the state folder of the same time",
                "To read again what the slot still has: remove the journal folder",
                cause="What every consumer holds is removed from the journal, and this reader has gone back since",
            )
        found = []
        for block in self._blocks[low:]:
            if block.header.first >= upto:
                break
            if block.header.changes:
                found.append(block)
        return found

    def read(self, block: BlockRef) -> Chunk:
        return read_block(block.path, block.offset)

    def _next_segment(self) -> Path | None:
        paths = sorted(self.journal.segments.glob("*.hwj"))
        if self._segment is None:
            return paths[0] if paths else None
        return next((path for path in paths if path.name > self._segment.name), None)

    def _nothing_written(self) -> bool:
        """Two system calls: an idle stream asks a hundred times a second."""
        if self._segment is None or self._open:
            return False
        try:
            return os.stat(self._watched[0]).st_size == self._offset and not os.path.exists(self._watched[1])
        except FileNotFoundError:
            return False

    def _drop_void(self) -> None:
        """A writer that was opened anew has cut off the unfinished transaction that we had seen a part of."""
        if not self._open:
            return
        first = self._open[0]
        found, _end = _new_blocks(first.path, first.offset, limit=1)
        if not found or found[0].header.session != first.header.session:
            self._segment, self._offset, self._open = first.path, first.offset, []


def _following(segment: Path) -> Path:
    """Segments are numbered without gaps."""
    return segment.with_name(f"{int(segment.stem) + 1:012d}.hwj")


def read_block(path: str | os.PathLike[str], offset: int) -> Chunk:
    """One block from disk, checksums checked. What executors call."""
    with open(path, "rb", buffering=0) as file:
        descriptor, size = file.fileno(), os.fstat(file.fileno()).st_size
        header_size, payload_size, header_crc, payload_crc = decode_prefix(os.pread(descriptor, PREFIX.size, offset))
        if offset + PREFIX.size + header_size + payload_size > size:
            raise Damaged(f"the journal ends inside a block: {path} at byte {offset}")
        header_bytes = os.pread(descriptor, header_size, offset + PREFIX.size)
        header = decode_header(header_bytes, payload_size, header_crc)
        # A bytearray, because the decoder's kernels want memory they could write to.
        payload = bytearray(payload_size)
        os.preadv(descriptor, [payload], offset + PREFIX.size + header_size)
    return decode_payload(header, payload, payload_crc)


def _new_blocks(path: Path, offset: int, limit: int | None = None) -> tuple[list[BlockRef], int]:
    """Complete blocks of a segment from `offset` on, and where they end. A block half written is not there yet.

    A segment that is gone (read by everybody, or cut off by a new session) has none."""
    found: list[BlockRef] = []
    try:
        with open(path, "rb", buffering=0) as file:
            while limit is None or len(found) < limit:
                block = _block_at(file.fileno(), path, offset)
                if block is None:
                    break
                found.append(block)
                offset += block.size
    except FileNotFoundError:
        pass
    return found, offset


def _block_at(descriptor: int, path: Path, offset: int) -> BlockRef | None:
    """The block there, or None when it is not all there yet."""
    size = os.fstat(descriptor).st_size
    if offset + PREFIX.size > size:
        return None
    prefix = os.pread(descriptor, PREFIX.size, offset)
    try:
        header_size, payload_size, header_crc, _ = decode_prefix(prefix)
        if offset + PREFIX.size + header_size > size:
            return None
        header = decode_header(os.pread(descriptor, header_size, offset + PREFIX.size), payload_size, header_crc)
    except Damaged:
        if os.pread(descriptor, PREFIX.size, offset) != prefix:
            # Between our two reads a new session cut this block off: the next refresh sees what it wrote.
            return None
        raise
    total = PREFIX.size + header_size + payload_size
    return BlockRef(path, offset, total, header) if offset + total <= size else None


def scan_segment(path: Path, *, check_payload: bool) -> tuple[list[BlockRef], int | None]:
    """All good blocks of a segment, and where it is torn (None: nowhere).

    Raises Damaged when good blocks lie behind the tear: that is not an unfinished end."""
    found: list[BlockRef] = []
    offset, size = 0, path.stat().st_size
    while offset < size:
        try:
            blocks, end = _new_blocks(path, offset, limit=1)
            if not blocks:
                raise Damaged("unfinished")
            if check_payload:
                read_block(path, offset)
        except Damaged:
            if _block_behind(path, offset + 1):
                raise damaged_in_the_middle(path, offset) from None
            return found, offset
        found.extend(blocks)
        offset = end
    return found, None


def damaged_in_the_middle(path: Path, at: int) -> Damaged:
    """The error for a hole that is not just an unfinished end."""
    return Damaged(
        f"the journal is damaged in the middle: {path} at byte {at}, with good blocks behind it",
        "If every sink has passed this point: remove the journal folder; what is not confirmed comes again"
        " from the slot",
        "Check the disk: this is not what a crash leaves behind",
    )


def _block_behind(path: Path, offset: int) -> bool:
    """Whether a block with a sound header begins anywhere at or after `offset`."""
    data = path.read_bytes()
    at = data.find(MAGIC, offset)
    while at >= 0:
        try:
            header_size, payload_size, crc, _ = decode_prefix(data[at:])
            decode_header(data[at + PREFIX.size : at + PREFIX.size + header_size], payload_size, crc)
            return True
        except Damaged:
            at = data.find(MAGIC, at + 1)
    return False
