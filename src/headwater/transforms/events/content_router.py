"""`content_router`: the topic by a SQL expression over the change (Debezium's ContentBasedRouter)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from headwater.errors import Usage
from headwater.formats.text import Text
from headwater.options import option
from headwater.transforms.base import EventOptions, EventTransform, full_match
from headwater.transforms.evaluate import Expression, Scope
from headwater.transforms.events_model import Events


@dataclass(frozen=True, kw_only=True)
class ContentRouterOptions(EventOptions):
    """What a user may say about a router."""

    topic: str = option(help="SQL expression giving the topic; NULL keeps it", aliases=["topic.expression"])
    topic_regex: str = option("", help="only topics that this matches as a whole", aliases=["topic.regex"])
    language: str = option("sql", help="of the expression; only sql", aliases=["language"])
    null_handling: str = option(
        "keep",
        help="records without a value: keep, drop or evaluate",
        aliases=["null.handling.mode"],
        choices=["keep", "drop", "evaluate"],
    )


class ContentRouter(EventTransform):
    """Another topic, by content."""

    type: ClassVar[str] = "content_router"
    options_class = ContentRouterOptions
    connect_names: ClassVar[Mapping[str, Mapping[str, str]]] = {"io.debezium.transforms.ContentBasedRouter": {}}
    options: ContentRouterOptions

    def __init__(self, options: ContentRouterOptions) -> None:
        self.options = options
        if options.language != "sql":
            raise Usage(
                f"content_router: language {options.language!r}: scripts are not run",
                "write the expression in SQL, for example: case when after.total > 100 then 'large' else topic end",
            )
        self.expression = Expression(options.topic, "content_router: topic")

    def apply(self, events: Events) -> Iterable[Events]:
        options = self.options
        if options.topic_regex and not full_match(options.topic_regex, events.topic):
            return [events]
        if events.value is None and options.null_handling != "evaluate":
            return [events] if options.null_handling == "keep" else []
        topics = self.expression.texts(scope_of(events))
        return [replace(group, topic=topic or group.topic) for topic, group in events.by(topics)]


def scope_of(events: Events) -> Scope:
    """The names that an expression over events may use."""
    places = np.arange(len(events), dtype=np.int64)
    letters = Text(events.letters, places, places + 1)
    facts = {
        "op": letters.to_arrow(),
        "topic": pa.scalar(events.topic),
        "db": pa.scalar(events.context.database),
    }
    return Scope(events.context.batch.take(pa.array(events.change)), facts)
