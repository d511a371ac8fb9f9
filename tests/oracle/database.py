"""What differs between databases when a case is played; one module per database does it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import ClassVar

from headwater.testing.debezium import Debezium, DebeziumEvent

from .cases import Case


class Database(ABC):
    """A running server, on which a case gets a database of its own."""

    # Properties of every case, and those of Headwater's side alone.
    base: ClassVar[Mapping[str, str]]
    ours: ClassVar[Mapping[str, str]] = {}

    @property
    @abstractmethod
    def version(self) -> str:
        """As a recording names the server."""

    @abstractmethod
    def url(self, name: str) -> str:
        """For both sides; the scheme says which connector Debezium takes."""

    @abstractmethod
    def prepared(self, case: Case, name: str) -> AbstractContextManager[None]:
        """The tables as the snapshot will see them. Removed at the end, with what both sides left on the server."""

    @abstractmethod
    def run(self, name: str, blocks: Iterable[str]) -> None:
        """The statements of a script, block by block."""

    @abstractmethod
    def emit_end(self, name: str) -> None:
        """Something that both sides deliver when they have delivered everything before it."""

    @abstractmethod
    def is_end(self, event: DebeziumEvent) -> bool:
        """Whether this event is there because of `emit_end`."""

    @abstractmethod
    def wait_until_streaming(self, name: str, debezium: Debezium) -> None:
        """Until the snapshot is complete and the log is being read."""

    def before_headwater(self, name: str) -> None:
        """What Headwater must find when it opens the log."""

    def without_ends(self, events: Iterable[DebeziumEvent]) -> list[DebeziumEvent]:
        """The events of the case alone."""
        return [event for event in events if not self.is_end(event)]
