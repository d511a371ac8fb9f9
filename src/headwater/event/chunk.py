"""A run of raw frames from a log: what a tail reads, the journal stores and a decoder turns into changes.

The bytes stay as the database sent them. Only what must be indexed is known: which tables, under which
schema, how many changes, from which position to which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from headwater.event.position import Position


@dataclass(frozen=True)
class TableRun:
    """One table's part of a chunk. Within a chunk a table has one schema."""

    # The log's own handle of the table (PostgreSQL: relation oid).
    relation: int
    table: str
    # TableSchema.id of the definition its rows were written under.
    schema: str
    changes: int


@dataclass(frozen=True)
class Chunk:
    """Frames in log order. A transaction too large for one chunk goes on in the next."""

    frames: bytes | memoryview
    # Length of each frame; they lie end to end in `frames`.
    lengths: npt.NDArray[np.uint32]
    # The position reached before the first frame, and after the last one: first < changes <= last.
    first: Position
    last: Position
    # True when the last frame ends a transaction.
    whole: bool
    tables: tuple[TableRun, ...] = ()
    # What the decoder must know to begin here: the transaction that is open at the first frame.
    context: Mapping[str, Any] = field(default_factory=dict)
    # Commit time of the last transaction, microseconds since the epoch; for lag.
    commit_time: int = 0

    @staticmethod
    def gap(first: Position, last: Position, why: str) -> Chunk:
        """What lies between the two positions was left out, for this reason. A journal has no other holes."""
        return Chunk(b"", np.empty(0, np.uint32), first, last, whole=True, context={"gap": why})

    @property
    def changes(self) -> int:
        return sum(run.changes for run in self.tables)
