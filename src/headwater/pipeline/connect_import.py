"""A Kafka Connect registration for Debezium → a pipeline file. Nothing is dropped silently, no secret is written out.

What has an equivalent is in the pipeline under our names; the rest is listed, each with a reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from headwater.errors import Usage
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.settings import Settled, settle
from headwater.options import Declared, Secret, convert, declared
from headwater.registry import known, source_class, transform_class
from headwater.sources.base import SourceOptions
from headwater.transforms.base import EventTransform, implied
from headwater.transforms.chain import build_chain
from headwater.transforms.connect_form import take_connect

_SECRET = re.compile(r"passw|secret|token|credential|jaas|salt|api.?key|private", re.IGNORECASE)
_PROVIDED = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}", re.IGNORECASE)
_SALT = re.compile(r"(column\.mask\.hash\..+\.with\.salt\.)(.+)")
_JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


@dataclass
class Imported:
    """A pipeline, and what was said about settings that are not in it."""

    name: str
    source: dict[str, Any] = field(default_factory=dict)
    transforms: list[dict[str, Any]] = field(default_factory=list)
    # Transforms of events: they need a sink that carries events.
    event_transforms: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    no_effect: dict[str, str] = field(default_factory=dict)
    no_equivalent: dict[str, str] = field(default_factory=dict)
    # Environment variables that have to be set, and what for.
    environment: dict[str, str] = field(default_factory=dict)

    def to_yaml(self) -> str:
        """The pipeline file, with everything else as comments at its end."""
        parts = [_dump({"name": self.name, "source": self.source})]
        if self.transforms:
            parts.append(_dump({"transforms": self.transforms}))
        others = ", ".join(kind for kind in known("sinks") if kind != "delta")
        choice = f"# or another kind of sink: {others}\n" if others else ""
        parts.append(
            "# Where the changes go: choose.\n" + _dump({"sinks": [{"type": "delta", "path": "lake"}]}) + choice
        )
        if self.event_transforms:
            why = (
                "These work on events, not on rows: for a sink that carries events (in a table, rows are flat already)."
            )
            parts.append(_commented(why, _dump({"transforms": self.event_transforms}).splitlines()))
        parts.extend(_commented(title, lines) for title, lines in self.remarks())
        return "\n".join(parts)

    def remarks(self) -> list[tuple[str, list[str]]]:
        """(title, lines) of everything a person should know."""
        found = [
            ("Set these environment variables:", [f"{name}: {what}" for name, what in self.environment.items()]),
            ("Please note:", self.notes),
            ("Has no equivalent:", [f"{name}: {why}" for name, why in self.no_equivalent.items()]),
            ("Has no effect here:", [f"{name}: {why}" for name, why in self.no_effect.items()]),
        ]
        return [(title, lines) for title, lines in found if lines]


def _dump(value: Any) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1000)
    return text


def _commented(title: str, lines: list[str]) -> str:
    # A value may have line breaks, which must not lead out of the comment.
    shown = (part for line in lines for part in line.splitlines())
    return "".join(f"# {line}\n" for line in [title, *(f"  {line}" for line in shown)])


def import_registration(text: str) -> Imported:
    """The pipeline of a registration: {"name": …, "config": {…}}, or the config alone."""
    name, config = read_registration(text)
    kind = _kind(config)
    cls = source_class(kind)
    imported = Imported(name)
    given = {key: value for key, value in config.items() if key != "name"}
    given, notes = cls.take_over(given)
    imported.notes.extend(notes)
    if config.get("value.converter") == _JSON_CONVERTER:
        given.setdefault("value.converter.schemas.enable", "true")
    flat = _transforms(given, imported)
    settled = settle(flat, cls.options_class, DebeziumOptions)
    _source(settled, kind, cls.options_class, imported)
    return imported


def read_registration(text: str) -> tuple[str, dict[str, Any]]:
    """(name, config)."""
    try:
        read = json.loads(text)
    except ValueError as error:
        raise Usage(f"this is not JSON: {error}") from error
    config = read.get("config", read) if isinstance(read, dict) else None
    if not isinstance(config, dict) or "connector.class" not in config:
        raise Usage(
            "this is no registration of a Debezium connector: connector.class is missing",
            'wanted is what is posted to Kafka Connect: {"name": …, "config": {"connector.class": …, …}}',
        )
    named = str(read.get("name") or config.get("name") or config.get("topic.prefix") or "imported")
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", named)
    return plain if re.match(r"[A-Za-z_]", plain) else f"_{plain}", config


def _kind(config: Mapping[str, Any]) -> str:
    connector = str(config["connector.class"])
    connectors = {theirs: ours for name in known("sources") for theirs, ours in source_class(name).connectors.items()}
    for theirs, ours in connectors.items():
        simple = theirs.rpartition(".")[2]
        # Connect takes a class's simple name too.
        if connector in (theirs, simple, simple.removesuffix("Connector")):
            return ours
    raise Usage(f"{connector}: there is no source that reads what it reads", "known: " + ", ".join(connectors))


# -- transforms ------------------------------------------------------------------------------------


def _transforms(given: dict[str, Any], imported: Imported) -> dict[str, Any]:
    """Takes the transforms out of the settings."""
    aliases = [alias.strip() for alias in str(given.get("transforms", "")).split(",") if alias.strip()]
    used: set[str] = set()
    for alias in aliases:
        try:
            section = _translated(_one(given, alias))
            made = build_chain([section])
        except Usage as error:
            kind = str(given.get(f"transforms.{alias}.type", ""))
            hint = "write its condition in SQL: type: filter" if kind.endswith(".Filter") else error.what
            for key, value in given.items():
                if key.startswith(f"transforms.{alias}."):
                    imported.no_equivalent[key] = f"{_shown(key, value)} ({hint})"
            continue
        (imported.event_transforms if made.events else imported.transforms).append(_escaped(section))
        used.add(str(given.get(f"transforms.{alias}.predicate", "")))
    for key, value in given.items():
        word, _, rest = key.partition(".")
        if word == "predicates" and rest and rest.partition(".")[0] not in used:
            imported.no_equivalent[key] = f"{_shown(key, value)} (no transform that was taken over uses it)"
    if imported.event_transforms:
        kinds = ", ".join(section["type"] for section in imported.event_transforms)
        imported.notes.append(f"{kinds}: for sinks that carry events; the pipeline has them as comments")
    return {key: value for key, value in given.items() if key.partition(".")[0] not in ("transforms", "predicates")}


def _one(given: Mapping[str, Any], alias: str) -> dict[str, Any]:
    """One transform by itself, with all predicates."""
    own = {key: value for key, value in given.items() if key.startswith((f"transforms.{alias}.", "predicates"))}
    return take_connect({**own, "transforms": alias}, "transforms")[0][0]


def _translated(section: dict[str, Any]) -> dict[str, Any]:
    """A section under our names."""
    cls = transform_class(str(section["type"]))
    names = {name: d for d in declared(cls.options_class) for name in (d.name, *d.aliases)}
    ours: dict[str, Any] = {"type": cls.type}
    for key, value in implied(cls, str(section["type"]), section).items():
        if key == "type":
            continue
        if key not in names:
            raise Usage(f"{cls.type} has no option {key!r}")
        ours[names[key].name] = _plain(convert(value, names[key], f"{cls.type}: {key}"))
    if not issubclass(cls, EventTransform):
        raise Usage(f"{cls.type} is no transform of events")
    return ours


def _escaped(section: dict[str, Any]) -> dict[str, Any]:
    """`${name}` of a replacement is no reference to the environment."""
    return {key: value.replace("${", "$${") if isinstance(value, str) else value for key, value in section.items()}


# -- source ----------------------------------------------------------------------------------------


def _source(settled: Settled, kind: str, options: type[SourceOptions], imported: Imported) -> None:
    imported.notes.extend(settled.mapped)
    imported.no_effect |= settled.no_effect
    imported.source["type"] = kind
    every = [*declared(options), *declared(DebeziumOptions)]
    names = {name: d for d in every for name in (d.name, *d.aliases)}
    for key, value in settled.options.items():
        found = names.get(key)
        if found is None and any(d.takes(key) for d in every):
            imported.source[_without_salt(key, imported)] = str(value)
        elif found is None:
            imported.no_equivalent[key] = _shown(key, value)
        else:
            _set(key, value, found, imported)
    if imported.source.get("topic_prefix") == imported.name:
        del imported.source["topic_prefix"]
    _nicer_tables(imported.source)


def _set(key: str, value: Any, found: Declared, imported: Imported) -> None:
    # What Connect would have fetched from elsewhere has to come from the environment here.
    if found.type is Secret or "${" in str(value):
        imported.source[found.name] = _reference(key, str(value), found.name, imported)
        return
    try:
        imported.source[found.name] = _plain(convert(value, found, key))
    except Usage as error:
        imported.no_equivalent[key] = error.what


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _reference(key: str, value: str, option: str, imported: Imported) -> str:
    """A secret as a reference to an environment variable; the text itself goes nowhere."""
    provided = _PROVIDED.fullmatch(value)
    name = provided[1] if provided else re.sub(r"\W", "_", f"{imported.name}_{option}").upper()
    where = f" (it was {value})" if value.startswith("${") and not provided else ""
    imported.environment[name] = f"the value of {key}{where}"
    return f"${{{name}}}"


def _without_salt(key: str, imported: Imported) -> str:
    found = _SALT.fullmatch(key)
    if found is None:
        return key
    name = re.sub(r"\W", "_", f"{imported.name}_salt").upper()
    while name in imported.environment:
        name += "_2"
    imported.environment[name] = "the salt of " + found[1].removesuffix(".with.salt.")
    return f"{found[1]}${{{name}}}"


def _shown(key: str, value: Any) -> str:
    """A value in a remark: never one that may be a secret."""
    return "******" if _SECRET.search(key) else str(value)


def _nicer_tables(source: dict[str, Any]) -> None:
    """`table.include.list` in our patterns, where that says the same."""
    for theirs, ours in (("table_include_list", "tables"), ("table_exclude_list", "exclude")):
        patterns = [_pattern(text) for text in source.get(theirs, [])]
        if patterns and all(patterns) and ours not in source:
            places = {ours if name == theirs else name: patterns if name == theirs else source[name] for name in source}
            source.clear()
            source.update(places)


def _pattern(text: str) -> str | None:
    plain = re.sub(r"(?<!\\)\.\*", "*", text).replace(r"\.", ".")
    return plain if re.fullmatch(r"[\w*]+\.[\w*]+", plain) else None
