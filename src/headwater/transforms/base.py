"""What a transform is: of changes (for every sink), or of Debezium's events (for sinks that carry events).

Both take a batch and give a batch. They run on executors: plain data in __init__, no I/O.
"""

from __future__ import annotations

import builtins
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar

from headwater.errors import Usage
from headwater.event import ChangeBatch, TableSchema
from headwater.options import declared, option

if TYPE_CHECKING:
    from headwater.transforms.events_model import Events


@dataclass(frozen=True, kw_only=True)
class ChangeOptions:
    """Options that every transform of changes has."""

    tables: list[str] = option(["*"], help="only these tables, as schema.table patterns with *")


@dataclass(frozen=True, kw_only=True)
class EventOptions:
    """Options that every transform of events has."""

    topics: str = option("", help="only topics that this regular expression matches as a whole")
    except_topics: str = option("", help="all topics but those that this regular expression matches as a whole")
    tombstones: str = option(
        "", help="only: just records without a value; no: all but those", choices=["", "only", "no"]
    )


class ChangeTransform(ABC):
    """Changes → changes. `table` says what becomes of a table's shape; `apply` must agree with it."""

    type: ClassVar[str]
    options_class: ClassVar[builtins.type[ChangeOptions]]
    # Class names under which Kafka Connect knows it, each with the options that it implies.
    connect_names: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    options: Any

    @abstractmethod
    def __init__(self, options: Any) -> None:
        """Keeps the options and checks what can be checked without a table; does no I/O."""

    def applies(self, table: TableSchema) -> bool:
        """Whether the table is one of `tables`."""
        return any(fnmatchcase(table.unquoted, pattern) for pattern in self.options.tables)

    def table(self, table: TableSchema) -> TableSchema:
        """The table's shape behind this transform."""
        return table

    @abstractmethod
    def apply(self, batch: ChangeBatch) -> ChangeBatch:
        """The batch behind this transform; only called when it applies to the table. Keeps the order."""


class EventTransform(ABC):
    """Events → events."""

    type: ClassVar[str]
    options_class: ClassVar[builtins.type[EventOptions]]
    connect_names: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    options: Any

    @abstractmethod
    def __init__(self, options: Any) -> None:
        """Keeps the options and checks what can be checked without an event; does no I/O."""

    def applies(self, events: Events) -> bool:
        """Whether topic and kind of record are those that the options name."""
        options = self.options
        if options.topics and not full_match(options.topics, events.topic):
            return False
        if options.except_topics and full_match(options.except_topics, events.topic):
            return False
        return not options.tombstones or (options.tombstones == "only") == (events.value is None)

    @abstractmethod
    def apply(self, events: Events) -> Iterable[Events]:
        """What becomes of one group of events: none, one or several groups."""


def implied(cls: type[Any], kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, and what the Connect class name `kind` says besides."""
    names = {d.name: {d.name, *d.aliases} for d in declared(cls.options_class)}
    more = {name: value for name, value in cls.connect_names.get(kind, {}).items() if not names[name] & given.keys()}
    return {**given, **more}


def full_match(pattern: str, text: str) -> bool:
    """Whether a regular expression in Java's notation is the whole text."""
    return compiled(pattern, "a regular expression").fullmatch(text) is not None


def compiled(pattern: str, where: str) -> re.Pattern[str]:
    """A regular expression in Java's notation: `(?<name>…)` instead of Python's `(?P<name>…)`."""
    try:
        return re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", pattern))
    except re.error as error:
        raise Usage(f"{where}: {pattern!r} is not a regular expression: {error}") from error


def replacement(text: str, pattern: re.Pattern[str], where: str) -> str:
    r"""A replacement in Java's notation (`$1`, `${name}`, `\$`) as Python's."""

    def group(found: re.Match[str]) -> str:
        escaped, name = found[1], found[2] or found[3]
        if escaped is not None:
            return "\\\\" if escaped == "\\" else escaped
        if name.isdigit():
            # Java takes as many digits as make a group that exists.
            digits = name
            while len(digits) > 1 and int(digits) > pattern.groups:
                digits = digits[:-1]
            if int(digits) <= pattern.groups:
                return rf"\g<{digits}>{name[len(digits) :]}"
        elif name in pattern.groupindex:
            return rf"\g<{name}>"
        raise Usage(f"{where}: {pattern.pattern!r} has no group {name!r}", f"the replacement is {text!r}")

    return re.sub(r"\\(.)|\$\{(\w+)\}|\$(\d+)", group, text)
