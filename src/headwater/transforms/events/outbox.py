"""`outbox`: rows of an outbox table become messages of their own (Debezium's outbox EventRouter)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import Stop, Usage
from headwater.formats.text import Mask
from headwater.formats.writers import longs_of
from headwater.options import option
from headwater.transforms.base import EventOptions, EventTransform, compiled, replacement
from headwater.transforms.events_model import Events, Node, Struct
from headwater.transforms.expand_json import expanded
from headwater.transforms.plain_text import shown

LOG = logging.getLogger(__name__)

PLACES = ("header", "envelope", "partition")
_MILLIS = {
    "io.debezium.time.Timestamp": 1,
    "io.debezium.time.MicroTimestamp": 1_000,
    "io.debezium.time.NanoTimestamp": 1_000_000,
}


@dataclass(frozen=True, kw_only=True)
class OutboxOptions(EventOptions):
    """What a user may say about an outbox table."""

    id: str = option("id", help="column with the event's id: header `id`", aliases=["table.field.event.id"])
    key: str = option("aggregateid", help="column that becomes the message key", aliases=["table.field.event.key"])
    event_type: str = option(
        "type",
        help="column with the event's type; only used where a placement names it",
        aliases=["table.field.event.type"],
    )
    payload: str = option("payload", help="column that becomes the message", aliases=["table.field.event.payload"])
    timestamp: str = option(
        "", help="column that becomes the record's timestamp", aliases=["table.field.event.timestamp"]
    )
    schema_version: str = option(
        "", help="column with the version of the message's schema", aliases=["table.field.event.schema.version"]
    )
    place: list[str] = option(
        [],
        help="further columns: column:header|envelope|partition[:alias]",
        aliases=["table.fields.additional.placement"],
    )
    missing_column: str = option(
        "error",
        help="a column of `place` that the table does not have",
        aliases=["table.field.additional.missing", "table.fields.additional.error.on.missing"],
        choices=["error", "ignore", "true", "false"],
    )
    expand_json: bool = option(
        False, help="JSON in the payload becomes structure", aliases=["table.expand.json.payload"]
    )
    json_null: str = option(
        "ignore",
        help="a null in that JSON: left out, or optional bytes",
        aliases=["table.json.payload.null.behavior"],
        choices=["ignore", "optional_bytes"],
    )
    json_empty_array: str = option(
        "ignore",
        help="an empty array in that JSON: left out, or an array of optional texts",
        aliases=["table.json.payload.empty.array.behavior"],
        choices=["ignore", "optional_string"],
    )
    on_update: str = option(
        "warn",
        help="an update of the outbox table is left out: warn or error in the log, or stop (fatal)",
        aliases=["table.op.invalid.behavior", "debezium.op.invalid.behavior"],
        choices=["warn", "error", "fatal"],
    )
    route_by: str = option("aggregatetype", help="column that decides the topic", aliases=["route.by.field"])
    regex: str = option(
        "(?<routedByValue>.*)", help="matched against that column's value", aliases=["route.topic.regex"]
    )
    topic: str = option(
        "outbox.event.${routedByValue}",
        help="the topic; ${name} and $1 stand for groups",
        aliases=["route.topic.replacement"],
    )
    tombstone_on_empty: bool = option(
        False, help="an empty payload becomes a record without a value", aliases=["route.tombstone.on.empty.payload"]
    )
    tracing_span_context_field: str = option("", help="not used", aliases=["tracing.span.context.field"], hidden=True)
    tracing_operation_name: str = option("", help="not used", aliases=["tracing.operation.name"], hidden=True)
    tracing_with_context_only: str = option(
        "", help="not used", aliases=["tracing.with.context.field.only"], hidden=True
    )


class Outbox(EventTransform):
    """Rows → messages."""

    type: ClassVar[str] = "outbox"
    options_class = OutboxOptions
    connect_names: ClassVar[Mapping[str, Mapping[str, str]]] = {"io.debezium.transforms.outbox.EventRouter": {}}
    options: OutboxOptions

    def __init__(self, options: OutboxOptions) -> None:
        self.options = options
        self.pattern = compiled(options.regex, "outbox: regex")
        self.template = replacement(options.topic, self.pattern, "outbox: topic")
        self.places = [_place(entry) for entry in options.place]

    def apply(self, events: Events) -> Iterable[Events]:
        if events.value is None:
            return []
        if events.side("after") is None:
            return [events]
        updated = events.letters == ord("u")
        if updated.any():
            self._unexpected(events, int(updated.sum()))
        inserted = np.isin(events.letters, [ord("c"), ord("r")])
        return self._messages(events.where(inserted)) if inserted.any() else []

    def _unexpected(self, events: Events, count: int) -> None:
        table = events.context.batch.table.table
        if self.options.on_update == "fatal":
            raise Stop(f"outbox: {table} was updated; an outbox table is only inserted into", "on_update: warn goes on")
        level = logging.ERROR if self.options.on_update == "error" else logging.WARNING
        LOG.log(level, "outbox: %d updates of %s are left out", count, table)

    def _messages(self, events: Events) -> Iterator[Events]:
        row = events.side("after")
        if row is None:
            raise TypeError(events.value)
        events = replace(
            events,
            headers=(
                *events.headers,
                ("id", self._need(events, row, self.options.id)),
                *self._placed(events, row, "header"),
            ),
            key=self._need(events, row, self.options.key),
            timestamp=self._timestamps(events, row),
            partition=self._partitions(events, row),
        )
        routes = shown(self._need(events, row, self.options.route_by))
        for route, group in self._by_route(events, routes):
            yield from self._valued(group, route)

    def _by_route(self, events: Events, routes: pa.StringArray) -> Iterator[tuple[str, Events]]:
        for route, group in events.by(routes):
            if route is None:
                raise Stop(f"outbox: {self.options.route_by!r} is null in {group.context.batch.table.table}: no topic")
            found = self.pattern.fullmatch(route)
            yield route, replace(group, topic=found.expand(self.template) if found else route)

    def _valued(self, events: Events, route: str) -> Iterator[Events]:
        """The payload as value; null and blank ones apart when they become tombstones."""
        row = events.side("after")
        if row is None:
            raise TypeError(events.value)
        if self.options.tombstone_on_empty:
            empty = _empty(self._need(events, row, self.options.payload))
            if empty.any():
                yield replace(events.where(empty), value=None, envelope=False)
            events = events.where(~empty)
            if not len(events):
                return
        row = events.side("after") or row
        version = self.options.schema_version
        labels = shown(self._need(events, row, version)) if version else pa.nulls(len(events), pa.string())
        for number, group in events.by(labels):
            yield from self._expanded(group, route, None if number is None else int(number))

    def _expanded(self, events: Events, route: str, version: int | None) -> Iterator[Events]:
        row = events.side("after")
        if row is None:
            raise TypeError(events.value)
        payload = self._need(events, row, self.options.payload)
        options = self.options
        if not options.expand_json or payload.schema.type != "string":
            yield self._message(events, row, payload, route, version)
            return
        nulls, empties = options.json_null == "optional_bytes", options.json_empty_array == "optional_string"
        for index, node in expanded(payload, options.payload, nulls=nulls, empty_arrays=empties):
            yield self._message(events.take(index), row.take(index), node, route, version)

    def _message(self, events: Events, row: Struct, payload: Node, route: str, version: int | None) -> Events:
        enveloped = list(self._placed(events, row, "envelope"))
        if not enveloped:
            return replace(events, value=payload, envelope=False)
        name = f"{row.name.rpartition('.')[0]}.{route}.Value"
        value = Struct(name, (("payload", payload), *enveloped), len(events), version=version)
        return replace(events, value=value, envelope=False)

    # -- columns -----------------------------------------------------------------------------------

    def _need(self, events: Events, row: Struct, column: str) -> Node:
        node = row.get(events.context.columns.get(column, column))
        if node is None:
            table = events.context.batch.table.table
            known = ", ".join(events.context.columns)
            raise Usage(
                f"outbox: {table} has no column {column!r}; it has {known}",
                f"if {table} is no outbox table, name the topic of the one that is: topics: .*\\.outbox",
            )
        return node

    def _placed(self, events: Events, row: Struct, place: str) -> Iterator[tuple[str, Node]]:
        for column, where, alias in self.places:
            if where != place:
                continue
            known = row.get(events.context.columns.get(column, column)) is not None
            if known or self.options.missing_column in ("error", "true"):
                yield alias, self._need(events, row, column)

    def _timestamps(self, events: Events, row: Struct) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        now = np.full(len(events), events.context.now, dtype=np.int64)
        if not self.options.timestamp:
            return now
        node = self._need(events, row, self.options.timestamp)
        divide = _MILLIS.get(node.schema.name or "")
        if divide is None:
            kind = node.schema.name or node.schema.type
            raise Usage(
                f"outbox: timestamp column {self.options.timestamp!r} is {kind}",
                "a timestamp without time zone is wanted",
            )
        text = node.values.to_arrow()
        given = longs_of(pc.fill_null(pc.cast(text, pa.int64()), 0)) // divide
        return np.where(node.is_null, now, given)

    def _partitions(self, events: Events, row: Struct) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
        for _, node in self._placed(events, row, "partition"):
            if node.schema.type not in ("int16", "int32"):
                raise Usage(f"outbox: a partition comes from an integer column, not {node.schema.type}")
            return longs_of(pc.fill_null(pc.cast(node.values.to_arrow(), pa.int64()), 0))
        return None


def _place(entry: str) -> tuple[str, str, str]:
    column, _, rest = entry.partition(":")
    place, _, alias = rest.partition(":")
    if not column or place not in PLACES:
        raise Usage(
            f"outbox: {entry!r} is no placement", "write column:header, column:envelope:alias or column:partition"
        )
    return column.strip(), place, alias.strip() or column.strip()


def _empty(payload: Node) -> Mask:
    blank = pc.equal(pc.utf8_trim_whitespace(shown(payload)), "")
    found = pc.fill_null(blank, True).to_numpy(zero_copy_only=False)
    return np.asarray(found | payload.is_null, dtype=bool)
