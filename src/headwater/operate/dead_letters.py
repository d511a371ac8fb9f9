"""What a person does with dead letters: look at them, deliver them after all, or give them up.

Retrying writes to the sinks, so the pipeline must not run meanwhile. Letters of one row go together, in their order:
behind one that is refused again, the others go on waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headwater.dead_letters import DeadLetters, Letter
from headwater.errors import Rejected, Usage
from headwater.event import TableSchema
from headwater.journal.locks import lock_file
from headwater.pipeline.definition import Definition
from headwater.sinks.base import Sink


@dataclass(frozen=True)
class Outcome:
    """What became of one letter."""

    id: str
    table: str
    # delivered, dropped, or waiting with the reason.
    outcome: str
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


def found(definition: Definition, ids: Sequence[str] = (), *, sink: str = "", table: str = "") -> list[Letter]:
    """The letters of a pipeline; of those named, an unknown one raises Usage."""
    if sink and sink not in definition.sinks:
        raise Usage(f"there is no sink {sink!r} in this pipeline", "known: " + ", ".join(definition.sinks))
    names = [sink] if sink else list(definition.sinks)
    letters = [letter for name in names for letter in DeadLetters(definition.state, name).letters()]
    letters = [letter for letter in letters if not table or letter.table == table]
    known = {letter.id for letter in letters}
    if unknown := [id_ for id_ in ids if id_ not in known]:
        raise Usage(f"there is no dead letter {unknown[0]!r}", "see: headwater dead-letters list")
    return [letter for letter in letters if not ids or letter.id in ids]


def drop(definition: Definition, letters: Sequence[Letter]) -> Iterator[Outcome]:
    """Give letters up. What waits behind one goes on waiting until it is retried: it may need what was dropped."""
    for letter in letters:
        DeadLetters(definition.state, letter.sink).remove(letter)
        yield Outcome(letter.id, letter.table, "dropped")


def retry(definition: Definition, letters: Sequence[Letter]) -> Iterator[Outcome]:
    """Deliver letters, table by table."""
    _require_order(definition, letters)
    with _alone(definition):
        shapes = {table.table: table for table in definition.source.tables()}
        for name, sink in definition.sinks.items():
            own = [letter for letter in letters if letter.sink == name]
            if own and sink.position() is None:
                raise Usage(f"sink {name!r} holds nothing: its dead letters belong to another target", "drop them")
            for table in dict.fromkeys(letter.table for letter in own):
                waiting = [letter for letter in own if letter.table == table]
                yield from _retry_table(DeadLetters(definition.state, name), sink, waiting, shapes.get(table))


def _retry_table(
    store: DeadLetters, sink: Sink, letters: Sequence[Letter], shape: TableSchema | None
) -> Iterator[Outcome]:
    """All of a table at once; when that is refused, row by row."""
    yield from (
        Outcome(letter.id, letter.table, "waiting", "its table was truncated or loaded anew since: drop it")
        for letter in letters
        if letter.void
    )
    chains = _chains([letter for letter in letters if not letter.void])
    fit, odd = _parted(chains, lambda chain: all(_fits(letter, shape, events=sink.writes_events) for letter in chain))
    for chain in odd:
        reason = "it holds a value as text that the table's column cannot: correct the row at the source, then drop it"
        yield from (Outcome(letter.id, letter.table, "waiting", reason) for letter in chain)
    everything = sorted((letter for chain in fit for letter in chain), key=lambda letter: letter.position)
    try:
        _deliver(store, sink, everything, shape)
    except Rejected:
        for chain in fit:
            yield from _retry_chain(store, sink, chain, shape)
    else:
        yield from (Outcome(letter.id, letter.table, "delivered") for letter in everything)


def _retry_chain(
    store: DeadLetters, sink: Sink, chain: Sequence[Letter], shape: TableSchema | None
) -> Iterator[Outcome]:
    outcome, reason = "delivered", ""
    try:
        _deliver(store, sink, chain, shape)
    except Rejected as error:
        outcome, reason = "waiting", str(error)
    yield from (Outcome(letter.id, letter.table, outcome, reason) for letter in chain)


def _deliver(store: DeadLetters, sink: Sink, letters: Sequence[Letter], shape: TableSchema | None) -> None:
    if not letters:
        return
    sink.write_late(shape or letters[-1].change.table, [letter.change for letter in letters])
    for letter in letters:
        store.remove(letter)


def _fits(letter: Letter, shape: TableSchema | None, *, events: bool) -> bool:
    """Whether every value has the type that its column has today. Events are made of numbers as text too."""
    types = {} if shape is None else {column.name: column.arrow for column in shape.columns}
    odd = [column for column in letter.change.table.columns if types.get(column.name, column.arrow) != column.arrow]
    return all(events and pa.types.is_decimal128(types[column.name]) for column in odd)


def _chains(letters: Sequence[Letter]) -> list[list[Letter]]:
    """Letters that share rows, each chain in its order; without a key every letter is by itself."""
    chains: list[tuple[set[str], list[Letter]]] = []
    for letter in sorted(letters, key=lambda letter: letter.position):
        touched = [chain for chain in chains if chain[0].intersection(letter.keys)]
        keys = {*letter.keys, *(key for chain in touched for key in chain[0])}
        joined = sorted((one for chain in touched for one in chain[1]), key=lambda one: one.position)
        chains = [chain for chain in chains if chain not in touched]
        chains.append((keys, [*joined, letter]))
    return [chain for _keys, chain in chains]


def _parted(
    chains: Sequence[list[Letter]], wanted: Callable[[list[Letter]], bool]
) -> tuple[list[list[Letter]], list[list[Letter]]]:
    return [chain for chain in chains if wanted(chain)], [chain for chain in chains if not wanted(chain)]


def _require_order(definition: Definition, letters: Sequence[Letter]) -> None:
    """No letter goes before an earlier one of its row."""
    chosen = {letter.id for letter in letters}
    for name in dict.fromkeys(letter.sink for letter in letters):
        everything = [letter for letter in DeadLetters(definition.state, name).letters() if not letter.void]
        for table in dict.fromkeys(letter.table for letter in everything):
            for chain in _chains([letter for letter in everything if letter.table == table]):
                picked = [letter.id in chosen for letter in chain]
                if _gap(picked):
                    first = chain[picked.index(False)]
                    raise Usage(
                        f"{first.id} is an earlier change of the same row: it has to be retried with it, or dropped",
                        f"headwater dead-letters retry FILE {' '.join(letter.id for letter in chain)}",
                    )


def _gap(picked: Sequence[bool]) -> bool:
    """Whether one is left out before one that is not."""
    return False in picked and any(picked[picked.index(False) :])


@contextmanager
def _alone(definition: Definition) -> Iterator[None]:
    lock = lock_file(definition.state / "run.lock", f"the state of pipeline {definition.name!r}")
    try:
        yield
    finally:
        definition.source.close()
        lock.close()
