"""Transforms in their order, from a list of sections as a pipeline's `transforms:` has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.errors import Usage
from headwater.event import ChangeBatch, TableSchema
from headwater.options import parse_options
from headwater.registry import transform_class
from headwater.transforms.base import ChangeTransform, EventTransform, implied


@dataclass(frozen=True)
class Chain:
    """First what works on changes, then what works on events."""

    changes: tuple[ChangeTransform, ...] = ()
    events: tuple[EventTransform, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changes or self.events)

    def table(self, table: TableSchema) -> TableSchema:
        """The shape of a table behind all transforms of changes."""
        for transform in self.changes:
            if transform.applies(table):
                table = transform.table(table)
        return table

    def apply(self, batch: ChangeBatch) -> ChangeBatch:
        """A batch behind all transforms of changes; it may be empty then. Messages are no rows: they stay."""
        for transform in () if batch.table.message else self.changes:
            if len(batch) and transform.applies(batch.table):
                batch = transform.apply(batch)
        return batch

    def apply_all(self, batches: Sequence[ChangeBatch]) -> list[ChangeBatch]:
        """What is left of several batches."""
        if not self.changes:
            return list(batches)
        return [batch for batch in map(self.apply, batches) if len(batch)]


def build_chain(sections: Sequence[Any], where: str = "transforms") -> Chain:
    """The transforms of a list of sections, each with `type` and its options."""
    changes: list[ChangeTransform] = []
    events: list[EventTransform] = []
    for number, section in enumerate(sections):
        place = f"{where}[{number}]"
        if not isinstance(section, Mapping) or "type" not in section:
            raise Usage(f"{place}: a mapping with `type` is wanted")
        given = dict(section)
        kind = str(given.pop("type"))
        cls = transform_class(kind)
        given = implied(cls, kind, given)
        made = cls(parse_options(cls.options_class, given, where=f"{place} ({cls.type})"))
        if isinstance(made, EventTransform):
            events.append(made)
        elif events:
            raise Usage(
                f"{place}: {cls.type!r} works on changes, but {events[0].type!r} before it has made events of them",
                "put it before the transforms of events",
            )
        else:
            changes.append(made)
    return Chain(tuple(changes), tuple(events))
