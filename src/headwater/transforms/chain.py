"""Transforms in their order, from a pipeline's `transforms:` list or from Kafka Connect's flat settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.errors import Usage
from headwater.event import ChangeBatch, TableSchema
from headwater.options import parse_options
from headwater.registry import transform_class
from headwater.transforms.base import ChangeTransform, EventTransform

_MATCHES = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"
_TOMBSTONE = "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone"


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
        """A batch behind all transforms of changes; it may be empty then."""
        for transform in self.changes:
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
        if kind.endswith("$Key"):
            given.setdefault("into", "key")
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


def take_connect(given: Mapping[str, Any], where: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(sections, the other settings) of flat settings with `transforms=a,b` and `transforms.a.type=…`.

    Spark lower-cases option names, so aliases are compared without case."""
    listed = given.get("transforms", "")
    if isinstance(listed, list):
        return listed, {key: value for key, value in given.items() if key != "transforms"}
    own = ("transforms", "predicates")
    rest = {key: value for key, value in given.items() if key.partition(".")[0] not in own}
    aliases = [alias.strip() for alias in str(listed).split(",") if alias.strip()]
    named = {alias.lower() for alias in aliases}
    for key in given:
        word, _, more = key.partition(".")
        if word == "transforms" and more and more.partition(".")[0].lower() not in named:
            raise Usage(f"{where}: {key!r} belongs to no transform", f"transforms={','.join(aliases)}")
    return [_section(given, alias, where) for alias in aliases], rest


def _section(given: Mapping[str, Any], alias: str, where: str) -> dict[str, Any]:
    section = _under(given, f"transforms.{alias}.")
    if "type" not in section:
        raise Usage(f"{where}: transforms.{alias}.type is missing")
    predicate, negate = section.pop("predicate", None), str(section.pop("negate", "false")).lower() == "true"
    if predicate is not None:
        section |= _condition(given, str(predicate), negate, f"{where}: transforms.{alias}.predicate")
    return section


def _under(given: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    length = len(prefix)
    return {key[length:]: value for key, value in given.items() if key[:length].lower() == prefix.lower()}


def _condition(given: Mapping[str, Any], name: str, negate: bool, where: str) -> dict[str, Any]:
    """A predicate as the options that every transform of events has."""
    settings = _under(given, f"predicates.{name}.")
    match settings.get("type"):
        case None:
            raise Usage(f"{where}: predicates.{name}.type is missing")
        case kind if kind == _MATCHES:
            return {"except_topics" if negate else "topics": str(settings.get("pattern", ""))}
        case kind if kind == _TOMBSTONE:
            return {"tombstones": "no" if negate else "only"}
    raise Usage(f"{where}: the predicate {settings['type']} is not known", f"known: {_MATCHES}, {_TOMBSTONE}")
