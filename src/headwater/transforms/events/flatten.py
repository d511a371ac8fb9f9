"""`flatten`: the row itself instead of the envelope (Debezium's ExtractNewRecordState), with facts beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from headwater.errors import Usage
from headwater.formats import kernels
from headwater.formats.connect import STRING
from headwater.options import option
from headwater.transforms.base import EventOptions, EventTransform
from headwater.transforms.draft import choose
from headwater.transforms.events_model import Events, Leaf, Node, Struct, constant
from headwater.transforms.plain_text import shown

DELETED = "__deleted"
_TRANSACTION = ("id", "total_order", "data_collection_order")
_ENVELOPE = ("op", "ts_ms", "ts_us", "ts_ns")


@dataclass(frozen=True, kw_only=True)
class FlattenOptions(EventOptions):
    """What a user may say about flat events."""

    deletes: str = option(
        "tombstone",
        help="a delete becomes: nothing (drop), null (tombstone: with its schema, delete-to-tombstone: without), or the"
        " old row with __deleted (rewrite; rewrite-with-tombstone keeps the tombstone behind it)",
        aliases=["delete.tombstone.handling.mode"],
        choices=["drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone"],
    )
    add_fields: list[str] = option(
        [],
        help="facts to add to the row: op, ts_ms, lsn, source.ts_ms, transaction.id, field:new name, …",
        aliases=["add.fields"],
    )
    add_fields_prefix: str = option("__", help="before the names of added fields", aliases=["add.fields.prefix"])
    add_headers: list[str] = option([], help="facts to add as headers", aliases=["add.headers"])
    add_headers_prefix: str = option("__", help="before the names of added headers", aliases=["add.headers.prefix"])
    route_by_field: str = option("", help="column whose value becomes the topic", aliases=["route.by.field"])
    drop_fields_header: str = option(
        "", help="header that lists columns to leave out", aliases=["drop.fields.header.name"]
    )
    drop_fields_from_key: bool = option(False, help="of the key too", aliases=["drop.fields.from.key"])
    drop_fields_keep_compatible: bool = option(
        True, help="leave out optional columns only", aliases=["drop.fields.keep.schema.compatible"]
    )
    replace_null_with_default: bool = option(
        True, help="a null in a column with a default is written as the default", aliases=["replace.null.with.default"]
    )


class Flatten(EventTransform):
    """Envelope → row."""

    type: ClassVar[str] = "flatten"
    options_class = FlattenOptions
    connect_names: ClassVar[Mapping[str, Mapping[str, str]]] = {"io.debezium.transforms.ExtractNewRecordState": {}}
    options: FlattenOptions

    def __init__(self, options: FlattenOptions) -> None:
        self.options = options

    @property
    def _rewrites(self) -> bool:
        return self.options.deletes.startswith("rewrite")

    def apply(self, events: Events) -> Iterable[Events]:
        if events.value is None:
            return self._tombstones(events)
        value = events.value
        if not events.envelope or not isinstance(value, Struct):
            return [events]
        events = events.where(events.letters != ord("t"))
        if not len(events):
            return []
        return self._envelopes(events)

    def _tombstones(self, events: Events) -> list[Events]:
        """The tombstones that came with the deletes."""
        if self.options.deletes != "rewrite-with-tombstone":
            return []
        # A tombstone has nothing to take facts from, but it is a delete.
        names = [
            name
            for name, path in self._facts(self.options.add_headers, self.options.add_headers_prefix)
            if path == "op"
        ]
        more = tuple((name, constant('"d"', len(events))) for name in names)
        return [replace(events, headers=(*events.headers, *more))]

    def _envelopes(self, events: Events) -> Iterator[Events]:
        envelope = events.value
        if not isinstance(envelope, Struct):
            raise TypeError(envelope)
        headers = tuple(self._found(envelope, self.options.add_headers, self.options.add_headers_prefix))
        events = replace(events, headers=(*events.headers, *headers))
        deleted = events.deletes()
        kept = np.ones(len(events), dtype=bool) if self._rewrites else ~deleted
        if kept.any():
            yield from self._routed(self._rows(events.where(kept)))
        if deleted.any() and not self._rewrites and self.options.deletes != "drop":
            yield from self._routed(self._buried(events.where(deleted)))

    def _rows(self, events: Events) -> tuple[Events, Struct]:
        """(events with the row as value, the row)."""
        envelope = events.value
        before, after = events.side("before"), events.side("after")
        if not isinstance(envelope, Struct) or before is None or after is None:
            raise TypeError(envelope)
        deleted = events.deletes()
        row = choose(deleted, after, before)
        if not isinstance(row, Struct):
            raise TypeError(row)
        row = replace(row, optional=False, state=np.empty(0, dtype=np.uint8))
        if not self.options.replace_null_with_default:
            row = replace(row, fields=tuple((name, _honest(node)) for name, node in row.fields))
        source_row = row
        if self._rewrites:
            row = row.with_field(DELETED, _yes_no(deleted))
        for name, node in self._found(envelope, self.options.add_fields, self.options.add_fields_prefix):
            row = row.with_field(name, node)
        return replace(events, value=row, envelope=False), source_row

    def _buried(self, events: Events) -> tuple[Events, Struct]:
        """Deletes without a value."""
        before = events.side("before")
        if before is None:
            raise TypeError(events.value)
        if self.options.deletes == "delete-to-tombstone":
            return replace(events, value=None, envelope=False), before
        nothing = replace(before, state=np.full(len(events), kernels.NULL, dtype=np.uint8))
        return replace(events, value=nothing, envelope=False), before

    # -- facts -------------------------------------------------------------------------------------

    def _facts(self, listed: list[str], prefix: str) -> Iterator[tuple[str, str]]:
        """(name in the event, path in the envelope)."""
        for entry in listed:
            path, _, new = entry.partition(":")
            yield prefix + (new or path.replace(".", "_")), path

    def _found(self, envelope: Struct, listed: list[str], prefix: str) -> Iterator[tuple[str, Node]]:
        for name, path in self._facts(listed, prefix):
            node = _resolve(envelope, path)
            if node is None:
                raise Usage(
                    f"flatten: there is no field {path!r} in events", "for example op, ts_ms, lsn, source.ts_ms"
                )
            yield name, _optional(node)

    # -- topic and columns -------------------------------------------------------------------------

    def _routed(self, made: tuple[Events, Struct]) -> Iterator[Events]:
        events, row = made
        field = self.options.route_by_field
        if not field:
            yield from self._dropped(events)
            return
        node = row.get(events.context.columns.get(field, field))
        if node is None:
            raise Usage(f"flatten: route.by.field: {events.context.batch.table.table} has no column {field!r}")
        for topic, group in events.by(shown(node)):
            yield from self._dropped(replace(group, topic=topic or group.topic))

    def _dropped(self, events: Events) -> Iterator[Events]:
        header = self.options.drop_fields_header
        node = next((node for name, node in events.headers if name == header), None) if header else None
        if node is None or events.value is None:
            yield events
            return
        # What a delete became without a row stays as it is, key and schema.
        gone = events.value.is_null
        if gone.any():
            yield events.where(gone)
            yield from () if gone.all() else self._dropped(events.where(~gone))
            return
        for listed, group in events.by(node.values.to_arrow()):
            names = [] if listed is None else json.loads(listed)
            key = self._without(group.key, names) if self.options.drop_fields_from_key else group.key
            yield replace(group, key=key, value=self._without(group.value, names))

    def _without(self, node: Node | None, names: list[str]) -> Node | None:
        if not isinstance(node, Struct):
            return node
        compatible = self.options.drop_fields_keep_compatible
        gone = [name for name, inner in node.fields if name in names and (inner.schema.optional or not compatible)]
        return node.without(gone)


def _resolve(envelope: Struct, path: str) -> Node | None:
    """A field of the envelope: named whole, or by the short names that Debezium knows."""
    block, dot, name = path.partition(".")
    if dot:
        inner = envelope.get(block)
        return inner.get(name) if isinstance(inner, Struct) else None
    if path in _ENVELOPE:
        return envelope.get(path)
    home = envelope.get("transaction" if path in _TRANSACTION else "source")
    return home.get(path) if isinstance(home, Struct) else None


def _optional(node: Node) -> Node:
    return replace(node, optional=True) if isinstance(node, Struct) else replace(node, schema=node.schema.as_optional())


def _honest(node: Node) -> Node:
    """Null stays null where the schema allows it."""
    return replace(node, missing="null") if isinstance(node, Leaf) and node.schema.optional else node


def _yes_no(deleted: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Node:
    rows = len(deleted)
    schema = STRING.as_optional()
    return choose(deleted, constant('"false"', rows, schema), constant('"true"', rows, schema))
