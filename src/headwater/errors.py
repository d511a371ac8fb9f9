"""What can go wrong, as three kinds: try again, a person must decide, the configuration is wrong.

A class says what happened; nobody parses the text. The text says what, where, cause and remedy.
"""

from __future__ import annotations


class HeadwaterError(Exception):
    """Every error we raise on purpose. `remedies` are printed one a line below the cause."""

    exit_status = 1

    def __init__(self, what: str, *remedies: str, cause: str = "") -> None:
        super().__init__(what, *remedies)
        self.what = what
        self.cause = cause
        self.remedies = remedies

    def __str__(self) -> str:
        lines = [self.what]
        if self.cause:
            lines.append(f"  {self.cause}")
        lines.extend(f"  {remedy}" for remedy in self.remedies)
        return "\n".join(lines)


class Retry(HeadwaterError):
    """It may work by itself in a moment: the server restarts, the network was cut."""

    exit_status = 1


class Stop(HeadwaterError):
    """Going on would lose or corrupt data: a person must decide."""

    exit_status = 3


class Usage(HeadwaterError):
    """The configuration or the command line is wrong; nothing was started."""

    exit_status = 2


class Rejected(Stop):
    """A record that the target will never take: too large, of a type it refuses. `on_error` says what becomes of it."""

    # (commit, ordinal) of the changes that are refused, as far as the sink can tell.
    places: tuple[tuple[int, int], ...] = ()


class Unrepresentable(Rejected):
    """A value that the target type cannot hold; never changed silently."""

    # The column it stands in, when one column is to blame.
    column: str = ""


class Drift(Stop):
    """A table that the target cannot follow in its new shape. That table stops where it is; the others go on."""

    # `schema.table`, where it is not clear from who was called.
    table: str = ""
