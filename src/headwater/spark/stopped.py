"""Tables of one sink that stopped (Drift): each stays where it was, the others go on, and nothing of it is forgotten.

The sink's durable position, which the journal and the database follow, waits for the slowest table. The next run
begins there: tables that are ahead skip what they hold, by their own positions.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.errors import Drift
from headwater.event import ChangeBatch, Position


class StoppedTables:
    """Which, where, and why."""

    def __init__(self) -> None:
        self.at: dict[str, Position] = {}
        self.errors: dict[str, Drift] = {}

    def stop(self, table: str, reached: Position, error: Drift) -> None:
        """Nothing of `table` behind `reached` has been written, and nothing will be."""
        self.at[table] = reached
        self.errors[table] = error

    def durable(self, reached: Position) -> Position:
        """What every table holds, when those that go on have `reached` this."""
        return min([reached, *self.at.values()])

    def left_out(self, batches: Sequence[ChangeBatch]) -> list[ChangeBatch]:
        """The batches of a chunk, empty where their table has stopped."""
        return [batch.slice(0, 0) if batch.table.table in self.at else batch for batch in batches]

    @property
    def error(self) -> Drift | None:
        """The first that stopped."""
        return next(iter(self.errors.values()), None)

    def texts(self) -> dict[str, str]:
        """Why, table by table, for the status."""
        return {table: str(error) for table, error in self.errors.items()}
