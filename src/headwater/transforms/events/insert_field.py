"""`insert_field`: a constant, the topic or the time as one more field (Kafka Connect's InsertField)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from headwater.errors import Usage
from headwater.formats.connect import INT64, Schema, quote
from headwater.formats.writers import long_text
from headwater.options import option
from headwater.transforms.base import EventOptions, EventTransform
from headwater.transforms.events_model import Events, Leaf, Node, Struct, constant

TIMESTAMP = replace(INT64, name="org.apache.kafka.connect.data.Timestamp", version=1)


@dataclass(frozen=True, kw_only=True)
class InsertFieldOptions(EventOptions):
    """What a user may say about a field to insert; `!` behind a name makes it required."""

    into: str = option("value", help="value or key", choices=["value", "key"])
    static_field: str = option("", help="field with a constant", aliases=["static.field"])
    static_value: str = option("", help="the constant", aliases=["static.value"])
    topic_field: str = option("", help="field with the topic", aliases=["topic.field"])
    timestamp_field: str = option("", help="field with the record's timestamp", aliases=["timestamp.field"])


class InsertField(EventTransform):
    """One more field at the end."""

    type: ClassVar[str] = "insert_field"
    options_class = InsertFieldOptions
    connect_names: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "org.apache.kafka.connect.transforms.InsertField$Value": {},
        "org.apache.kafka.connect.transforms.InsertField$Key": {"into": "key"},
    }
    options: InsertFieldOptions

    def __init__(self, options: InsertFieldOptions) -> None:
        self.options = options
        if not (options.static_field or options.topic_field or options.timestamp_field):
            raise Usage("insert_field: name a field: static_field, topic_field or timestamp_field")

    def apply(self, events: Events) -> Iterable[Events]:
        options, rows = self.options, len(events)
        target = events.value if options.into == "value" else events.key
        if not isinstance(target, Struct):
            return [events]
        if options.topic_field:
            target = _with(target, options.topic_field, constant(quote(events.topic), rows))
        if options.timestamp_field:
            now = constant(str(events.context.now), rows, TIMESTAMP)
            given = now if events.timestamp is None else Leaf(TIMESTAMP, long_text(events.timestamp))
            target = _with(target, options.timestamp_field, given)
        if options.static_field:
            target = _with(target, options.static_field, constant(quote(options.static_value), rows))
        return [replace(events, value=target) if options.into == "value" else replace(events, key=target)]


def _with(target: Struct, name: str, node: Node) -> Struct:
    """Optional unless its name ends in `!`."""
    required = name.endswith("!")
    schema: Schema = node.schema.as_optional(not required)
    leaf = replace(node, schema=schema) if isinstance(node, Leaf) else node
    return target.with_field(name.rstrip("!?"), leaf)
