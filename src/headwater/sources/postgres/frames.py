"""Raw XLogData frames gathered into chunks. No I/O.

Looks only at what must be indexed: message kind, table, transaction boundary. Values are never touched:
this loop runs once per change in the tail process.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from headwater.event import Chunk, Position, TableRun, TableSchema
from headwater.sources.postgres import pgoutput
from headwater.sources.postgres.pgoutput import (
    ROW_KINDS,
    XLOG_HEADER,
    parse_begin,
    parse_commit,
    parse_relation,
    parse_truncate,
)
from headwater.sources.postgres.position import at_lsn, format_lsn

Frame = bytes | memoryview

_OID = struct.Struct("!I").unpack_from


class ChunkBuilder:
    """Takes frames one by one, gives chunks. `describe` names a relation's schema; None = not captured."""

    def __init__(
        self,
        start: Position,
        describe: Callable[[pgoutput.Relation], TableSchema | None],
        streamed: Callable[[int, bytes], None] | None = None,
    ) -> None:
        # How far the frames go that came in, and how far those that were handed on.
        self.position = start
        self.handed = start
        self.in_transaction = False
        # Bytes gathered.
        self.size = 0
        self._describe = describe
        # Told of the messages around transactions that come in blocks; those go elsewhere until they have ended.
        self._streamed = streamed
        self._frames: list[Frame] = []
        # The open transaction: commit LSN, changes so far, commit time, xid; and as it was at the first frame.
        self._open = [0, 0, 0, 0]
        self._context = [0, 0, 0, 0]
        self._tables: dict[int, TableSchema | None] = {}
        self._counts: dict[int, int] = {}
        self._commit_time = 0
        # Where the open transaction's frames begin; an empty one is cut off again.
        self._begin_at = 0
        # The last chunk ended inside a transaction: its end must be handed on, even without another frame.
        self._unfinished = False
        self._ready: list[Chunk] = []

    @property
    def pending(self) -> bool:
        """Whether whole transactions wait to be handed on."""
        return bool(self._ready) or (not self.in_transaction and (bool(self._frames) or self._unfinished))

    def add(self, frame: Frame) -> None:
        """One XLogData frame, in the order of the stream."""
        tag = frame[XLOG_HEADER]
        if tag in ROW_KINDS:
            # `_count` and `_keep` by hand: the two calls would cost a fifth more (0.54 instead of 0.45 µs a row).
            (relation,) = _OID(frame, XLOG_HEADER + 1)
            self._open[1] += 1
            self._counts[relation] = self._counts.get(relation, 0) + 1
            self._frames.append(frame)
            self.size += len(frame)
            return
        message = bytes(frame[XLOG_HEADER:])
        match tag:
            case pgoutput.BEGIN:
                self._begin(frame, parse_begin(message))
            case pgoutput.COMMIT:
                self._commit(parse_commit(message))
            case pgoutput.RELATION:
                self._relate(parse_relation(message))
            case pgoutput.TRUNCATE:
                for relation in parse_truncate(message):
                    self._count(relation)
                self._keep(frame)
            case pgoutput.TYPE | pgoutput.ORIGIN | pgoutput.MESSAGE:
                # Type names come from the catalog; origins and logical messages are not requested.
                pass
            case pgoutput.STREAM_START | pgoutput.STREAM_COMMIT | pgoutput.STREAM_ABORT if self._streamed:
                self._streamed(tag, message)
            case _:
                raise pgoutput.Malformed(len(self._frames), tag)

    def take(self) -> Chunk | None:
        """Everything gathered so far as one chunk; None when there is nothing."""
        if not self._ready and (self._frames or self.pending):
            self._cut()
        return self._ready.pop(0) if self._ready else None

    def tick(self, lsn: int) -> Chunk:
        """An idle log has reached `lsn`: an empty chunk that moves the position there."""
        self.position = at_lsn(lsn)
        self._cut()
        return self._ready.pop(0)

    def _keep(self, frame: Frame) -> None:
        self._frames.append(frame)
        self.size += len(frame)

    def _count(self, relation: int) -> None:
        self._open[1] += 1
        self._counts[relation] = self._counts.get(relation, 0) + 1

    def _begin(self, frame: Frame, begin: pgoutput.Begin) -> None:
        if begin.commit_lsn == self.handed.commit and self.handed.ordinal:
            # We start inside this transaction, and it comes again from its first change.
            self.handed = Position(begin.commit_lsn)
        self._begin_at = len(self._frames)
        self._keep(frame)
        self._open = [begin.commit_lsn, 0, begin.commit_time, begin.xid]
        self.in_transaction = True

    def _commit(self, commit: pgoutput.Commit) -> None:
        changes = self._open[1]
        if not changes:
            # Servers before 15 announce transactions that touch no published table.
            self.size -= sum(map(len, self._frames[self._begin_at :]))
            del self._frames[self._begin_at :]
        self.in_transaction = False
        self.position = Position(commit.commit_lsn, changes, format_lsn(commit.end_lsn))
        self._commit_time = commit.commit_time

    def _relate(self, relation: pgoutput.Relation) -> None:
        schema = self._describe(relation)
        if self._counts.get(relation.oid) and schema != self._tables.get(relation.oid):
            # Within a chunk a table has one schema.
            self._cut()
        self._tables[relation.oid] = schema

    def _cut(self) -> None:
        """Close the chunk at this frame."""
        last = Position(self._open[0], self._open[1]) if self.in_transaction else self.position
        self._ready.append(
            Chunk(
                frames=b"".join(self._frames),
                lengths=np.fromiter(map(len, self._frames), dtype=np.uint32, count=len(self._frames)),
                first=self.handed,
                last=last,
                whole=not self.in_transaction,
                tables=tuple(
                    TableRun(oid, schema.table, schema.id, count)
                    for oid, count in self._counts.items()
                    if (schema := self._tables.get(oid)) is not None
                ),
                context=dict(zip(("commit", "ordinal", "time", "xid"), self._context, strict=True)),
                commit_time=self._commit_time,
            )
        )
        self._frames, self._counts, self.size, self._begin_at = [], {}, 0, 0
        self.handed = last
        self._unfinished = self.in_transaction
        self._context = list(self._open) if self.in_transaction else [0, 0, 0, 0]
