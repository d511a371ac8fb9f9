"""Avro by columns: each kernel beside its twin, and what an independent reader (fastavro) makes of whole events."""

from __future__ import annotations

import base64
import io
import json
import math
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.formats.avro import leaf_avro
from headwater.formats.avro_plain import encode_plain, encode_text
from headwater.formats.avro_schema import avro_schema
from headwater.formats.connect import BOOLEAN, BYTES, FLOAT64, INT32, INT64, STRING, Schema, quote, struct
from headwater.formats.connector import Moment
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.text import Text
from headwater.sources.postgres.debezium import PostgresConnector
from headwater.transforms.avro_encoder import AvroEncoder

from .change_builder import NOW, ORDERS, batch, change, order

FLOAT32 = Schema("float")
ARRAY = Schema("array", items=STRING.as_optional())
MAP = Schema("map", keys=STRING, values=INT32)


def by_column(schema: Schema, texts: list[str]) -> list[bytes]:
    column = leaf_avro(schema, Text.from_arrow(pa.array(texts, pa.string())))
    return [column.data[b:e].tobytes() for b, e in zip(column.begins, column.ends, strict=True)]


def held_to_twin(schema: Schema, texts: list[str]) -> None:
    for each in (schema, schema.as_optional()):
        assert by_column(each, texts) == [encode_text(each, text) for text in texts]


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)))
def test_whole_numbers(values: list[int]) -> None:
    held_to_twin(INT64, [str(value) for value in values])


@given(st.lists(st.text()))
def test_texts(values: list[str]) -> None:
    held_to_twin(STRING, [quote(value) for value in values])
    held_to_twin(STRING, [json.dumps(value) for value in values])


@given(st.lists(st.binary()))
def test_bytes(values: list[bytes]) -> None:
    held_to_twin(BYTES, [quote(base64.b64encode(value).decode()) for value in values])


@given(st.lists(st.floats(allow_nan=False)))
def test_doubles(values: list[float]) -> None:
    special = {math.inf: '"Infinity"', -math.inf: '"-Infinity"'}
    held_to_twin(FLOAT64, [special.get(value, repr(value)) for value in values])


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_floats(values: list[float]) -> None:
    held_to_twin(FLOAT32, [str(np.float32(value)) for value in values])


def test_the_rest() -> None:
    held_to_twin(BOOLEAN, ["true", "false"])
    held_to_twin(FLOAT64, ['"NaN"'])
    held_to_twin(ARRAY, ['["a",null,"ü"]', "[]"])
    held_to_twin(MAP, ['{"a":1,"b":-2}', "{}"])
    held_to_twin(STRING, ['"' + "\\n" * 100 + '"'])


def test_a_default_stands_for_null_and_comes_first_in_its_union() -> None:
    schema = Schema("int32", optional=True, default="7")

    assert avro_schema(struct("a.B", [("x", schema)]))["fields"] == [
        {"name": "x", "type": [{"type": "int", "connect.default": 7}, "null"], "default": 7}
    ]
    assert encode_plain(schema, None) == b"\x02"
    assert encode_plain(schema, 1) == b"\x00\x02"


class Registry:
    """Hands out numbers; the real one is in tests/contract."""

    def __init__(self) -> None:
        self.schemas: list[tuple[str, Schema]] = []

    def id(self, subject: str, schema: Schema) -> int:
        if (subject, schema) not in self.schemas:
            self.schemas.append((subject, schema))
        return self.schemas.index((subject, schema))


def read(data: bytes | None, registry: Registry) -> Any:
    if data is None:
        return None
    assert data[0] == 0
    stream = io.BytesIO(data[5:])
    found = fastavro.schemaless_reader(stream, avro_schema(registry.schemas[int.from_bytes(data[1:5], "big")][1]))
    assert not stream.read()
    return found


@pytest.mark.parametrize("options", [{}, {"decimal_handling_mode": "string", "time_precision_mode": "connect"}])
def test_events_are_read_back_as_their_json_says(options: dict[str, str]) -> None:
    registry = Registry()
    chosen = DebeziumOptions(topic_prefix="srv", **options)  # type: ignore[arg-type]
    changes = batch(
        [
            change("c", order(1)),
            change("u", order(2, name=None, price=None), {**dict.fromkeys(order(0)), "id": 3}),
            change("u", order(1, name=None), unchanged=["name"]),
            change("d", None, {**dict.fromkeys(order(0)), "id": 1}),
        ],
        ORDERS,
    )

    records = AvroEncoder(chosen, PostgresConnector("db1"), (), registry).encode(changes, Moment(now=NOW))  # type: ignore[arg-type]

    events = [(read(record["key"], registry), read(record["value"], registry)) for record in records]  # type: ignore[arg-type]
    assert [(key["id"], value and value["op"]) for key, value in events] == [
        (1, "c"),
        (3, "d"),
        (3, None),
        (2, "c"),
        (1, "u"),
        (1, "d"),
        (1, None),
    ]
    first = events[0][1]
    assert (first["after"]["name"], first["after"]["count"], first["before"]) == ("order 1", 7, None)
    assert str(first["after"]["price"]) == "1.10"
    assert first["source"]["connector"] == "postgresql"
    assert events[3][1]["after"]["name"] is None
    assert events[4][1]["after"]["name"] == chosen.unavailable_value_placeholder
    assert {subject for subject, _ in registry.schemas} == {"srv.public.orders-key", "srv.public.orders-value"}


def test_a_record_is_named_shortly_inside_its_own_namespace_and_in_full_outside() -> None:
    inner = struct("shop.Value", [("id", INT64)])
    other = struct("elsewhere.Block", [("row", inner), ("entries", Schema("map", keys=INT32, values=FLOAT64))])

    found = avro_schema(struct("shop.Envelope", [("before", inner), ("after", inner), ("a", other), ("b", other)]))

    before, after, a, b = (field["type"] for field in found["fields"])
    assert (found["namespace"], before["name"], "namespace" in before, after) == ("shop", "Value", False, "Value")
    assert (a["namespace"], a["fields"][0]["type"], b) == ("elsewhere", "shop.Value", "elsewhere.Block")
    assert fastavro.parse_schema(found)
