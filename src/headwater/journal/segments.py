"""Segments as local files: a cursor over them while the tail writes, and blocks read from where they lie."""

from __future__ import annotations

import os
from pathlib import Path

from headwater.event import Chunk
from headwater.journal.block import MAGIC, PREFIX, Damaged, decode_header, decode_payload, decode_prefix
from headwater.journal.storage import BlockRef, Cursor


class FileCursor(Cursor):
    """Reads segment after segment, each as far as it is written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segment: Path | None = None
        self._offset = 0
        # The first block behind the last whole transaction: a new session may write over it.
        self._unfinished: BlockRef | None = None
        # The last segment and the one that will follow it.
        self._watched = ("", "")

    def new_blocks(self) -> list[BlockRef]:
        if self._nothing_written():
            return []
        self._go_back()
        blocks: list[BlockRef] = []
        while True:
            path = self._segment or self._next_segment()
            if path is None:
                break
            found, end = _new_blocks(path, self._offset)
            blocks += found
            self._segment, self._offset = path, end
            following = self._next_segment()
            if following is None:
                break
            self._segment, self._offset = following, 0
        if self._segment is not None:
            self._watched = str(self._segment), str(_following(self._segment))
        for block in blocks:
            self._unfinished = None if block.header.whole else self._unfinished or block
        return blocks

    def _next_segment(self) -> Path | None:
        paths = sorted(self._folder.glob("*.hwj"))
        if self._segment is None:
            return paths[0] if paths else None
        return next((path for path in paths if path.name > self._segment.name), None)

    def _nothing_written(self) -> bool:
        """Two system calls: an idle stream asks a hundred times a second."""
        if self._segment is None or self._unfinished:
            return False
        try:
            return os.stat(self._watched[0]).st_size == self._offset and not os.path.exists(self._watched[1])
        except FileNotFoundError:
            return False

    def _go_back(self) -> None:
        """A writer that was opened anew has cut off the unfinished transaction, and writes in its place."""
        first = self._unfinished
        if first is None:
            return
        path = self._folder / first.segment
        found, _end = _new_blocks(path, first.offset, limit=1)
        if not found or found[0].header.session != first.header.session:
            self._segment, self._offset, self._unfinished = path, first.offset, None


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
    return BlockRef(path.name, offset, total, header) if offset + total <= size else None


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
