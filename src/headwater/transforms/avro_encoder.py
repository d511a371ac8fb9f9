"""Changes → groups of events → transforms → Avro in Confluent's wire format. `encoder.py` does the same as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from headwater.errors import Unrepresentable
from headwater.formats import kernels
from headwater.formats.avro import Part, constant_avro, joined, leaf_avro
from headwater.formats.avro_plain import encode_text
from headwater.formats.connect import Schema
from headwater.formats.connector import Connector, Run
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.debezium_records import Record
from headwater.formats.record import HEADERS, Encoded
from headwater.formats.schema_registry import SchemaRegistry
from headwater.formats.text import NONE, Bytes, Mask, Text
from headwater.transforms.base import EventTransform
from headwater.transforms.encoder import ROUTED, TransformingEncoder
from headwater.transforms.events_model import Events, Leaf, Node

BINARY = pa.schema([field.with_type(pa.binary()) if field.name in ("key", "value") else field for field in ROUTED])


class AvroEncoder(TransformingEncoder):
    """One instance per thread. Subjects are `<topic>-key` and `<topic>-value`."""

    schema = BINARY

    def __init__(
        self,
        options: DebeziumOptions,
        connector: Connector,
        transforms: Sequence[EventTransform],
        registry: SchemaRegistry,
        run: Run | None = None,
    ) -> None:
        # Names that Avro does not allow would be refused by the registry; those that it does stay as they are.
        schemas, fields = (
            "avro" if mode == "none" else mode
            for mode in (options.schema_name_adjustment, options.field_name_adjustment)
        )
        fitting = replace(options, schemas_enable=False, schema_name_adjustment=schemas, field_name_adjustment=fields)
        super().__init__(fitting, connector, transforms, run)
        self._registry = registry

    def records(self, made: Sequence[Record]) -> Encoded:
        count = len(made)
        arrays = [
            pa.array([record.topic for record in made], pa.string()),
            pa.array([self._one(record.topic, "key", record.key_schema, record.key) for record in made], pa.binary()),
            pa.array(
                [self._one(record.topic, "value", record.value_schema, record.value) for record in made], pa.binary()
            ),
            pa.nulls(count, HEADERS),
            pa.array(range(count), pa.int64()),
            pa.nulls(count, pa.int32()),
            pa.nulls(count, pa.int64()),
        ]
        return Encoded((pa.RecordBatch.from_arrays(arrays, schema=self.schema),) if count else ())

    def _one(self, topic: str, side: str, schema: Schema, text: str) -> bytes:
        return self._head(topic, side, schema) + encode_text(schema, text)

    def _head(self, topic: str, side: str, schema: Schema) -> bytes:
        """What stands before every record: where readers find its schema."""
        return b"\x00" + self._registry.id(f"{topic}-{side}", schema).to_bytes(4, "big")

    def written(self, group: Events) -> tuple[pa.Array, pa.Array]:
        return self._side(group.key, group, "key"), self._side(group.value, group, "value")

    def _side(self, node: Node | None, group: Events, side: str) -> pa.Array:
        rows = len(group)
        if node is None:
            return pa.nulls(rows, pa.binary())
        return binary_array(joined([node_avro(node, rows)], rows, self._head(group.topic, side, node.schema)))


def node_avro(node: Node, rows: int, gone: Mask | None = None) -> Part:
    """A tree of columns as one column of Avro, and what stands for null; of the rows under `gone` nothing is used."""
    if isinstance(node, Leaf):
        values = leaf_avro(node.schema, node.values)
        if not values.state.size:
            return values, NONE, NONE
        null = _instead(node, node.missing, node.values.rows(kernels.NULL), gone)
        return values, null, _instead(node, node.unavailable, node.values.rows(kernels.UNAVAILABLE), gone)
    absent = node.is_null if gone is None else node.is_null | gone
    fields = [node_avro(part, rows, absent) for _, part in node.fields]
    text = joined(fields, rows, b"\x02" if node.optional else b"")
    nothing = np.zeros(1, dtype=np.uint8)
    return text.with_state(node.state), nothing, nothing


def _instead(node: Leaf, text: str, where: Mask, gone: Mask | None) -> Bytes:
    """What stands for values that are not there. A field that must have one and has none has no form in Avro."""
    if text != "null" or node.schema.optional:
        return constant_avro(node.schema, text)
    if (where if gone is None else where & ~gone).any():
        raise Unrepresentable(f"a required field of type {node.schema.type} has no value, which Avro cannot say")
    return NONE


def binary_array(text: Text) -> pa.BinaryArray:
    """Rows that lie end to end, as Arrow's bytes."""
    offsets = np.append(text.begins, text.ends[-1:]).astype(np.int32)
    return pa.BinaryArray.from_buffers(pa.binary(), len(text), [None, pa.py_buffer(offsets), pa.py_buffer(text.data)])
