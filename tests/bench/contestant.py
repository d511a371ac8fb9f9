"""What every contestant is: a name, a group that runs in the same rounds, and one measured run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from headwater.errors import HeadwaterError

from .workload import Workload

W = TypeVar("W", bound=Workload)


class NotAvailable(HeadwaterError):
    """This contestant cannot run here; the text says why and appears in the table."""


@dataclass(frozen=True)
class Run:
    """One measured run. `seconds` is what the ratio is made of; everything else explains it."""

    seconds: float
    events: int
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return self.events / self.seconds


class Contestant(ABC, Generic[W]):
    """One way of reading a workload."""

    workload: ClassVar[type[Workload]]
    name: str
    title: str
    # Contestants of one group are compared with each other and run alternately.
    group: ClassVar[str]
    # Slow contestants whose spread is small may ask for fewer.
    most_rounds: ClassVar[int] = 100
    # Reads the table to copy, not the backlog.
    copies: ClassVar[bool] = False

    def prepare(self, workload: W) -> None:
        """Before the backlog is written, once: for those who must be there when it begins. May raise NotAvailable."""

    @abstractmethod
    def run(self, workload: W, directory: Path) -> Run:
        """Read it all, once, into `directory` if anything is written. Raises NotAvailable."""
