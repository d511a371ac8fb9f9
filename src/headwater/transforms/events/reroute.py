"""`reroute`: several tables into one topic by regular expression (Debezium's ByLogicalTableRouter).

The key gets the table's own name beside it, because rows of two tables may have the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from headwater.errors import Usage
from headwater.formats import names
from headwater.formats.connect import quote
from headwater.options import option
from headwater.transforms.base import EventOptions, EventTransform, compiled, replacement
from headwater.transforms.events_model import Events, Struct, constant


@dataclass(frozen=True, kw_only=True)
class RerouteOptions(EventOptions):
    """What a user may say about rerouting."""

    regex: str = option(help="matched against the whole topic", aliases=["topic.regex"])
    replacement: str = option(help="the new topic; $1 and ${name} stand for groups", aliases=["topic.replacement"])
    key_field: bool = option(
        True, help="add a field to the key that names the table", aliases=["key.enforce.uniqueness"]
    )
    key_field_name: str = option("__dbz__physicalTableIdentifier", help="its name", aliases=["key.field.name"])
    key_field_regex: str = option("", help="matched against the old topic", aliases=["key.field.regex"])
    key_field_replacement: str = option(
        "", help="the field's value; without it the old topic", aliases=["key.field.replacement"]
    )
    schema_names: str = option(
        "none",
        help="make schema names fit for Avro",
        aliases=["schema.name.adjustment.mode"],
        choices=["none", "avro", "avro_unicode"],
    )
    cache_size: int = option(16, help="not used", aliases=["logical.table.cache.size"], hidden=True)


class Reroute(EventTransform):
    """Another topic, and schema names that follow it."""

    type: ClassVar[str] = "reroute"
    options_class = RerouteOptions
    connect_names: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "io.debezium.transforms.ByLogicalTableRouter": {},
        "io.debezium.transforms.ToLogicalTopicRouter": {"key_field_name": "__dbz__sourceIdentifier"},
    }
    options: RerouteOptions

    def __init__(self, options: RerouteOptions) -> None:
        self.options = options
        self.pattern = compiled(options.regex, "reroute: regex")
        self.template = replacement(options.replacement, self.pattern, "reroute: replacement")
        if bool(options.key_field_regex) != bool(options.key_field_replacement):
            raise Usage("reroute: key_field_regex and key_field_replacement belong together")
        self.key_pattern = compiled(options.key_field_regex, "reroute: key_field_regex")
        self.key_template = replacement(
            options.key_field_replacement, self.key_pattern, "reroute: key_field_replacement"
        )

    def apply(self, events: Events) -> Iterable[Events]:
        found = self.pattern.fullmatch(events.topic)
        if found is None:
            return [events]
        topic = found.expand(self.template)
        if not topic:
            raise Usage(f"reroute: {events.topic!r} would become an empty topic")
        old, mode = f"{events.topic}.", self.options.schema_names

        def renamed(name: str) -> str:
            return names.adjust(topic + name[len(old) - 1 :], mode) if name.startswith(old) else name

        key = events.key if events.key is None else events.key.renamed(renamed)
        if isinstance(key, Struct) and self.options.key_field:
            key = key.with_field(self.options.key_field_name, constant(quote(self._origin(events.topic)), len(events)))
        value = events.value if events.value is None else events.value.renamed(renamed)
        return [replace(events, topic=topic, key=key, value=value)]

    def _origin(self, topic: str) -> str:
        found = self.key_pattern.fullmatch(topic) if self.options.key_field_regex else None
        return topic if found is None else found.expand(self.key_template)
