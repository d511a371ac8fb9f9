"""Appending to the journal: one writer, whole blocks, segments of bounded size, a cap on the whole.

After a crash the unfinished end is cut off; damage anywhere else is refused.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO
from uuid import uuid4

from headwater.errors import HeadwaterError, Stop
from headwater.event import ORIGIN, Chunk, Position
from headwater.failpoints import failpoint
from headwater.journal.block import encode_block
from headwater.journal.folder import Journal, sync_folder
from headwater.journal.reader import BlockRef, damaged_in_the_middle, scan_segment

# A segment is sealed at this size. 64 MB is ~0.3 s of a saturated walsender: large enough that listing a
# day of segments stays cheap, small enough that retention frees disk promptly.
SEGMENT_BYTES = 64 << 20
# The journal never takes the last of the disk: other things on it must live too.
SPARE_BYTES = 256 << 20
# A machine that crashes loses at most this much of the journal; the slot still has it.
SYNC_SECONDS = 1.0
# Somebody who only looks whether the lock is held holds it for an instant.
LOCK_SECONDS = 0.2


class JournalFull(HeadwaterError):
    """The cap or the disk is reached; try again when consumers have moved on."""

    def __init__(self, what: str, *, wanted: int, at_cap: bool = False) -> None:
        super().__init__(what)
        # Bytes of the block that did not fit.
        self.wanted = wanted
        self.at_cap = at_cap


class JournalBusy(Stop):
    """Another process writes this journal."""


class JournalWriter:
    """The one writer. Opening it takes the lock, checks the end and cuts off what a crash left there."""

    def __init__(self, journal: Journal, max_bytes: int, *, keep_seconds: float = 0.0) -> None:
        self.journal = journal
        self.max_bytes = max_bytes
        # What nobody needs any more stays this long, for replays.
        self._keep_seconds = keep_seconds
        self.end: Position = ORIGIN
        self.synced: Position = ORIGIN
        # The end of the last block that holds anything; behind it the log has only moved on.
        self.last_frame: Position = ORIGIN
        # A cap of a few segments would keep too much in the open one, which is never removed.
        self._segment_bytes = min(SEGMENT_BYTES, max_bytes // 8)
        # Blocks behind the last whole transaction, and where the last block ends.
        self._unfinished = False
        self._last: Position = ORIGIN
        self._session = ""
        self._lock = lock_file(journal.path / "tail.lock", "the journal")
        self._file: IO[bytes] | None = None
        # Sealed and open segments: path → (last position, bytes); in order.
        self._segments: dict[Path, tuple[Position, int]] = {}
        self._offset = 0
        self._last_sync = time.monotonic()
        self._unsynced = False
        try:
            self._recover()
        except BaseException:
            if self._file is not None:
                self._file.close()
            self._lock.close()
            raise

    def append(self, chunk: Chunk) -> None:
        """Write one chunk behind the others. Raises JournalFull, with nothing written, when it does not fit."""
        if ORIGIN < self._last < chunk.first:
            raise Stop(
                f"the log goes on at {chunk.first.to_json()}, but the journal in {self.journal.path} ends at"
                f" {self._last.to_json()}",
                cause="What lies in between would be missing without a trace",
            )
        parts = encode_block(chunk, self._session)
        size = sum(len(part) for part in parts)
        self.refuse_if_full(size)
        file = self._segment()
        try:
            _write_all(file.fileno(), parts)
        except OSError as error:
            self._undo(file)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise JournalFull(f"the disk of {self.journal.path} is full", wanted=size) from error
            raise
        self._offset += size
        self._segments[Path(file.name)] = (chunk.last, self._offset)
        self._unsynced = True
        self._unfinished = not chunk.whole
        self._last = chunk.last
        if len(chunk.lengths):
            self.last_frame = chunk.last
        if chunk.whole:
            self.end = chunk.last
        failpoint("journal.after_append")
        self.sync_when_due()

    def refuse_if_full(self, size: int, aside: int = 0) -> None:
        """Raise JournalFull when `size` bytes more would be too many, with those that lie aside for it already."""
        if self.size + aside + size > self.max_bytes:
            text = f"the journal in {self.journal.path} has reached its cap of {self.max_bytes >> 20} MB"
            raise JournalFull(text, wanted=aside + size, at_cap=True)
        if shutil.disk_usage(self.journal.segments).free < size + SPARE_BYTES:
            text = f"the disk of {self.journal.path} has less than {SPARE_BYTES >> 20} MB free"
            raise JournalFull(text, wanted=size)

    def rewind(self) -> None:
        """Cut off the unfinished transaction: the log was opened again and sends it from its first change."""
        if self._unfinished:
            self._close_file()
            self._recover()

    def sync_when_due(self) -> None:
        """`sync`, if the last one was a while ago."""
        if time.monotonic() - self._last_sync >= SYNC_SECONDS:
            self.sync()

    def sync(self) -> None:
        """Make what was appended survive a crash of the machine."""
        self._last_sync = time.monotonic()
        if self._unsynced and self._file is not None:
            failpoint("journal.before_fsync")
            os.fdatasync(self._file.fileno())
            failpoint("journal.after_fsync")
            self._unsynced = False
        self.synced = self.end

    def forget(self, upto: Position, *, young: bool = False) -> None:
        """Remove segments that hold nothing after `upto`; the open one stays, and `young` ones unless told so."""
        for path, (last, _size) in list(self._segments.items())[:-1]:
            if last > upto or not (young or self._old(path)):
                break
            path.unlink(missing_ok=True)
            del self._segments[path]

    def _old(self, path: Path) -> bool:
        return not self._keep_seconds or time.time() - path.stat().st_mtime > self._keep_seconds

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(size for _last, size in self._segments.values())

    def close(self) -> None:
        """Sync, close and let go of the lock."""
        self._close_file()
        self._lock.close()

    # ----------------------------------------------------------------------------------------------

    def _segment(self) -> IO[bytes]:
        if self._file is not None and self._offset < self._segment_bytes:
            return self._file
        self._close_file()
        number = 1 + max((int(path.stem) for path in self._segments), default=0)
        path = self.journal.segments / f"{number:012d}.hwj"
        self._file = path.open("xb", buffering=0)
        self._offset = 0
        self._segments[path] = (self.end, 0)
        sync_folder(self.journal.segments)
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
        paths = sorted(self.journal.segments.glob("*.hwj"))
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
            self._segments[block.path] = (block.header.last, block.offset + block.size)
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


def lock_file(path: Path, what: str) -> IO[str]:
    """Hold an advisory lock on a file with our PID in it; it ends with the process, however that dies."""
    file = path.open("a+", encoding="utf-8")
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                file.seek(0)
                pid = file.read().strip() or "unknown"
                file.close()
                raise JournalBusy(f"{what} in {path.parent} is in use by process {pid}", "Stop it first") from error
        time.sleep(0.02)
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def lock_held(path: Path) -> bool:
    """Whether some process holds the lock of `lock_file` now. Makes no file that is not there."""
    try:
        with path.open("r", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
