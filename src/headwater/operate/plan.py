"""What a run would do with every table, and where it would put it. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from headwater.errors import HeadwaterError
from headwater.event import TableSchema
from headwater.pipeline.definition import Definition
from headwater.pipeline.reloads import Reloads
from headwater.sinks.base import Sink

LOAD, ANEW, GO_ON, BEGIN, STOP = "load", "load anew", "go on", "begin", "stop"


@dataclass(frozen=True)
class Step:
    """One table in one sink."""

    sink: str
    table: str
    # load: copied first; load anew: somebody asked for that, or it is another table than before; go on: it is there;
    # begin: with the next change; stop.
    action: str
    # In the target's words: a folder, a topic.
    target: str
    # The columns by which the sink tells rows apart.
    key: tuple[str, ...]
    # Of what will be copied; None when nothing is, or the server does not say.
    bytes: int | None = None
    # Behind which commit it goes on.
    commit: int | None = None
    # Why it would stop.
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def plan(definition: Definition) -> Iterator[Step]:
    """A step for every table that is captured, sink by sink."""
    source = definition.source
    tables = source.candidates()
    sizes = source.sizes(tables)
    loads = source.options.snapshot != "no_data"
    for name, sink in definition.sinks.items():
        anew = Reloads(definition.state).of(name)
        for table in tables:
            try:
                yield _step(name, sink, table, sizes.get(table.table), loads=loads, anew=table.table in anew)
            except HeadwaterError as error:
                yield Step(name, table.table, STOP, "", (), reason=str(error))


def _step(name: str, sink: Sink, table: TableSchema, size: int | None, *, loads: bool, anew: bool) -> Step:
    position = sink.table_position(table)
    anew = anew or (loads and sink.replaced(table))
    target, key = sink.target(table), tuple(sink.key(table))
    if anew or (position is None and loads):
        return Step(name, table.table, ANEW if anew else LOAD, target, key, size)
    if position is None:
        return Step(name, table.table, BEGIN, target, key)
    return Step(name, table.table, GO_ON, target, key, commit=position.commit)
