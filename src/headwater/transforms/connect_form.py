"""Kafka Connect's flat settings (`transforms=a,b`, `transforms.a.type=…`, `predicates.*`) as a list of sections.

Needs no Arrow and no kernels: the command line reads it before it knows whether it will need them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.errors import Usage

_MATCHES = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"
_TOMBSTONE = "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone"


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
