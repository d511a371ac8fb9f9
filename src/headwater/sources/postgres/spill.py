"""Transactions that are still open: their changes wait in files until they commit or are rolled back.

pgoutput sends a transaction that outgrows `logical_decoding_work_mem` in blocks, long before its end, between those
of others. What is here has no commit position yet, so the journal cannot hold it. A crash voids it all: the server
sends open transactions again from their first change.
Protocol: "Logical Replication Message Formats" in the PostgreSQL manual, protocol version 2.
"""

from __future__ import annotations

import errno
import shutil
import struct
import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headwater.errors import Retry
from headwater.sources.postgres import pgoutput
from headwater.sources.postgres.pgoutput import XLOG_HEADER, begin_frame, commit_frame

Frame = bytes | memoryview

# What is gathered in memory before it is written: as much as a chunk.
PIECE_BYTES = 4 << 20
# A file is removed when it has been handed on, so a transaction needs its own size on disk once, and this much more.
FILE_BYTES = 64 << 20

_PIECE = struct.Struct("<IQ")
_XID = struct.Struct("!I").unpack_from
_AFTER_TAG = XLOG_HEADER + 1
_AFTER_XID = XLOG_HEADER + 5


@dataclass
class Open:
    """One transaction: its files, and which of its sub-transactions were rolled back."""

    xid: int
    since: float = field(default_factory=time.time)
    files: list[Path] = field(default_factory=list)
    # Bytes in the last file and in all of them.
    last: int = 0
    size: int = 0
    aborted: array[int] = field(default_factory=lambda: array("I"))


class Spill:
    """All open transactions that the server has sent a part of. One block of one of them comes at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._open: dict[int, Open] = {}
        self._block = Open(0)
        self._parts: list[Frame] = []
        self._lengths: list[int] = []
        self._xids: list[int] = []
        self._gathered = 0

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(each.size for each in self._open.values())

    def facts(self) -> dict[str, float]:
        """Numbers for status."""
        oldest = min((each.since for each in self._open.values()), default=0.0)
        return {"open_transactions": len(self._open), "spilled_bytes": self.size, "oldest_open": round(oldest, 3)}

    def begin(self, xid: int) -> None:
        """Stream Start: a block of this transaction follows."""
        self._block = self._open.setdefault(xid, Open(xid))

    def add(self, frame: Frame) -> None:
        """One frame of a block, without the xid that stands in it: from here on it is a frame like any other."""
        if frame[XLOG_HEADER] == pgoutput.ORIGIN:
            # The one message that does not name its (sub-)transaction; nobody looks at it.
            return
        (xid,) = _XID(frame, _AFTER_TAG)
        self._parts += (frame[:_AFTER_TAG], frame[_AFTER_XID:])
        self._lengths.append(len(frame) - 4)
        self._xids.append(xid)
        self._gathered += len(frame)
        if self._gathered >= PIECE_BYTES:
            self._write()

    def end(self) -> None:
        """Stream Stop."""
        self._write()

    def abort(self, xid: int, subxid: int) -> None:
        """Stream Abort: of the transaction, or of one inside it."""
        found = self._open.get(xid)
        if found is not None and xid != subxid:
            found.aborted.append(subxid)
        elif found is not None:
            del self._open[xid]
            for path in found.files:
                path.unlink()

    def commit(self, commit: pgoutput.StreamCommit) -> Iterator[Frame]:
        """Stream Commit: the transaction as if it had come whole, without what was rolled back inside it."""
        if commit.xid not in self._open:
            raise pgoutput.Malformed(0, pgoutput.STREAM_COMMIT)
        return self._replay(self._open[commit.xid], commit)

    def close(self) -> None:
        """Nothing of it can be used again."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _replay(self, found: Open, commit: pgoutput.StreamCommit) -> Iterator[Frame]:
        aborted = np.unique(np.frombuffer(found.aborted, dtype=np.uint32)) if found.aborted else None
        yield begin_frame(commit)
        for path in found.files:
            with path.open("rb") as file:
                while head := file.read(_PIECE.size):
                    count, size = _PIECE.unpack(head)
                    lengths = np.frombuffer(file.read(4 * count), dtype=np.uint32)
                    xids = np.frombuffer(file.read(4 * count), dtype=np.uint32)
                    void = None if aborted is None else np.isin(xids, aborted)
                    yield from _frames(memoryview(file.read(size)), lengths, void)
            found.size -= path.stat().st_size
            path.unlink()
        del self._open[commit.xid]
        yield commit_frame(commit)

    def _write(self) -> None:
        """What was gathered, as one piece behind the others."""
        if not self._lengths:
            return
        block = self._block
        if not block.files or block.last >= FILE_BYTES:
            block.files.append(self._folder / f"{block.xid}.{len(block.files)}")
            block.last = 0
        frames = b"".join(self._parts)
        numbers = np.array([self._lengths, self._xids], dtype=np.uint32).tobytes()
        try:
            with block.files[-1].open("ab", buffering=0) as file:
                for part in (_PIECE.pack(len(self._lengths), len(frames)), numbers, frames):
                    file.write(part)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise Retry(f"the disk of {self._folder} is full", "Make room: open transactions wait there") from error
        size = _PIECE.size + len(numbers) + len(frames)
        block.last += size
        block.size += size
        self._parts, self._lengths, self._xids, self._gathered = [], [], [], 0


def _frames(data: memoryview, lengths: npt.NDArray[np.uint32], void: npt.NDArray[np.bool_] | None) -> Iterator[Frame]:
    """The frames of a piece. A table's description stays even when what it came with was rolled back: the server
    sends it once, and again only when it has changed."""
    at = 0
    for n, length in enumerate(lengths.tolist()):
        frame = data[at : at + length]
        at += length
        if void is None or not void[n] or frame[XLOG_HEADER] == pgoutput.RELATION:
            yield frame
