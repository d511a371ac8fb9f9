"""Reading the journal: an index of its blocks that grows as the tail writes, and blocks read by reference.

Any number of processes read while one writes. Only whole transactions are ever shown.
"""

from __future__ import annotations

import bisect

from headwater.errors import Stop
from headwater.event import ORIGIN, Chunk, Position
from headwater.journal.journal import Journal
from headwater.journal.storage import BlockRef


class JournalReader:
    """The blocks of whole transactions, in order. `refresh` looks for new ones."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._cursor = journal.storage.cursor()
        self._blocks: list[BlockRef] = []
        # Blocks of a transaction that has not ended yet.
        self._open: list[BlockRef] = []

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
        grown = False
        for block in self._cursor.new_blocks():
            if self._open and self._open[0].header.session != block.header.session:
                # A writer that was opened anew has given up the unfinished transaction that we had seen a part of.
                self._open = []
            self._open.append(block)
            if block.header.whole:
                if self._open[0].header.first > self.end:
                    # What lay between was removed, because every consumer has it: the index begins here.
                    self._blocks = []
                self._blocks.extend(self._open)
                self._open = []
                grown = True
        return grown

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
                f"the journal in {self.journal.place} begins behind the position asked for:"
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
        return self.journal.storage.block(block.segment, block.offset, block.size)
