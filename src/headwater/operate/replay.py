"""Deliver a range of the journal again: after a decoder was mended, or a target was damaged by somebody else.

The pipeline must not run meanwhile. No position moves: a sink applies what it holds already once more (`Sink.replay`),
one table at a time and each in one step, so nobody sees a table on its way.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headwater.errors import Usage
from headwater.event import ChangeBatch, Position
from headwater.journal import BlockRef, Journal, JournalReader
from headwater.journal.locks import lock_file
from headwater.pipeline.definition import Definition
from headwater.sinks.base import Sink
from headwater.sources.base import Source
from headwater.spark.slices import plan_by_range, read_slice

# Behind every change of a transaction.
_LAST = 1 << 62


@dataclass(frozen=True)
class Replayed:
    """What was done to one table of one sink."""

    sink: str
    table: str
    changes: int

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


def parse_position(source: Source, text: str, *, last: bool = False) -> Position:
    """`COMMIT:ORDINAL`, or a position in the database's words. With `last`, its whole transaction is meant."""
    try:
        commit, colon, ordinal = text.partition(":")
        if colon and commit.isdigit() and ordinal.isdigit():
            return Position(int(commit), int(ordinal))
        found = source.parse_position(text)
    except ValueError:
        raise Usage(
            f"{text!r} is not a position in this log", "Write it as headwater status shows it, or as COMMIT:ORDINAL"
        ) from None
    return replace(found, ordinal=_LAST) if last else found


def replay(
    definition: Definition,
    after: Position | None,
    upto: Position | None,
    *,
    tables: Sequence[str] = ("*",),
    sinks: Sequence[str] = (),
) -> Iterator[Replayed]:
    """Deliver (after, upto] again; `after` None: all the journal has, `upto` None: all that a sink has."""
    if unknown := [name for name in sinks if name not in definition.sinks]:
        raise Usage(f"there is no sink {unknown[0]!r} in this pipeline", "known: " + ", ".join(definition.sinks))
    journal = Journal(definition.journal)
    if journal.about() is None:
        raise Usage(f"there is no journal in {journal.place}", "A pipeline that never ran has nothing to deliver again")
    lock = lock_file(definition.state / "run.lock", f"the state of pipeline {definition.name!r}")
    try:
        index = JournalReader(journal)
        index.refresh()
        start = index.start if after is None else after
        if start < index.start:
            raise Usage(
                f"the journal begins at {index.start.resume or index.start.commit}, after the position asked for",
                "Ask for a later one, or load the tables anew; journal_keep_hours keeps more for the next time",
            )
        wanted = _tables(index.between(start, index.end), tables)
        for name, sink in definition.sinks.items():
            if not sinks or name in sinks:
                yield from _replay_sink(journal, index, name, sink, wanted, start, upto)
    finally:
        lock.close()


def _tables(blocks: Sequence[BlockRef], patterns: Sequence[str]) -> dict[str, str]:
    """The tables that match, each with its newest definition's id."""
    found = {run.table: run.schema for block in blocks for run in block.header.tables}
    return {
        table: schema
        for table, schema in sorted(found.items())
        if any(fnmatch.fnmatchcase(table, pattern) for pattern in patterns)
    }


def _replay_sink(
    journal: Journal,
    index: JournalReader,
    name: str,
    sink: Sink,
    tables: Mapping[str, str],
    after: Position,
    upto: Position | None,
) -> Iterator[Replayed]:
    for table, schema in tables.items():
        # What lies behind the table's own position will be delivered for the first time, by the next run.
        held = sink.table_position(journal.schema(schema))
        if held is None:
            continue
        end = held if upto is None else min(held, upto)
        if batches := list(_changes(journal, index, table, after, end)):
            written = sink.replay(batches[-1].table, batches, end)
            yield Replayed(name, table, written.changes)


def _changes(
    journal: Journal, index: JournalReader, table: str, after: Position, upto: Position
) -> Iterator[ChangeBatch]:
    blocks = index.between(after, upto)
    for part in plan_by_range(journal, blocks, after, upto, 1, table):
        for decoded in read_slice(part):
            yield from decoded
