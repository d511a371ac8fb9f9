"""`regex_router`: another topic by regular expression and nothing else (Kafka Connect's RegexRouter)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from headwater.options import option
from headwater.transforms.base import EventOptions, EventTransform, compiled, replacement
from headwater.transforms.events_model import Events


@dataclass(frozen=True, kw_only=True)
class RegexRouterOptions(EventOptions):
    """What a user may say about the topic."""

    regex: str = option(help="matched against the whole topic")
    replacement: str = option(help="the new topic; $1 and ${name} stand for groups")


class RegexRouter(EventTransform):
    """Another topic; schema names stay."""

    type: ClassVar[str] = "regex_router"
    options_class = RegexRouterOptions
    connect_names: ClassVar[Mapping[str, Mapping[str, str]]] = {"org.apache.kafka.connect.transforms.RegexRouter": {}}
    options: RegexRouterOptions

    def __init__(self, options: RegexRouterOptions) -> None:
        self.options = options
        self.pattern = compiled(options.regex, "regex_router: regex")
        self.template = replacement(options.replacement, self.pattern, "regex_router: replacement")

    def apply(self, events: Events) -> Iterable[Events]:
        found = self.pattern.fullmatch(events.topic)
        return [events if found is None else replace(events, topic=found.expand(self.template))]
