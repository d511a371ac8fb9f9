"""Decoding a chunk that holds values which fit no lake type: everything else of it, and those changes by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from headwater.errors import Unrepresentable
from headwater.event import ChangeBatch, Chunk, TableSchema, concat
from headwater.sources.base import Source

Refuse = Callable[[ChangeBatch, Unrepresentable], None]


def decode_apart(
    source: type[Source],
    chunk: Chunk,
    schemas: Mapping[str, TableSchema],
    tables: set[str] | None,
    refuse: Refuse,
    error: Unrepresentable,
) -> list[ChangeBatch]:
    """As `Source.decode`, which raised `error`, without the changes to blame; `refuse` gets those, as text."""

    def rows(run: int, numbers: range) -> list[ChangeBatch]:
        """Halving finds them: a chunk has few, or it has another trouble."""
        try:
            found = source.decode_rows(chunk, schemas, run, numbers, as_text=False)
            if found is None:
                raise error
            return [found]
        except Unrepresentable as refused:
            if refused is error:
                raise
            if len(numbers) == 1:
                text = source.decode_rows(chunk, schemas, run, numbers, as_text=True)
                if text is None:
                    raise
                refuse(text, refused)
                return []
            half = numbers.start + len(numbers) // 2
            return [*rows(run, range(numbers.start, half)), *rows(run, range(half, numbers.stop))]

    batches = []
    for number, run in enumerate(chunk.tables):
        if (tables is None or run.table in tables) and (parts := rows(number, range(run.changes))):
            batches.append(replace(concat(parts), timeline=parts[0].timeline))
    return batches
