"""The kernel that walks over Avro, against fastavro: every value of random records, and every way to break one."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from headwater.sources.kafka import avro_kernels
from headwater.sources.kafka.avro import read_records
from headwater.sources.kafka.avro_steps import Walk, compiled, walk

DECIMAL = {"type": "record", "name": "Dec", "fields": [{"name": "s", "type": "int"}, {"name": "v", "type": "bytes"}]}
TYPES: dict[str, tuple[Any, pa.DataType | None]] = {
    "id": ("long", pa.int64()),
    "flag": (["null", "boolean"], pa.bool_()),
    "small": ([{"type": "int", "connect.type": "int16"}, "null"], pa.int32()),
    "single": (["null", "float"], pa.float32()),
    "real": ("double", pa.float64()),
    "text": (["null", {"type": "string", "connect.name": "io.debezium.data.Json"}], pa.string()),
    "raw": ("bytes", pa.binary()),
    "fixed": (["null", {"type": "fixed", "name": "Four", "size": 4}], pa.binary()),
    "any": (["null", DECIMAL], None),
    "many": (["null", {"type": "array", "items": ["null", "Dec"]}], None),
    "deep": ({"type": "array", "items": {"type": "array", "items": "long"}}, None),
    "map": (["null", {"type": "map", "values": ["null", "string"]}], None),
}
ROW = {"type": "record", "name": "Row", "fields": [{"name": name, "type": kind} for name, (kind, _) in TYPES.items()]}
SOURCE = [
    {"name": "db", "type": "string"},
    {"name": "ts_ms", "type": "long"},
    {"name": "ts_us", "type": ["null", "long"]},
]
WRITER = {
    "type": "record",
    "name": "Envelope",
    "namespace": "srv.public.orders",
    "fields": [
        {"name": "before", "type": ["null", ROW]},
        {"name": "after", "type": ["null", "Row"]},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": SOURCE}},
        {"name": "transaction", "type": ["null", "Dec"]},
        {"name": "op", "type": "string"},
    ],
}
PARSED = parse_schema(WRITER, named_schemas={})
INT, LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=9)
DEC = st.fixed_dictionaries({"s": INT, "v": st.binary(max_size=5)})
ROWS = st.none() | st.fixed_dictionaries(
    {
        "id": LONG,
        "flag": st.none() | st.booleans(),
        "small": st.none() | INT,
        "single": st.none() | st.floats(width=32, allow_nan=False),
        "real": st.floats(allow_nan=False),
        "text": st.none() | TEXT,
        "raw": st.binary(max_size=200),
        "fixed": st.none() | st.binary(min_size=4, max_size=4),
        "any": st.none() | DEC,
        "many": st.none() | st.lists(st.none() | DEC, max_size=3),
        "deep": st.lists(st.lists(LONG, max_size=3), max_size=3),
        "map": st.none() | st.dictionaries(TEXT, st.none() | TEXT, max_size=3),
    }
)
EVENTS = st.fixed_dictionaries(
    {
        "before": ROWS,
        "after": ROWS,
        "source": st.fixed_dictionaries({"db": TEXT, "ts_ms": LONG, "ts_us": st.none() | LONG}),
        "transaction": st.none() | DEC,
        "op": st.sampled_from("rcudt"),
    }
)


def written(event: dict[str, Any]) -> bytes:
    out = BytesIO()
    schemaless_writer(out, PARSED, event)
    return out.getvalue()


def walked(records: list[bytes]) -> Walk:
    ends = np.cumsum([0, *map(len, records)]).astype(np.int64)
    data = np.frombuffer(b"".join(records) or b"\0", dtype=np.uint8)
    return walk(compiled(WRITER, list(TYPES)), data, ends[:-1].copy(), ends[1:].copy())


@given(st.lists(EVENTS, min_size=1, max_size=3))
def test_every_value_is_the_one_that_fastavro_reads(events: list[dict[str, Any]]) -> None:
    records = [written(event) for event in events]
    steps, found, rows = compiled(WRITER, list(TYPES)), walked(records), np.arange(len(records))
    expected = [schemaless_reader(BytesIO(record), PARSED, None) for record in records]

    assert found.damaged == -1
    assert found.array(steps.op, rows, pa.string()).to_pylist() == [event["op"] for event in expected]
    for field in ("ts_ms", "ts_us"):
        got = found.array(steps.source(field), rows, pa.int64()).to_pylist()
        assert got == [event["source"][field] for event in expected]
    for part, name in enumerate(("before", "after")):
        images = [event[name] for event in expected]
        there = (found.kind[steps.part(part)] == avro_kernels.PRESENT).tolist()
        assert there == [image is not None for image in images]
        for place, (column, (_, kind)) in enumerate(TYPES.items()):
            slot = steps.part(part) + 1 + place
            if kind is not None:
                got = found.array(slot, rows, kind).to_pylist()
            else:
                pieces = found.pieces(slot, rows)
                got = [None if p is None else next(read_records(steps.nested[slot], [p])) for p in pieces]
            assert got == [None if image is None else image[column] for image in images]


@given(EVENTS)
def test_a_record_that_is_cut_off_or_too_long_is_damaged(event: dict[str, Any]) -> None:
    record = written(event)

    assert [walked([record, record[:size]]).damaged for size in range(len(record))] == [1] * len(record)
    assert walked([record + b"\0"]).damaged == 0


def test_blocks_may_tell_their_size() -> None:
    columns = {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": "long"}}]}
    writer = {
        "type": "record",
        "name": "E",
        "fields": [{"name": "after", "type": ["null", columns]}, {"name": "op", "type": "string"}],
    }
    # The row; a block of 2 items in 2 bytes, one of 1 item without a size, the end; the op.
    record = bytes([2, 3, 4, 2, 4, 2, 6, 0, 2]) + b"c"
    data = np.frombuffer(record, dtype=np.uint8)
    steps = compiled(writer, ["a"])
    found = walk(steps, data, np.zeros(1, np.int64), np.full(1, data.size, np.int64))

    slot = steps.part(1) + 1
    assert found.damaged == -1
    (piece,) = found.pieces(slot, np.arange(1))
    assert list(read_records(steps.nested[slot], [piece or b""])) == [[1, 2, 3]]
