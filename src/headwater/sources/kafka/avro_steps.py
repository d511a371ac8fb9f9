"""An Avro schema of events compiled to the steps of `avro_kernels.walk_records`: which value goes into which slot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.formats.text import NONE, Text
from headwater.sources.kafka import avro_kernels as kernels
from headwater.sources.kafka.scan import SOURCE_FIELDS
from headwater.sources.kafka.values import Bytes, Longs

PARTS = ("before", "after")


@dataclass(frozen=True)
class Steps:
    """What to do for one record; the schemas of values that have parts of their own, by slot."""

    steps: npt.NDArray[np.int32]
    columns: int
    nested: Mapping[int, Any]

    @property
    def slots(self) -> int:
        return 2 * (self.columns + 1) + len(SOURCE_FIELDS) + 1

    def part(self, part: int) -> int:
        """The slot that says whether a row is there; those of its columns follow."""
        return part * (self.columns + 1)

    def source(self, field: str) -> int:
        return 2 * (self.columns + 1) + SOURCE_FIELDS.index(field)

    @property
    def op(self) -> int:
        return self.slots - 1


@dataclass(frozen=True)
class Walk:
    """Parallel arrays by slot, then by record."""

    data: Bytes
    start: npt.NDArray[np.int64]
    size: npt.NDArray[np.int32]
    number: npt.NDArray[np.int64]
    kind: npt.NDArray[np.uint8]
    # The first record that does not fit its schema; -1: they all do.
    damaged: int

    def array(self, slot: int, rows: Longs, kind: pa.DataType) -> pa.Array:
        """The values of some records. Raises ValueError for what is none of the kind."""
        missing = self.kind[slot][rows] != kernels.PRESENT
        if missing.all():
            return pa.nulls(rows.size, kind)
        start = np.where(missing, 0, self.start[slot][rows])
        if pa.types.is_boolean(kind):
            return pa.array(self.number[slot][rows] != 0, kind, mask=missing)
        if pa.types.is_integer(kind):
            return pa.array(self.number[slot][rows], pa.int64(), mask=missing).cast(kind)
        if pa.types.is_floating(kind):
            width = kind.bit_width // 8
            raw = np.ascontiguousarray(self.data[start[:, None] + np.arange(width)])
            return pa.array(raw.view(f"<f{width}").reshape(-1), kind, mask=missing)
        end = start + np.where(missing, 0, self.size[slot][rows])
        text = Text(self.data, start, end, missing.astype(np.uint8) if missing.any() else NONE).to_arrow()
        if pa.types.is_binary(kind):
            return text.view(pa.binary())
        text.validate(full=True)
        return text

    def pieces(self, slot: int, rows: Longs) -> list[bytes | None]:
        """The bytes of values that have parts of their own."""
        bounds = zip(
            self.kind[slot][rows].tolist(), self.start[slot][rows].tolist(), self.size[slot][rows].tolist(), strict=True
        )
        return [self.data[at : at + size].tobytes() if k == kernels.PRESENT else None for k, at, size in bounds]


def walk(steps: Steps, data: Bytes, begins: Longs, finishes: Longs) -> Walk:
    """Records in data[begins[i]:finishes[i]]."""
    shape = (steps.slots, begins.size)
    start, size, number = np.zeros(shape, np.int64), np.zeros(shape, np.int32), np.zeros(shape, np.int64)
    kind = np.zeros(shape, np.uint8)
    bad = kernels.walk_records(data, begins, finishes, steps.steps, start, size, number, kind)
    return Walk(data, start, size, number, kind, bad)


def compiled(writer: Mapping[str, Any], columns: Sequence[str]) -> Steps:
    """The steps for events of a table with these columns."""
    return _compiled(json.dumps(writer), tuple(columns))


@lru_cache(maxsize=256)
def _compiled(text: str, columns: tuple[str, ...]) -> Steps:
    from fastavro import parse_schema

    # Names are whole names behind this.
    return _Compiler(columns).steps(parse_schema(json.loads(text), named_schemas={}))


class _Compiler:
    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns
        self._steps: list[list[int]] = []
        self._nested: dict[int, Any] = {}
        self._named: dict[str, Any] = {}

    def steps(self, writer: Any) -> Steps:
        made = Steps(np.zeros((0, 5), np.int32), len(self._columns), self._nested)
        self._learn(writer)
        for field in writer["fields"]:
            name, node = field["name"], field["type"]
            if name in PARTS:
                first = made.part(PARTS.index(name))
                slots = {column: first + 1 + place for place, column in enumerate(self._columns)}
                self._part(node, slots, first, first + 1 + len(self._columns))
            elif name == "source":
                slots = {each: made.source(each) for each in SOURCE_FIELDS}
                self._part(node, slots, -1, -1)
            else:
                self._value(node, made.op if name == "op" else -1)
        return Steps(np.array(self._steps, dtype=np.int32).reshape(-1, 5), made.columns, self._nested)

    def _part(self, node: Any, slots: Mapping[str, int], first: int, behind: int) -> None:
        """A record whose fields have slots; the first slot says that it is there."""
        inner, null = self._branches(node)
        union = self._union(first, null, behind)
        self._add(kernels.OPEN, first)
        for field in self._resolved(inner)["fields"]:
            self._value(field["type"], slots.get(field["name"], -1))
        self._add(kernels.CLOSE, first)
        self._end_union(union)

    def _value(self, node: Any, slot: int) -> None:
        inner, null = self._branches(node)
        union = self._union(slot, null, slot + 1)
        self._plain(self._resolved(inner), slot)
        self._end_union(union)

    def _plain(self, node: Any, slot: int) -> None:
        kind = node["type"] if isinstance(node, dict) else node
        match kind:
            case "int" | "long":
                self._add(kernels.NUMBER, slot)
            case "boolean":
                self._add(kernels.BOOLEAN, slot)
            case "string" | "bytes":
                self._add(kernels.SIZED, slot)
            case "float" | "double":
                self._add(kernels.FIXED, slot, 4 if kind == "float" else 8)
            case "fixed":
                self._add(kernels.FIXED, slot, node["size"])
            case "null":
                pass
            case "enum":
                # Its number says nothing by itself.
                self._whole(slot, node, lambda: self._add(kernels.NUMBER, -1))
            case "record":
                self._whole(slot, node, lambda: self._fields(node["fields"]))
            case "array":
                self._whole(slot, node, lambda: self._loop(lambda: self._value(node["items"], -1)))
            case "map":
                self._whole(slot, node, lambda: self._loop(lambda: self._entry(node["values"])))
            case dict():
                self._plain(kind, slot)
            case _:
                raise ValueError(f"an Avro schema with a type that is not known: {kind!r}")

    def _fields(self, fields: Sequence[Any]) -> None:
        for field in fields:
            self._value(field["type"], -1)

    def _entry(self, values: Any) -> None:
        self._add(kernels.SIZED, -1)
        self._value(values, -1)

    def _whole(self, slot: int, node: Any, inside: Any) -> None:
        """A value of many parts: where it begins and ends is enough."""
        if slot >= 0:
            self._nested[slot] = self._expanded(node, set())
        self._add(kernels.OPEN, slot)
        inside()
        self._add(kernels.CLOSE, slot)

    def _loop(self, item: Any) -> None:
        loop = self._add(kernels.LOOP, -1)
        first = len(self._steps)
        item()
        self._add(kernels.NEXT, -1, first)
        self._steps[loop][2] = len(self._steps)

    def _add(self, what: int, slot: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        self._steps.append([what, slot, a, b, c])
        return len(self._steps) - 1

    def _union(self, slot: int, null: int | None, behind: int) -> int | None:
        return None if null is None else self._add(kernels.UNION, slot, null, 0, behind if slot >= 0 else slot)

    def _end_union(self, union: int | None) -> None:
        if union is not None:
            self._steps[union][3] = len(self._steps)

    # -- schemas -----------------------------------------------------------------------------------

    def _branches(self, node: Any) -> tuple[Any, int | None]:
        """What a value is when it is not null, and which branch of its union null is."""
        if not isinstance(node, list):
            return node, None
        (inner,) = [branch for branch in node if branch != "null"] or ["null"]
        return inner, node.index("null") if "null" in node else -1

    def _resolved(self, node: Any) -> Any:
        return self._named.get(node, node) if isinstance(node, str) else node

    def _learn(self, node: Any) -> None:
        match node:
            case list():
                for branch in node:
                    self._learn(branch)
            case {"type": "record", "name": name, "fields": fields}:
                self._named[name] = node
                for field in fields:
                    self._learn(field["type"])
            case {"type": "enum" | "fixed", "name": name}:
                self._named[name] = node
            case {"type": "array", "items": inner} | {"type": "map", "values": inner} | {"type": inner}:
                self._learn(inner)

    def _expanded(self, node: Any, spelled: set[str]) -> Any:
        """A schema by itself: names that are spelled out elsewhere are spelled out here."""
        if isinstance(node, str) and node in self._named and node not in spelled:
            return self._expanded(self._named[node], spelled)
        match node:
            case list():
                return [self._expanded(branch, spelled) for branch in node]
            case {"type": "record", "name": name, "fields": fields}:
                spelled.add(name)
                inner = [{**field, "type": self._expanded(field["type"], spelled)} for field in fields]
                return {"type": "record", "name": name, "fields": inner}
            case {"type": "array", "items": items}:
                return {"type": "array", "items": self._expanded(items, spelled)}
            case {"type": "map", "values": values}:
                return {"type": "map", "values": self._expanded(values, spelled)}
        return node
