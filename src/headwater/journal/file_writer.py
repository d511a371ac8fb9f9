"""Appending to segments in a local folder."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO
from uuid import uuid4

from headwater.event import Chunk, Position
from headwater.failpoints import failpoint
from headwater.journal.files import sync_folder
from headwater.journal.locks import lock_file
from headwater.journal.segments import damaged_in_the_middle, scan_segment
from headwater.journal.storage import BlockRef
from headwater.journal.writer import JournalFull, JournalWriter, Limits

# A segment is sealed at this size. 64 MB is ~0.3 s of a saturated walsender: large enough that listing a
# day of segments stays cheap, small enough that retention frees disk promptly.
SEGMENT_BYTES = 64 << 20
# The journal never takes the last of the disk: other things on it must live too.
SPARE_BYTES = 256 << 20


class FileWriter(JournalWriter):
    """Appends to the last segment. Opening it takes the lock and cuts off what a crash left at the end."""

    # A machine that crashes loses at most this much of the journal; the slot still has it.
    sync_seconds = 1.0

    def __init__(self, path: Path, segments: Path, lock: Path, limits: Limits) -> None:
        super().__init__(str(path), limits)
        self._folder = segments
        segments.mkdir(parents=True, exist_ok=True)
        # A cap of a few segments would keep too much in the open one, which is never removed.
        self._segment_bytes = min(SEGMENT_BYTES, limits.max_bytes // 8)
        self._lock = lock_file(lock, "the journal")
        self._file: IO[bytes] | None = None
        # Sealed and open segments: path → (last position, bytes); in order.
        self._segments: dict[Path, tuple[Position, int]] = {}
        self._offset = 0
        self._unsynced = False
        try:
            self._recover()
        except BaseException:
            if self._file is not None:
                self._file.close()
            self._lock.close()
            raise

    def _write(self, parts: Sequence[bytes | memoryview], size: int, chunk: Chunk) -> None:
        file = self._segment()
        try:
            _write_all(file.fileno(), parts)
        except OSError as error:
            self._undo(file)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise JournalFull(f"the disk of {self.place} is full", wanted=size) from error
            raise
        self._offset += size
        self._segments[Path(file.name)] = (chunk.last, self._offset)
        self._unsynced = True

    def refuse_if_full(self, size: int, aside: int = 0) -> None:
        super().refuse_if_full(size, aside)
        if shutil.disk_usage(self._folder).free < size + SPARE_BYTES:
            text = f"the disk of {self.place} has less than {SPARE_BYTES >> 20} MB free"
            raise JournalFull(text, wanted=size)

    def rewind(self) -> None:
        if self._unfinished:
            self._close_file()
            self._recover()

    def sync(self) -> None:
        self._last_sync = time.monotonic()
        if self._unsynced and self._file is not None:
            failpoint("journal.before_fsync")
            os.fdatasync(self._file.fileno())
            failpoint("journal.after_fsync")
            self._unsynced = False
        self.synced = self.end

    def forget(self, upto: Position, *, young: bool = False) -> None:
        for path, (last, _size) in list(self._segments.items())[:-1]:
            if last > upto or not (young or self._old(path)):
                break
            path.unlink(missing_ok=True)
            del self._segments[path]

    def _old(self, path: Path) -> bool:
        return not self.limits.keep_seconds or time.time() - path.stat().st_mtime > self.limits.keep_seconds

    @property
    def size(self) -> int:
        return sum(size for _last, size in self._segments.values())

    def close(self) -> None:
        self._close_file()
        self._lock.close()

    # ----------------------------------------------------------------------------------------------

    def _segment(self) -> IO[bytes]:
        if self._file is not None and self._offset < self._segment_bytes:
            return self._file
        self._close_file()
        number = 1 + max((int(path.stem) for path in self._segments), default=0)
        path = self._folder / f"{number:012d}.hwj"
        self._file = path.open("xb", buffering=0)
        self._offset = 0
        self._segments[path] = (self.end, 0)
        sync_folder(self._folder)
        return self._file

    def _undo(self, file: IO[bytes]) -> None:
        """A block that was written in part is taken away again."""
        os.ftruncate(file.fileno(), self._offset)
        file.seek(self._offset)

    def _close_file(self) -> None:
        if self._file is not None:
            self.sync()
            self._file.close()
            self._file = None

    def _recover(self) -> None:
        """Find the last whole transaction; cut off what follows it, and begin a new session behind it."""
        self._session = uuid4().hex[:8]
        self._unfinished = False
        self._segments.clear()
        paths = sorted(self._folder.glob("*.hwj"))
        blocks: list[BlockRef] = []
        for number, path in enumerate(paths):
            is_last = number == len(paths) - 1
            found, torn_at = scan_segment(path, check_payload=is_last)
            if torn_at is not None and not is_last:
                raise damaged_in_the_middle(path, torn_at)
            blocks.extend(found)
        while blocks and not blocks[-1].header.whole:
            blocks.pop()
        for block in blocks:
            self._segments[self._folder / block.segment] = (block.header.last, block.offset + block.size)
        if blocks:
            self.end = blocks[-1].header.last
        elif paths:
            # Emptied, not removed: a reader that knows its name finds there what comes next.
            self._segments[paths[0]] = (self.end, 0)
        self._last = self.end
        # What came before the first block here has been read by everybody.
        known = blocks[0].header.first if blocks else self.end
        self.last_frame = next((b.header.last for b in reversed(blocks) if b.header.frames), known)
        for path in reversed(paths):
            if path not in self._segments:
                path.unlink()
        if self._segments:
            path, (_last, self._offset) = list(self._segments.items())[-1]
            self._file = path.open("r+b", buffering=0)
            os.ftruncate(self._file.fileno(), self._offset)
            self._file.seek(self._offset)
            self._unsynced = True
            self.sync()


def _write_all(descriptor: int, parts: Sequence[bytes | memoryview]) -> None:
    """All of it, or an OSError."""
    for part in parts:
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
