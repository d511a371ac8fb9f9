"""Where in the log we are: a commit, and how many of its changes are done.

One log address is not one event (a 50-row COPY gives 50 changes with one LSN), so a position counts
the changes inside its transaction. Knows nothing of any database.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from headwater.errors import Stop


@dataclass(frozen=True, order=True)
class Position:
    """Everything up to the `ordinal`-th change of the transaction that committed at `commit`.

    `commit` is the database's own commit coordinate as one growing integer (PostgreSQL: the LSN of the
    commit record). Changes count from 1; ordinal 0 is "before the first change of that commit".
    `resume` is what the database wants to hear to continue after this transaction (PostgreSQL: the
    transaction's end LSN; elsewhere: a set of transaction ids). It takes no part in comparison.
    """

    commit: int
    ordinal: int = 0
    resume: str = field(default="", compare=False)

    def to_json(self) -> str:
        """One line that `from_json` reads back; the same text for the same position."""
        return json.dumps({"commit": self.commit, "ordinal": self.ordinal, "resume": self.resume})

    @staticmethod
    def from_json(text: str | bytes) -> Position:
        """What `to_json` wrote. Anything else raises Stop: a position is never guessed."""
        try:
            fields = json.loads(text)
            return Position(int(fields["commit"]), int(fields["ordinal"]), str(fields["resume"]))
        except (ValueError, KeyError, TypeError) as error:
            raise Stop(f"a stored position cannot be read: {text[:80]!r}") from error


ORIGIN = Position(0, 0)
"""Before everything."""
