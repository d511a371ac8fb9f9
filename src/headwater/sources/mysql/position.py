"""How far a log has been read, in the three ways servers count: MariaDB's GTIDs, MySQL's, and file and offset.

A `Progress` says where between two transactions we are. Its `coordinate` is one growing integer, the same on every
server that has the same transactions, so a position survives a failover: MariaDB numbers the transactions of a
domain, so the sum over all domains grows; MySQL's set of GTIDs grows by one with each. Without GTIDs it is the
address in the files. A transaction's commit coordinate is the coordinate of the place where it begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from headwater.errors import Stop
from headwater.event import Position

# A file's number and an offset in one integer: 8 million files of a terabyte.
FILE_BITS = 40


class Progress(Protocol):
    """Where we are, between two transactions."""

    @property
    def coordinate(self) -> int: ...

    def text(self) -> str:
        """What `parse_progress` reads back."""

    def covers(self, other: Progress) -> bool:
        """Whether everything before `other` is also before this."""


@dataclass(frozen=True)
class MariaDbProgress:
    """The last GTID of every domain: `0-1-100,1-2-7`."""

    # domain -> (server, sequence number)
    domains: tuple[tuple[int, int, int], ...] = ()

    @property
    def coordinate(self) -> int:
        return sum(sequence for _domain, _server, sequence in self.domains)

    def text(self) -> str:
        return "mariadb:" + ",".join(f"{domain}-{server}-{sequence}" for domain, server, sequence in self.domains)

    @property
    def gtids(self) -> str:
        return self.text().partition(":")[2]

    def covers(self, other: Progress) -> bool:
        if not isinstance(other, MariaDbProgress):
            return False
        here = {domain: sequence for domain, _server, sequence in self.domains}
        return all(here.get(domain, 0) >= sequence for domain, _server, sequence in other.domains)

    def after(self, domain: int, server: int, sequence: int) -> MariaDbProgress:
        """Behind one more transaction."""
        domains = {own: (number, last) for own, number, last in self.domains}
        if sequence <= domains.get(domain, (0, 0))[1]:
            raise Stop(
                f"the GTID {domain}-{server}-{sequence} comes after {domain}-{'-'.join(map(str, domains[domain]))}",
                "set global gtid_strict_mode = on;   -- then load the tables anew",
                cause="Numbers that go back leave no order to resume by",
            )
        domains[domain] = (server, sequence)
        return MariaDbProgress(tuple((own, *last) for own, last in sorted(domains.items())))


@dataclass(frozen=True)
class MySqlProgress:
    """A set of GTIDs, intervals and all: `uuid:1-7:9-10`, or `uuid:tag:1-3` for tagged ones."""

    # (uuid or uuid:tag) -> ascending intervals, both ends inside
    sources: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = ()

    @property
    def coordinate(self) -> int:
        return sum(last - first + 1 for _source, spans in self.sources for first, last in spans)

    @property
    def gtids(self) -> str:
        def spans_text(spans: tuple[tuple[int, int], ...]) -> str:
            return ":".join(f"{first}-{last}" if last > first else str(first) for first, last in spans)

        return ",".join(f"{source}:{spans_text(spans)}" for source, spans in self.sources)

    def text(self) -> str:
        return "mysql:" + self.gtids

    def covers(self, other: Progress) -> bool:
        if not isinstance(other, MySqlProgress):
            return False
        own = dict(self.sources)
        return all(
            any(low <= first and last <= high for low, high in own.get(source, ()))
            for source, spans in other.sources
            for first, last in spans
        )

    def after(self, source: str, number: int) -> MySqlProgress:
        """Behind one more transaction. Holes stay holes: what fills one later is not skipped."""
        sources = dict(self.sources)
        spans = sources.get(source, ())
        if spans and spans[-1][1] + 1 == number:
            # The usual case, without sorting: 2 µs instead of 6.
            sources[source] = (*spans[:-1], (spans[-1][0], number))
        else:
            sources[source] = _merged((*spans, (number, number)))
        return MySqlProgress(tuple(sorted(sources.items())))


@dataclass(frozen=True)
class FileProgress:
    """A file of the log and an offset in it: `binlog.000003:4567`. Means nothing on another server."""

    file: str
    offset: int

    @property
    def coordinate(self) -> int:
        return file_address(self.file, self.offset)

    def text(self) -> str:
        return f"file:{self.file}:{self.offset}"

    def covers(self, other: Progress) -> bool:
        return isinstance(other, FileProgress) and self.coordinate >= other.coordinate


def file_number(file: str) -> int:
    """`binlog.000012` → 12."""
    number = file.rpartition(".")[2]
    if not number.isdigit():
        raise Stop(f"the binlog file {file!r} has no number", "Name binlog files as the server does: binlog.000001")
    return int(number)


def file_address(file: str, offset: int) -> int:
    """A place in the log's files as one growing integer."""
    return (file_number(file) << FILE_BITS) | offset


def parse_mariadb(text: str) -> MariaDbProgress:
    """`0-1-100,1-2-7`, as the server prints it."""
    try:
        found = [tuple(map(int, part.strip().split("-"))) for part in text.split(",") if part.strip()]
        return MariaDbProgress(tuple(sorted((domain, server, sequence) for domain, server, sequence in found)))
    except ValueError as error:
        raise Stop(f"{text!r} is not a MariaDB GTID position") from error


def parse_mysql(text: str) -> MySqlProgress:
    """`uuid:1-7:9-10,\\nuuid:tag:1-3`, as the server prints it."""
    sources: dict[str, list[tuple[int, int]]] = {}
    try:
        for part in filter(None, (part.strip() for part in text.split(","))):
            uuid, *pieces = part.split(":")
            source = str(UUID(uuid))
            for piece in pieces:
                if not piece[0].isdigit():
                    source = f"{UUID(uuid)}:{piece.strip().lower()}"
                    continue
                first, _, last = piece.partition("-")
                sources.setdefault(source, []).append((int(first), int(last or first)))
    except (ValueError, IndexError) as error:
        raise Stop(f"{text!r} is not a set of GTIDs") from error
    return MySqlProgress(tuple((source, _merged(tuple(spans))) for source, spans in sorted(sources.items())))


def parse_progress(text: str) -> Progress:
    """What `Progress.text` wrote: the `resume` of a position."""
    kind, _, rest = text.partition(":")
    match kind:
        case "mariadb":
            return parse_mariadb(rest)
        case "mysql":
            return parse_mysql(rest)
        case "file":
            file, _, offset = rest.rpartition(":")
            if file and offset.isdigit():
                return FileProgress(file, int(offset))
    raise Stop(
        f"a stored position cannot be resumed: {text[:80]!r}",
        "It was not written by this kind of source; remove the state folder and the tables in the lake, and run again",
    )


def at(progress: Progress) -> Position:
    """The position between transactions at a progress."""
    return Position(progress.coordinate, 0, progress.text())


def _merged(spans: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)
