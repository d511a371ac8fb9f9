"""Tables whose events come without a schema: columns are what rows have named so far, typed by their first values.

A whole number is int64, one with a point or an exponent double, text string, true and false boolean; an object or
array is kept as JSON text. A column that has only been null is not there yet. A type stays what it was: a later value
of another kind is refused when it is decoded, never changed. `source.cast` says more than JSON can.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headwater.event import Column, TableSchema
from headwater.formats.connect import Schema
from headwater.sources.kafka import kernels
from headwater.sources.kafka.connect import schema_to_json
from headwater.sources.kafka.logical import lake_type
from headwater.sources.kafka.options import KafkaOptions
from headwater.sources.kafka.relation import declared, made_table, spelled
from headwater.sources.kafka.scan import Scan, scan
from headwater.sources.kafka.values import Bytes, Longs

_TYPES = {
    kernels.BOOLEAN: "boolean",
    kernels.INTEGER: "int64",
    kernels.FLOAT: "double",
    kernels.STRING: "string",
    kernels.ESCAPED: "string",
}


class Inference:
    """What is known of one topic's rows. `known` is how far another run got."""

    def __init__(
        self, topic: str, name: tuple[str, str], key: Sequence[str], options: KafkaOptions, known: TableSchema | None
    ) -> None:
        self._options = options
        self._name = ".".join(filter(None, name))
        # What the user says of a column holds also when it was known before.
        columns = [self._told(column.name) or column for column in (known.columns if known is not None else ())]
        self.table = made_table(topic, name, tuple(columns), key, {"form": "plain"}, options)
        self._key = tuple(key)

    def widen(self, data: Bytes, begins: Longs, finishes: Longs) -> Bytes:
        """Learn from these events; what became of each."""
        while True:
            names = [column.name for column in self.table.columns]
            status = scan(data, begins, finishes, names).status
            unknown = np.flatnonzero(status == kernels.UNKNOWN)
            if not unknown.size:
                return status
            first = int(unknown[0])
            new = _new_names(data[begins[first] : finishes[first]].tobytes(), names)
            if not new:
                # A name that is spelled with other escapes than it was: left as unknown.
                return status
            self._add(new, scan(data, begins, finishes, [*names, *new]))

    def _add(self, names: Sequence[str], found: Scan) -> None:
        """Columns that stand last in what was found."""
        typed = []
        for place, name in enumerate(names, found.columns - len(names)):
            kinds = [found.kinds(part)[place] for part in (kernels.BEFORE, kernels.AFTER)]
            typed.append(self._column(name, {int(kind) for kind in np.unique(kinds) if kind > kernels.NULL}))
        columns = (*self.table.columns, *typed)
        key = self._key if {column.name for column in columns}.issuperset(self._key) else ()
        self.table = replace(self.table, columns=columns, key=key, identity=key)

    def _told(self, name: str) -> Column | None:
        cast = self._options.cast.get(f"{self._name}.{name}")
        if cast is None:
            return None
        schema = declared(f"{self._name}.{name}", cast)
        detail = {"connect": schema_to_json(schema), **({"cast": cast} if cast == "string" else {})}
        return Column(name, spelled(schema), lake_type(schema), detail=detail)

    def _column(self, name: str, kinds: set[int]) -> Column:
        if (told := self._told(name)) is not None:
            return told
        if kernels.NESTED in kinds:
            text = Schema("string", optional=True)
            return Column(name, "JSON", lake_type(text), detail={"connect": schema_to_json(text), "nested": True})
        # Of whole numbers and others, the one that holds both.
        schema = Schema(_TYPES[kernels.FLOAT if kernels.FLOAT in kinds else min(kinds)], optional=True)
        return Column(name, schema.type, lake_type(schema), detail={"connect": schema_to_json(schema)})


def _new_names(event: bytes, known: Sequence[str]) -> list[str]:
    """Columns of one event that have a value and that nobody has named yet, in its order."""
    read = json.loads(event)
    rows = [row for row in (read.get("after"), read.get("before")) if isinstance(row, dict)]
    named = (name for row in rows for name, value in row.items() if value is not None)
    return [name for name in dict.fromkeys(named) if name not in set(known)]
