"""Events that are not yet text: key, value and headers as trees of columns, for transforms to rebuild.

A group of events has one topic, one schema and the same headers, so that everything stays columnar; a transform that
tells records apart gives several groups. `encoder.py` makes groups from changes and text from groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.event import ChangeBatch
from headwater.formats import kernels
from headwater.formats.connect import STRING, Schema, quote, struct
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.row import RowForm
from headwater.formats.text import NONE, Bytes, Longs, Mask, Slot, Template, Text, literal


@dataclass(frozen=True)
class Leaf:
    """A column of values in JSON."""

    schema: Schema
    values: Text
    # What stands for null, and for a value that the log left out.
    missing: str = "null"
    unavailable: str = "null"

    def take(self, index: Longs) -> Leaf:
        return replace(self, values=self.values.take(index))

    def slot(self, before: str) -> Slot:
        return Slot(before, self.missing, self.unavailable)

    def renamed(self, names: Callable[[str], str]) -> Leaf:
        """The same under another schema name; only structs of ours have one that follows the topic."""
        return self

    @cached_property
    def is_null(self) -> Mask:
        """Rows without a value, whatever stands for it."""
        return self.values.rows(kernels.NULL)


@dataclass(frozen=True)
class Struct:
    """Fields side by side."""

    name: str
    fields: tuple[tuple[str, Node], ...]
    rows: int
    optional: bool = False
    version: int | None = None
    # Rows in which the whole struct is null.
    state: Bytes = field(default_factory=lambda: NONE)

    @cached_property
    def schema(self) -> Schema:
        members = [(name, node.schema) for name, node in self.fields]
        return struct(self.name, members, optional=self.optional, version=self.version)

    @cached_property
    def values(self) -> Text:
        slots = []
        for i, (name, node) in enumerate(self.fields):
            slots.append(node.slot(("{" if i == 0 else ",") + quote(name) + ":"))
        template = Template(tuple(slots), "}" if slots else "{}")
        return template.fill([node.values for _, node in self.fields], self.rows).with_state(self.state)

    def slot(self, before: str) -> Slot:
        return Slot(before)

    def take(self, index: Longs) -> Struct:
        state = self.state[index] if self.state.size else NONE
        fields = tuple((name, node.take(index)) for name, node in self.fields)
        return Struct(self.name, fields, len(index), self.optional, self.version, state)

    def get(self, name: str) -> Node | None:
        return next((node for known, node in self.fields if known == name), None)

    def with_field(self, name: str, node: Node) -> Struct:
        """One more field at the end, or another value in its place."""
        if self.get(name) is None:
            return replace(self, fields=(*self.fields, (name, node)))
        return replace(self, fields=tuple((known, node if known == name else old) for known, old in self.fields))

    def without(self, names: Sequence[str]) -> Struct:
        return replace(self, fields=tuple(pair for pair in self.fields if pair[0] not in names))

    def renamed(self, names: Callable[[str], str]) -> Struct:
        fields = tuple((name, node.renamed(names)) for name, node in self.fields)
        return replace(self, name=names(self.name), fields=fields)

    @cached_property
    def is_null(self) -> Mask:
        return self.state == kernels.NULL if self.state.size else np.zeros(self.rows, dtype=bool)


Node = Leaf | Struct


def row_struct(form: RowForm, rows: pa.StructArray, unchanged: Any, name: str) -> Struct:
    """A table's rows as a struct of leaves."""
    fields = tuple(
        (one.name, Leaf(one.schema, text, one.missing, one.unavailable or one.missing))
        for one, text in zip(form.columns, form.texts(rows, unchanged), strict=True)
    )
    state = pa.compute.is_null(rows).to_numpy(zero_copy_only=False).astype(np.uint8) if rows.null_count else NONE
    return Struct(name, fields, len(rows), optional=True, state=state)


def constant(text: str, rows: int, schema: Schema = STRING) -> Leaf:
    """The same JSON text in every row."""
    data = literal(text)
    return Leaf(schema, Text(data, np.zeros(rows, dtype=np.int64), np.full(rows, len(data), dtype=np.int64)))


@dataclass(frozen=True)
class Context:
    """What the groups of one block have in common."""

    batch: ChangeBatch
    options: DebeziumOptions
    database: str
    # When the events are made, milliseconds since the epoch.
    now: int
    # Columns of the table → names of their fields.
    columns: dict[str, str]


@dataclass(frozen=True)
class Events:
    """A group of events under one topic and one schema."""

    context: Context
    topic: str
    key: Node | None
    # None: tombstones.
    value: Node | None
    headers: tuple[tuple[str, Node], ...]
    # The row of the block that each event comes from, and its place among the block's events.
    change: Longs
    order: Longs
    # The operation of each event: of a split update, its halves'.
    letters: Bytes
    # Whether the value is still Debezium's envelope.
    envelope: bool = True
    partition: Longs | None = None
    # Record timestamps, milliseconds since the epoch; None: when the event was made.
    timestamp: Longs | None = None

    def __len__(self) -> int:
        return len(self.change)

    def take(self, index: Longs) -> Events:
        """Some of the events, by number."""
        return replace(
            self,
            key=None if self.key is None else self.key.take(index),
            value=None if self.value is None else self.value.take(index),
            headers=tuple((name, node.take(index)) for name, node in self.headers),
            change=self.change[index],
            order=self.order[index],
            letters=self.letters[index],
            partition=None if self.partition is None else self.partition[index],
            timestamp=None if self.timestamp is None else self.timestamp[index],
        )

    def where(self, mask: Mask) -> Events:
        """The events under a mask."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def by(self, labels: pa.Array) -> list[tuple[Any, Events]]:
        """One group per distinct label; null is a label too."""
        codes = labels.dictionary_encode(null_encoding="encode")
        indices = codes.indices.to_numpy(zero_copy_only=False)
        if len(codes.dictionary) == 1:
            return [(codes.dictionary[0].as_py(), self)]
        return [
            (label, self.take(np.flatnonzero(indices == code)))
            for code, label in enumerate(codes.dictionary.to_pylist())
        ]

    def side(self, name: str) -> Struct | None:
        """`before` or `after` of an envelope."""
        if not self.envelope or not isinstance(self.value, Struct):
            return None
        node = self.value.get(name)
        return node if isinstance(node, Struct) else None

    def deletes(self) -> Mask:
        return np.asarray(self.letters == ord("d"))
