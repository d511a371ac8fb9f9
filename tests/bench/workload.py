"""What a workload is: one server with a backlog in its log and a table to copy. Made once, read many times."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import ClassVar, Self


class Workload(ABC):
    """The data that contestants of one database read, at a scale (1.0 is what the published numbers are made with).

    `with` starts the server and ends it."""

    # As `--only` names it.
    database: ClassVar[str]
    per_transaction: ClassVar[int] = 500

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    @property
    def inserts(self) -> int:
        # Updates walk over the rows in steps of 7919, a prime: any other number of rows lets each meet another row.
        return int(1_000_000 * self.scale)

    @property
    def updates(self) -> int:
        return self.inserts // 2

    @property
    def changes(self) -> int:
        return self.inserts + self.updates

    @property
    def rows(self) -> int:
        """Of the table to copy."""
        return int(2_000_000 * self.scale)

    @property
    @abstractmethod
    def url(self) -> str:
        """Of the server, for every contestant."""

    @abstractmethod
    def make(self, say: Callable[[str], None], *, copy: bool) -> None:
        """The backlog and, when a contestant copies, the table to copy."""

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """The server's version, and how much log there is."""

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...
