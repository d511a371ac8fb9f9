"""Chunks made by hand: the journal does not look inside frames."""

from __future__ import annotations

import numpy as np

from headwater.event import ORIGIN, Chunk, Position, TableRun


def piece(first: Position, commit: int, ordinal: int, *, whole: bool = True, frames: bytes = b"row") -> Chunk:
    """A chunk with one change, (commit, ordinal)."""
    return Chunk(
        frames=frames,
        lengths=np.array([len(frames)], dtype=np.uint32),
        first=first,
        last=Position(commit, ordinal, f"0/{commit + 8:X}" if whole else ""),
        whole=whole,
        tables=(TableRun(16384, "public.t", "abcd", 1),),
        context={"commit": 0, "ordinal": 0, "time": 0, "xid": 0},
        commit_time=5,
    )


def transactions(*commits: int, size: int = 3) -> list[Chunk]:
    """One chunk per transaction, one change each."""
    firsts = [ORIGIN, *(Position(commit, 1) for commit in commits)]
    return [piece(first, commit, 1, frames=b"x" * size) for first, commit in zip(firsts, commits, strict=False)]
