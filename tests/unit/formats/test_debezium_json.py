"""Debezium's events: the envelope, keys, tombstones, moved keys, what is missing and what the log left out."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headwater.errors import Stop, Unrepresentable, Usage
from headwater.event import ChangeBatch, TableSchema
from headwater.formats import text
from headwater.formats.connector import Moment, Run
from headwater.formats.debezium_json import DebeziumJson
from headwater.formats.debezium_options import DebeziumOptions
from headwater.options import parse_options
from headwater.sources.postgres.debezium import PostgresConnector

from .change_builder import NOW, ORDERS, batch, change, column, numeric, order, slow_order

FULL = dataclasses.replace(
    ORDERS, identity=tuple(column.name for column in ORDERS.columns), detail={"replica_identity": "f"}
)


def events(changes: ChangeBatch, moment: Moment | None = None, run: Run | None = None, **options: Any) -> list[Any]:
    chosen = DebeziumOptions(**{"topic_prefix": "srv", "extended_headers": False, **options})
    encoder = DebeziumJson(chosen, PostgresConnector("db1"), run)
    return list(encoder.encode(changes, moment or Moment(now=NOW)))


def values(changes: ChangeBatch, **options: Any) -> list[Any]:
    return [None if record["value"] is None else json.loads(record["value"]) for record in events(changes, **options)]


def test_an_insert_is_the_contract_s_text_byte_for_byte() -> None:
    table = TableSchema(
        "public",
        "t",
        (
            column("id", "int4", nullable=False, default="nextval('t_id_seq'::regclass)"),
            column("name", "text"),
        ),
        key=("id",),
        identity=("id",),
    )
    [record] = events(batch([change("c", {"id": 1, "name": "a"})], table), schemas_enable=True)
    row = (
        '{"type":"struct","fields":[{"type":"int32","optional":false,"default":0,"field":"id"},'
        '{"type":"string","optional":true,"field":"name"}],"optional":true,"name":"srv.public.t.Value","field":"%s"}'
    )
    assert record["topic"] == "srv.public.t"
    assert record["key"] == (
        '{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"default":0,"field":"id"}],'
        '"optional":false,"name":"srv.public.t.Key"},"payload":{"id":1}}'
    )
    assert record["value"] == (
        '{"schema":{"type":"struct","fields":[' + row % "before" + "," + row % "after" + ","
        '{"type":"struct","fields":['
        '{"type":"string","optional":false,"field":"version"},{"type":"string","optional":false,"field":"connector"},'
        '{"type":"string","optional":false,"field":"name"},{"type":"int64","optional":false,"field":"ts_ms"},'
        '{"type":"string","optional":true,"name":"io.debezium.data.Enum","version":1,"parameters":{"allowed":'
        '"true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"},"default":"false",'
        '"field":"snapshot"},{"type":"string","optional":false,"field":"db"},'
        '{"type":"string","optional":true,"field":"sequence"},{"type":"int64","optional":true,"field":"ts_us"},'
        '{"type":"int64","optional":true,"field":"ts_ns"},{"type":"string","optional":false,"field":"schema"},'
        '{"type":"string","optional":false,"field":"table"},{"type":"int64","optional":true,"field":"txId"},'
        '{"type":"int64","optional":true,"field":"lsn"},{"type":"int64","optional":true,"field":"xmin"},'
        '{"type":"string","optional":true,"field":"origin"},{"type":"int64","optional":true,"field":"origin_lsn"}],'
        '"optional":false,"name":"io.debezium.connector.postgresql.Source","version":1,"field":"source"},'
        '{"type":"struct","fields":[{"type":"string","optional":false,"field":"id"},'
        '{"type":"int64","optional":false,"field":"total_order"},'
        '{"type":"int64","optional":false,"field":"data_collection_order"}],"optional":true,"name":"event.block",'
        '"version":1,"field":"transaction"},{"type":"string","optional":false,"field":"op"},'
        '{"type":"int64","optional":true,"field":"ts_ms"},{"type":"int64","optional":true,"field":"ts_us"},'
        '{"type":"int64","optional":true,"field":"ts_ns"}],"optional":false,"name":"srv.public.t.Envelope",'
        '"version":2},"payload":{"before":null,"after":{"id":1,"name":"a"},"source":{"version":"3.6.1.Final",'
        '"connector":"postgresql","name":"srv","ts_ms":1700000000123,"snapshot":"false","db":"db1",'
        '"sequence":"[null,\\"24023128\\"]","ts_us":1700000000123456,"ts_ns":1700000000123456000,'
        '"schema":"public","table":"t","txId":555,"lsn":24023128,"xmin":null,"origin":null,"origin_lsn":null},'
        '"transaction":null,"op":"c","ts_ms":1700000000200,"ts_us":1700000000200111,"ts_ns":1700000000200111222}}'
    )


def test_rows_equal_those_of_a_slow_independent_writer() -> None:
    rows = [
        order(number, name=None if number % 3 == 0 else f'n "{number}" ü\n', price=Decimal(number * 37 - 900) / 100)
        for number in range(50)
    ]
    changes = batch([change("c" if number % 2 else "r", row) for number, row in enumerate(rows)])
    assert [value["after"] for value in values(changes)] == [slow_order(row) for row in rows]


def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [change("c", order(1)), change("u", order(2), order(1)), change("d", None, order(2))] * 5
    changes = batch([{**row, "commit": 1000 + number // 4} for number, row in enumerate(rows)], FULL)
    whole = events(changes)
    monkeypatch.setattr(text, "BLOCK_ROWS", 2)
    assert events(changes) == whole
    assert [record["change"] for record in whole[:6]] == [0, 1, 1, 1, 2, 2]


def test_a_delete_has_the_key_fillers_for_required_columns_and_a_tombstone() -> None:
    delete, tombstone = events(batch([change("d", None, {"id": 5})]))
    assert delete["key"] == tombstone["key"] == '{"id":5}'
    assert tombstone["value"] is None
    value = json.loads(delete["value"])
    assert value["op"] == "d"
    assert value["before"] == {"id": 5, "name": None, "count": 0, "price": None, "made": None}
    assert value["after"] is None


def test_tombstones_can_be_turned_off() -> None:
    assert len(events(batch([change("d", None, {"id": 5})]), tombstones_on_delete=False)) == 1


def test_an_update_of_the_key_is_a_delete_a_tombstone_and_a_create() -> None:
    old, tombstone, new = events(batch([change("u", order(2), {"id": 1})]))
    assert [old["key"], tombstone["key"], new["key"]] == ['{"id":1}', '{"id":1}', '{"id":2}']
    assert tombstone["value"] is None
    first, second = json.loads(old["value"]), json.loads(new["value"])
    assert (first["op"], first["before"]["id"], first["after"]) == ("d", 1, None)
    assert (second["op"], second["before"], second["after"]["id"]) == ("c", None, 2)
    assert first["source"] == second["source"]
    assert old["headers"] == tombstone["headers"] == [{"key": "__debezium.newkey", "value": '{"id":2}'}]
    assert new["headers"] == [{"key": "__debezium.oldkey", "value": '{"id":1}'}]


def test_an_update_that_keeps_the_key_is_one_event_with_what_is_known_of_the_old_row() -> None:
    [plain] = values(batch([change("u", order(1))]))
    assert (plain["op"], plain["before"], plain["after"]) == ("u", None, slow_order(order(1)))
    [full] = values(batch([change("u", order(1, name="new"), order(1))], FULL))
    assert (full["op"], full["before"]) == ("u", slow_order(order(1)))


def test_a_delete_that_does_not_carry_the_event_key_stops() -> None:
    table = dataclasses.replace(ORDERS, identity=("name",))
    with pytest.raises(Stop, match="does not carry the event key"):
        events(batch([change("d", None, {"name": "a"})], table))
    # An update is still told apart: its old key is unknown, so it stays an update.
    [record] = events(batch([change("u", order(1), {"name": "a"})], table))
    assert json.loads(record["value"])["op"] == "u"


def test_a_table_without_a_key_has_null_keys() -> None:
    table = dataclasses.replace(FULL, key=())
    insert, delete, tombstone = events(batch([change("c", order(1)), change("d", None, order(1))], table))
    assert [insert["key"], delete["key"], tombstone["key"], tombstone["value"]] == [None] * 4


def test_message_key_columns_replace_the_key() -> None:
    [record] = events(batch([change("c", order(1))]), message_key_columns="public.orders:name,id; public.x:id")
    assert record["key"] == '{"name":"order 1","id":1}'
    with pytest.raises(Usage, match="no column 'nome'"):
        events(batch([change("c", order(1))]), message_key_columns="public.orders:nome")


def test_truncates_are_skipped_unless_asked_for() -> None:
    changes = batch([change("c", order(1)), change("t"), change("c", order(2))])
    assert [value["op"] for value in values(changes)] == ["c", "c"]
    insert, truncate, _ = events(changes, skipped_operations=["none"])
    assert insert["key"] is not None
    assert truncate["key"] is None
    value = json.loads(truncate["value"])
    assert (value["op"], value["before"], value["after"]) == ("t", None, None)


def test_a_null_in_a_column_with_a_default_is_the_default() -> None:
    columns = tuple(dataclasses.replace(c, default="'none'::text") if c.name == "name" else c for c in ORDERS.columns)
    table = dataclasses.replace(ORDERS, columns=columns)
    [value] = values(batch([change("c", order(1, name=None))], table))
    assert value["after"]["name"] == "none"


def test_what_the_log_left_out_is_the_placeholder() -> None:
    [value] = values(batch([change("u", order(1, name=None), unchanged=["name"])]))
    assert value["after"]["name"] == "__debezium_unavailable_value"
    [value] = values(batch([change("u", order(1, name=None), unchanged=["name"])]), unavailable_value_placeholder="?")
    assert value["after"]["name"] == "?"


def test_what_the_log_left_out_comes_from_the_old_row_when_that_is_whole() -> None:
    changes = [
        change("u", order(1, name=None), order(1, name="kept"), unchanged=["name"]),
        change("u", order(2), order(2)),
    ]
    assert [value["after"]["name"] for value in values(batch(changes, FULL))] == ["kept", "order 2"]


def test_snapshot_rows_say_which_they_are() -> None:
    changes = batch([change("r", order(number)) for number in range(3)])
    moment = Moment(now=NOW, first="first", last="last")
    markers = [json.loads(record["value"])["source"]["snapshot"] for record in events(changes, moment)]
    assert markers == ["first", "true", "last"]


def test_sequence_names_the_end_of_the_transaction_before() -> None:
    moment = Moment(now=NOW, previous=pa.array([24_023_119, None]))
    records = events(batch([change("c", order(1)), change("c", order(2), lsn=24_023_200)]), moment)
    sequences = [json.loads(record["value"])["source"]["sequence"] for record in records]
    assert sequences == ['["24023119","24023128"]', '[null,"24023200"]']


def test_headers_name_the_run() -> None:
    run = Run(id="42", connector="postgresql")
    [record] = events(batch([change("c", order(1))]), run=run, extended_headers=True)
    assert [(header["key"], header["value"]) for header in record["headers"]] == [
        ("__debezium.context.connectorLogicalName", "srv"),
        ("__debezium.context.taskId", "0"),
        ("__debezium.context.connectorName", "postgresql"),
        ("__debezium.context.runId", "42"),
    ]
    [record] = events(batch([change("c", order(1))]), run=run, extended_headers=True, header_converter="json")
    assert record["headers"][0]["value"] == '"srv"'


NUMBERS = TableSchema(
    "public", "numbers", (column("id", "int4", nullable=False), column("n", "numeric")), key=("id",), identity=("id",)
)


def test_a_value_without_a_representation_stops_by_default_and_never_shows_itself() -> None:
    changes = batch([change("c", {"id": 1, "n": "NaN"})], NUMBERS)
    with pytest.raises(Unrepresentable, match=r"public\.numbers\.n") as caught:
        events(changes)
    assert "NaN" not in str(caught.value)


def test_a_value_without_a_representation_is_null_when_the_user_chose_so(caplog: pytest.LogCaptureFixture) -> None:
    changes = batch([change("c", {"id": 1, "n": "NaN"}), change("c", {"id": 2, "n": "1.50"})], NUMBERS)
    found = values(changes, converting_failure="warn")
    assert [value["after"]["n"] for value in found] == [None, {"scale": 1, "value": "Dw=="}]
    assert caplog.messages == ["public.numbers.n: 1 values without a representation are now null"]


def test_an_empty_batch_gives_no_records() -> None:
    assert events(batch([])) == []


def test_names_with_strange_characters_stay_in_the_payload_and_are_tamed_in_the_topic() -> None:
    table = TableSchema("public", 'Odd Näme; "x"', (column('sel"ect\n', "text"),))
    [record] = events(batch([change("c", {'sel"ect\n': "v"})], table), schemas_enable=True)
    assert record["topic"] == "srv.public.Odd_N_me___x_"
    value = json.loads(record["value"])
    assert value["payload"]["after"] == {'sel"ect\n': "v"}
    assert value["schema"]["fields"][0]["fields"][0]["field"] == 'sel"ect\n'


def test_avro_names() -> None:
    table = TableSchema("public", "my-table", (column("1st col", "text"),))
    [record] = events(
        batch([change("c", {"1st col": "v"})], table),
        schemas_enable=True,
        schema_name_adjustment="avro",
        field_name_adjustment="avro",
    )
    value = json.loads(record["value"])
    assert value["schema"]["name"] == "srv.public.my_table.Envelope"
    assert value["payload"]["after"] == {"_1st_col": "v"}


def test_options_are_read_under_debezium_s_names() -> None:
    options = parse_options(
        DebeziumOptions,
        {"topic.prefix": "srv", "converter.schemas.enable": "true", "skipped.operations": "c,u"},
        where="format",
    )
    assert (options.topic_prefix, options.schemas_enable, options.skipped_operations) == ("srv", True, ["c", "u"])


def test_numeric_precision_reaches_the_schema() -> None:
    table = TableSchema("public", "p", (column("price", "numeric", numeric(10, 2)),))
    [record] = events(batch([change("c", {"price": Decimal("1.10")})], table), schemas_enable=True)
    field = json.loads(record["value"])["schema"]["fields"][1]["fields"][0]
    assert field["parameters"] == {"scale": "2", "connect.decimal.precision": "10"}
