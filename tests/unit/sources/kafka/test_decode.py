"""Records as Debezium writes them → typed changes: its own recordings, and what they do not show."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer
from tests.oracle.recording import load
from tests.unit.sources.kafka.records import SOURCE, TOPIC, Topics, event, plain, with_schema

from headwater.errors import Stop, Unrepresentable, Usage
from headwater.event import Position
from headwater.formats.avro_schema import avro_schema
from headwater.sources.kafka.connect import schema_from_avro, schema_from_json, schema_to_json
from headwater.sources.kafka.decode import decode, decode_rows, positions
from headwater.sources.kafka.logical import decimal_text, instant_plain

GOLDEN = Path(__file__).parents[3] / "golden" / "debezium"
INT = {"type": "int32"}
STRING = {"type": "string"}
PLACEHOLDER = "__debezium_unavailable_value"


def recorded(name: str, **options: Any) -> Topics:
    """What real Debezium wrote, one partition a topic."""
    topics = Topics(topics="[^_].*", **options)
    for each in load(GOLDEN / f"{name}.json").events:
        key, value = (None if text is None else text.encode() for text in (each.key, each.value))
        topics.put([(each.topic, key, value)])
    return topics


def column(kind: dict[str, Any], *values: Any, **options: Any) -> pa.Array:
    """Values of one column as they stand in JSON."""
    topics = Topics(**options)
    rows = [{"id": n, "v": value} for n, value in enumerate(values)]
    topics.put(with_schema({"id": INT, "v": kind}, *rows))
    (batch,) = topics.batches()
    return batch.after.field(1)


# -- Debezium's recordings -------------------------------------------------------------------------


def test_real_events_of_every_operation_become_changes_in_their_order() -> None:
    batches = {batch.table.table: batch for batch in recorded("operations.defaults").batches()}

    assert batches["public.composite"].table.key == ("id", "region")
    assert batches["public.no_key"].table.key == ()
    toasted = batches["public.toasted"].records.to_pylist()
    assert toasted[0]["op"] == "c"
    left_out = [row for row in toasted if row["unchanged"]]
    assert left_out
    assert all(row["after"][name] is None for row in left_out for name in row["unchanged"])
    for batch in batches.values():
        assert PLACEHOLDER not in str(batch.records.drop_columns(["unchanged"]).to_pylist())


def test_real_schema_changes_make_a_new_version_of_the_table_each() -> None:
    versions = [[c.name for c in batch.table.columns] for batch in recorded("evolution.defaults").batches()]

    assert versions[:5] == [["id", "a"], ["id", "a", "b"], ["id", "a", "b", "c"], ["id", "b", "c"], ["id", "bb", "c"]]


def test_real_types_are_those_that_our_own_source_gives() -> None:
    tables = {batch.table.name: batch for batch in recorded("types.defaults").batches()}
    types = {column.name: str(column.arrow) for column in tables["all_types"].table.columns}

    assert types["c_numeric_10_2"] == "decimal128(10, 2)"
    assert types["c_numeric"] == types["c_uuid"] == types["c_time"] == types["c_bit8"] == types["c_jsonb"] == "string"
    assert types["c_timestamp3"] == types["c_timestamp6"] == "timestamp[us]"
    assert types["c_timestamptz"] == "timestamp[us, tz=UTC]"
    assert types["c_date"] == "date32[day]"
    assert types["c_bytea"] == "binary"
    arrays = tables["all_arrays"].after.to_pylist()[0]
    assert arrays["a_numeric_10_2"] == [Decimal("1.10"), Decimal("2.00"), None]
    assert arrays["a_numeric"] == ["1.1", "2", None]
    assert arrays["a_date"] == [date(2016, 11, 4), None]
    assert arrays["a_text"] == ["a b", 'quo"te', None, "NULL", ""]


@pytest.mark.parametrize("mode", ["connect", "isostring", "microseconds", "adaptive_time_microseconds"])
def test_however_the_connector_writes_times_they_are_the_same(mode: str) -> None:
    def rows(name: str) -> list[Any]:
        (found,) = [b for b in recorded(name).batches() if b.table.name == "all_types"]
        exact = ["c_date", "c_time3", "c_timestamp3", "c_timestamptz"]
        return [found.after.field(column) for column in exact]

    assert rows(f"types.{mode}") == rows("types.defaults")


def test_the_ends_of_time_stay_the_ends() -> None:
    (found,) = [b for b in recorded("infinities.defaults").batches() if b.table.name == "infinite"]
    zoned = found.after.field("c_timestamptz").cast(pa.int64()).to_pylist()

    assert zoned[:2] == [2**63 - 1, -(2**63)]


@pytest.mark.parametrize("name", ["operations.transactions", "mysql/operations.transactions"])
def test_transaction_topics_are_no_tables(name: str) -> None:
    assert all("transaction" not in batch.table.table for batch in recorded(name).batches())


@pytest.mark.parametrize(
    "value",
    [
        {"schema": {"type": "struct", "name": "io.debezium.connector.mysql.SchemaChangeValue"}, "payload": {"ddl": ""}},
        {"schema": {"type": "struct", "name": "io.debezium.connector.common.Heartbeat"}, "payload": {"ts_ms": 1}},
        {"source": {}, "ts_ms": 1, "databaseName": "shop", "ddl": "create table t (id int)", "tableChanges": []},
        {"ts_ms": 1},
        {"status": "END", "id": "1:2", "event_count": 1, "data_collections": [], "ts_ms": 1},
        {"op": "m", "ts_ms": 1, "source": {}, "message": {"prefix": "p", "content": ""}},
    ],
)
def test_what_debezium_writes_beside_its_tables_is_passed_over(value: Any) -> None:
    topics = Topics()
    topics.put([("srv.beside", None, json.dumps(value, separators=(",", ":")).encode())])
    (chunk,) = topics.chunks()

    assert chunk.tables == ()


def test_flattened_events_are_refused_by_name() -> None:
    with pytest.raises(Stop, match=r"srv\.public\.item \[0\] offset 0") as refused:
        recorded("flatten.defaults")

    assert "ExtractNewRecordState" in str(refused.value)


def test_records_of_somebody_else_are_left_out_on_request() -> None:
    topics = Topics(**{"event.processing.failure.handling.mode": "skip"})
    topics.put([(TOPIC, None, b"\xff\xfe not json"), (TOPIC, None, b"17"), *plain({"id": 1})])

    assert [row["after"] for row in topics.rows()] == [{"id": 1}]


# -- types -----------------------------------------------------------------------------------------


def named(kind: str, name: str, **parameters: str) -> dict[str, Any]:
    return {"type": kind, "name": name, "parameters": parameters}


DECIMAL = "org.apache.kafka.connect.data.Decimal"


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ({"type": "int64"}, -(2**63), -(2**63)),
        ({"type": "double"}, "NaN", "nan"),
        ({"type": "float"}, 1.1, 1.100000023841858),
        ({"type": "bytes"}, "AP8=", b"\x00\xff"),
        (STRING, 'é\n\u2028"\\/😀', 'é\n\u2028"\\/😀'),
        (named("bytes", DECIMAL, scale="2", **{"connect.decimal.precision": "10"}), "kg==", Decimal("-1.10")),
        (named("bytes", DECIMAL, scale="2", **{"connect.decimal.precision": "10"}), -12.5, Decimal("-12.50")),
        (named("bytes", DECIMAL, scale="50"), "AQ==", "0." + "0" * 49 + "1"),
        (named("struct", "io.debezium.data.VariableScaleDecimal"), {"scale": 4, "value": "AYr3"}, "10.1111"),
        (named("int32", "io.debezium.time.Date"), -1, date(1969, 12, 31)),
        (named("int64", "io.debezium.time.MicroTime"), -1_500_000, "-00:00:01.5"),
        (named("int64", "io.debezium.time.NanoTime"), 86_400_000_000_001, "24:00:00.000000001"),
        (named("int64", "io.debezium.time.Timestamp"), -1, datetime(1969, 12, 31, 23, 59, 59, 999000)),
        (named("int64", "io.debezium.time.NanoTimestamp"), -1000, datetime(1969, 12, 31, 23, 59, 59, 999999)),
        (
            named("string", "io.debezium.time.ZonedTimestamp"),
            "2016-11-04T13:51:30.5+02:00",
            datetime(2016, 11, 4, 11, 51, 30, 500000, tzinfo=UTC),
        ),
        (named("bytes", "io.debezium.data.Bits", length="10"), "BQI=", "1000000101"),
        (named("struct", "io.debezium.data.geometry.Point"), {"x": 1.0, "y": 2.5}, '{"x":1.0,"y":2.5}'),
        ({"type": "map", "keys": STRING, "values": STRING}, {"a": "1"}, [("a", "1")]),
        ({"type": "array", "items": {"type": "double"}}, [1.5, "Infinity", None], [1.5, float("inf"), None]),
    ],
)
def test_values_are_typed_and_exact(kind: dict[str, Any], given: Any, expected: Any) -> None:
    found = column(kind, given, None).to_pylist()

    assert found[1] is None
    assert str(found[0]) == "nan" if expected == "nan" else found[0] == expected


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ({"type": "int32"}, 2**31),
        ({"type": "int64"}, 1.5),
        (STRING, 5),
        ({"type": "boolean"}, "true"),
        ({"type": "bytes"}, "*not*"),
        (named("bytes", DECIMAL, scale="0", **{"connect.decimal.precision": "2"}), "AIA="),
        (named("bytes", DECIMAL, scale="2", **{"connect.decimal.precision": "10"}), 1.125),
        (named("int64", "io.debezium.time.NanoTimestamp"), 1),
        (named("string", "io.debezium.time.ZonedTimestamp"), "2016-11-04T13:51:30.1234567Z"),
        (named("int64", "io.debezium.time.Timestamp"), 2**60),
    ],
)
def test_a_value_that_does_not_fit_is_refused_and_not_shown(kind: dict[str, Any], given: Any) -> None:
    with pytest.raises(Unrepresentable, match=r"public\.orders\.v") as refused:
        column(kind, given)

    assert str(given) not in str(refused.value)
    assert refused.value.column == "v"
    assert column(kind, given, cast={"public.orders.v": "string"}).to_pylist() == [str(given)]


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (STRING, PLACEHOLDER),
        ({"type": "bytes"}, "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="),
        ({"type": "array", "items": STRING}, [PLACEHOLDER]),
        ({"type": "array", "items": INT}, list(PLACEHOLDER.encode())),
        ({"type": "array", "items": STRING}, ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
        ({"type": "map", "keys": STRING, "values": STRING}, {PLACEHOLDER: PLACEHOLDER}),
    ],
)
def test_a_value_that_the_event_leaves_out_is_unchanged_not_null(kind: dict[str, Any], given: Any) -> None:
    topics = Topics()
    topics.put(with_schema({"id": INT, "v": kind}, {"id": 1, "v": given}, {"id": 2, "v": None}, op="u"))

    assert [(row["after"]["v"], row["unchanged"]) for row in topics.rows()] == [(None, ["v"]), (None, None)]


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("infinity", 2**63 - 1),
        ("-infinity", -(2**63)),
        ("1970-01-01T00:00Z", 0),
        ("-0043-03-15T12:00:00Z", -63_517_780_800_000_000),
        ("+10000-01-01T00:00:00.000001Z", 253_402_300_800_000_001),
    ],
)
def test_instants_outside_of_arrow_s_parser(text: str, micros: int) -> None:
    assert instant_plain(text) == micros


def test_decimals_keep_the_digits_of_their_scale() -> None:
    assert [decimal_text(b"\x6e", scale) for scale in (-2, 0, 1, 2, 4)] == ["11000", "110", "11.0", "1.10", "0.0110"]
    assert decimal_text(b"\xff", 3) == "-0.001"


# -- events without a schema -----------------------------------------------------------------------


def test_types_without_a_schema_are_those_of_json() -> None:
    topics = Topics()
    topics.put(plain({"id": 1, "a": None, "b": 1.5, "c": "x", "d": True, "e": {"k": [1, 2]}}, {"id": 2, "a": 7}))
    (batch,) = topics.batches()

    assert {c.name: str(c.arrow) for c in batch.table.columns} == {
        "id": "int64",
        "b": "double",
        "c": "string",
        "d": "bool",
        "e": "string",
        "a": "int64",
    }
    assert batch.table.key == ("id",)
    assert batch.after.to_pylist()[0] == {"id": 1, "b": 1.5, "c": "x", "d": True, "e": '{"k":[1,2]}', "a": None}


def test_a_column_without_a_schema_is_there_from_its_first_value_on() -> None:
    topics = Topics()
    topics.put(plain({"id": 1, "new": None}))
    first = topics.batches()
    topics.put(plain({"id": 2, "new": "x"}))
    second = topics.batches()

    assert [c.name for c in first[0].table.columns] == ["id"]
    assert second[0].after.to_pylist() == [{"id": 2, "new": "x"}]


@pytest.mark.parametrize(("first", "later"), [(1, 1.5), (1, "x"), ("x", 1), (True, 1), ("x", {}), (0.5, 2**53 + 1)])
def test_a_later_value_of_another_kind_is_refused(first: Any, later: Any) -> None:
    topics = Topics()
    topics.put(plain({"id": 1, "v": first}))
    topics.chunks()
    topics.put(plain({"id": 2, "v": later}))
    with pytest.raises(Unrepresentable, match=r"public\.orders\.v"):
        topics.batches()


def test_types_may_be_told_where_there_is_no_schema() -> None:
    cast = {"public.orders.amount": "decimal(10,2)", "public.orders.at": "timestamp", "public.orders.day": "date"}
    topics = Topics(cast=cast)
    topics.put(plain({"id": 1, "amount": "bg==", "at": 1_500_000, "day": 1}))

    assert topics.rows()[0]["after"] == {
        "id": 1,
        "amount": Decimal("1.10"),
        "at": datetime(1970, 1, 1, 0, 0, 1, 500000),
        "day": date(1970, 1, 2),
    }
    told = Topics(cast={"public.orders.v": "string"})
    told.put(plain({"id": 1, "v": 10**20}, {"id": 2, "v": "x"}, {"id": 3, "v": [1]}))
    assert [row["after"]["v"] for row in told.rows()] == ["100000000000000000000", "x", "[1]"]
    wrong = Topics(cast={"public.orders.id": "money"})
    wrong.put(plain({"id": 1}))
    with pytest.raises(Usage, match="unknown type 'money'"):
        wrong.batches()


# -- Avro ------------------------------------------------------------------------------------------


class Registry:
    """Schemas by id; the real one is in tests/contract."""

    def __init__(self, schemas: dict[int, Any]) -> None:
        self.schemas = schemas

    def schema(self, id: int) -> Any:
        return self.schemas[id]


def test_avro_gives_what_json_gives() -> None:
    columns = {
        "id": INT,
        "amount": named("bytes", DECIMAL, scale="2", **{"connect.decimal.precision": "10"}),
        "at": named("int64", "io.debezium.time.MicroTimestamp"),
        "small": {"type": "int16"},
        "note": STRING,
        "tags": {"type": "array", "items": {**STRING, "optional": True}},
        "any": {
            **named("struct", "io.debezium.data.VariableScaleDecimal"),
            "fields": [{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}],
        },
    }
    row = {
        "id": 1,
        "amount": "bg==",
        "at": 5,
        "small": -7,
        "note": "é",
        "tags": ["a", None],
        "any": {"scale": 1, "value": "Ag=="},
    }
    (record,) = with_schema(columns, row)
    json_topics = Topics()
    json_topics.put([record])

    key, value = (schema_from_json(json.loads(text)["schema"]) for text in record[1:] if text is not None)
    registry = Registry({1: avro_schema(key), 2: avro_schema(value)})
    bare = {**row, "amount": b"\x6e", "any": {"scale": 1, "value": b"\x02"}}
    topics = Topics(registry)
    put_avro(topics, registry, {"id": 1}, {"before": None, "after": bare, "source": {}, "op": "c"})

    assert topics.rows()[0]["after"] == json_topics.rows()[0]["after"]
    assert {c.name: c.arrow for c in topics.known(TOPIC).columns} == {  # type: ignore[union-attr]
        c.name: c.arrow
        for c in json_topics.known(TOPIC).columns  # type: ignore[union-attr]
    }


def put_avro(topics: Topics, registry: Registry, key: Any, value: Any) -> None:
    def written(id: int, record: Any) -> bytes:
        out = BytesIO(b"\0" + id.to_bytes(4, "big"))
        out.seek(5)
        bare = json.loads(json.dumps(registry.schemas[id]).replace('"logicalType"', '"meaning"'))
        schemaless_writer(out, parse_schema(bare), record)
        return out.getvalue()

    topics.put([(TOPIC, written(1, key), written(2, value))])


def test_an_avro_schema_is_the_connect_schema_it_was_made_of() -> None:
    for name in ("types.defaults", "mysql/types.connect"):
        for each in filter(lambda each: each.value, load(GOLDEN / f"{name}.json").events):
            schema = schema_from_json(json.loads(str(each.value))["schema"])
            row = next(part.schema for part in schema.fields if part.name == "after")
            back = schema_from_avro(avro_schema(row))
            assert [schema_to_json(part.schema) for part in back.fields] == [
                schema_to_json(part.schema) for part in row.fields
            ]


def test_avro_without_a_registry_says_what_is_missing() -> None:
    with pytest.raises(Usage, match="no registry is named"):
        Topics().put([(TOPIC, None, b"\0\0\0\0\x01x")])


# -- chunks ----------------------------------------------------------------------------------------


def test_tombstones_and_heartbeats_move_the_position_and_change_nothing() -> None:
    topics = Topics()
    key = b'{"id":1}'
    topics.put([*plain({"id": 1}), (TOPIC, key, event("d", before={"id": 1})), (TOPIC, key, None)])
    topics.put([("srv.heartbeat", None, b'{"ts_ms":5}')])
    (chunk,) = topics.chunks()

    assert [row["op"] for b in decode(chunk, topics.schemas) for row in b.records.to_pylist()] == ["c", "d"]
    assert json.loads(chunk.last.resume) == {TOPIC: ["id", 3], "srv.heartbeat": ["id", 1]}
    assert chunk.last.commit == 5


def test_any_change_can_be_resumed_behind() -> None:
    topics = Topics()
    for partition in (0, 1, 0, 2):
        topics.put([*plain({"id": partition}), (TOPIC, b'{"id":9}', None)], partition)
    (chunk,) = topics.chunks()

    found = positions(chunk)
    assert [json.loads(at.resume)[TOPIC][1:] for at in found] == [[1], [2, 1], [3, 2], [4, 2, 1]]
    assert found == sorted(found)
    assert all(chunk.first < at <= chunk.last for at in found)
    # Where one begins that resumes there: behind what it had, before what it lacks.
    assert [1 + sum(json.loads(at.resume)[TOPIC][1:]) for at in found][:-1] <= [at.commit for at in found[1:]]
    assert positions(chunk, {"no.such"}) == []


def test_a_column_that_is_added_reaches_partitions_one_after_the_other(tmp_path: Path) -> None:
    topics = Topics(folder=tmp_path)
    old, new = {"id": INT}, {"id": INT, "v": STRING}
    topics.put(with_schema(old, {"id": 1}))
    topics.put(with_schema(new, {"id": 2, "v": "x"}))
    topics.put(with_schema(old, {"id": 3}), partition=1)
    topics.put(with_schema(new, {"id": 4, "v": "y"}), partition=1)
    expected = [{"id": 1}, {"id": 2, "v": "x"}, {"id": 3, "v": None}, {"id": 4, "v": "y"}]
    assert [row["after"] for row in topics.rows()] == expected

    # After a restart, which begins a little earlier than what was learned; and after one that begins behind it.
    for begin, columns in ((0, ["id", "v"]), (2, ["id"])):
        again = Topics(folder=tmp_path)
        again.builder.begin(TOPIC, "id", 0, begin)
        again.put(with_schema(old, {"id": 1}))
        assert [[c.name for c in batch.table.columns] for batch in again.batches()] == [columns]


def test_a_column_that_is_dropped_is_gone() -> None:
    topics = Topics()
    topics.put(with_schema({"id": INT, "v": STRING}, {"id": 2, "v": "x"}))
    topics.put(with_schema({"id": INT}, {"id": 3}))

    assert [row["after"] for row in topics.rows()] == [{"id": 2, "v": "x"}, {"id": 3}]


def test_a_type_that_changes_is_each_record_s_own() -> None:
    milliseconds = {"id": INT, "at": named("int64", "io.debezium.time.Timestamp")}
    microseconds = {"id": INT, "at": named("int64", "io.debezium.time.MicroTimestamp")}
    topics = Topics()
    for partition, columns in ((0, milliseconds), (1, microseconds), (0, milliseconds)):
        topics.put(with_schema(columns, {"id": 1, "at": 1000}), partition)

    micros = [row["after"]["at"].microsecond for row in topics.rows()]
    assert micros == [0, 1000, 0]


def test_a_chunk_has_one_schema_per_table() -> None:
    topics = Topics()
    topics.put(with_schema({"id": INT}, {"id": 1}))
    topics.put(with_schema({"id": INT, "v": STRING}, {"id": 2, "v": "x"}))
    topics.put(with_schema({"id": INT}, {"id": 3}))
    chunks = topics.chunks()

    assert [[run.changes for run in chunk.tables] for chunk in chunks] == [[1], [1], [1]]
    assert [Position(c.first.commit, c.first.ordinal) for c in chunks[1:]] == [
        Position(c.last.commit, c.last.ordinal) for c in chunks[:-1]
    ]


def test_a_truncate_has_no_key_and_belongs_to_the_table_all_the_same() -> None:
    topics = Topics()
    topics.put(with_schema({"id": INT}, {"id": 1}))
    (insert,) = with_schema({"id": INT}, {"id": 1})
    assert insert[2] is not None
    truncate = insert[2].replace(b'"after":{"id":1}', b'"after":null').replace(b'"op":"c"', b'"op":"t"')
    topics.put([(TOPIC, None, truncate)])
    (batch,) = topics.batches()

    assert batch.op.to_pylist() == ["c", "t"]
    assert batch.table.key == ("id",)


@pytest.mark.parametrize(("op", "rows"), [("x", {"after": {"id": 1}}), ("d", {}), ("u", {"before": {"id": 1}})])
def test_an_event_that_says_less_than_it_must_is_refused_where_it_stands(op: str, rows: Any) -> None:
    topics = Topics()
    topics.put([*plain({"id": 1}), (TOPIC, b'{"id":1}', event(op, **rows))])
    with pytest.raises(Stop, match=r"srv\.public\.orders \[0\] offset 1 cannot be read"):
        topics.batches()


def test_the_key_is_known_though_the_first_record_had_none() -> None:
    topics = Topics()
    topics.put([(TOPIC, None, event("t"))])
    topics.put(plain({"id": 1}))

    assert [batch.table.key for batch in topics.batches()] == [("id",)]


@pytest.mark.parametrize("key", [b"Struct{id=1}", b"17", b'"text"'])
def test_a_key_without_fields_is_none(key: bytes) -> None:
    topics = Topics()
    topics.put([(TOPIC, key, event(after={"id": 1}))])

    assert [batch.table.key for batch in topics.batches()] == [()]


def test_a_payload_beside_no_schema_is_a_payload() -> None:
    topics = Topics()
    topics.put([(TOPIC, None, b'{"schema":null,"payload":' + event(after={"id": 1}) + b"}")])

    assert [row["after"] for row in topics.rows()] == [{"id": 1}]


def test_changes_can_be_decoded_one_by_one_and_as_text() -> None:
    topics = Topics()
    topics.put(with_schema({"id": INT, "v": {"type": "int16"}}, {"id": 1, "v": 1}, {"id": 2, "v": 70000}))
    (chunk,) = topics.chunks()

    assert decode_rows(chunk, topics.schemas, 0, range(1), as_text=False).after.to_pylist() == [{"id": 1, "v": 1}]
    with pytest.raises(Unrepresentable):
        decode_rows(chunk, topics.schemas, 0, range(1, 2), as_text=False)
    text = decode_rows(chunk, topics.schemas, 0, range(1, 2), as_text=True)
    assert text.after.to_pylist() == [{"id": "2", "v": "70000"}]


def test_two_topics_of_one_table_are_refused() -> None:
    topics = Topics()
    other = {**SOURCE, "name": "srv2"}
    topics.put(plain({"id": 1}))
    with pytest.raises(Usage, match=r"srv\.public\.orders and srv2\.public\.orders"):
        topics.put([("srv2.public.orders", None, event(after={"id": 1}, **other))])


def test_events_keep_the_json_they_had() -> None:
    topics = Topics()
    topics.put(plain({"id": 1, "v": 1.50, "t": "é\n"}))
    (batch,) = topics.batches(events=True)

    assert batch.after.to_pylist() == [{"id": "1", "v": "1.5", "t": '"é\\n"'}]
