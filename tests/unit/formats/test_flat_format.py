"""The flat envelope, as JSON and as Arrow."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal
from typing import Any

from headwater.event import ChangeBatch, TableSchema
from headwater.formats import text
from headwater.formats.flat import Flat, flat_schema

from .change_builder import ORDERS, batch, change, column, order

FULL = dataclasses.replace(
    ORDERS, identity=tuple(column.name for column in ORDERS.columns), detail={"replica_identity": "f"}
)
ENVELOPE = {
    "_ns_op": "INSERT",
    "_ns_table": "public.orders",
    "_ns_lsn": "0/16E9058",
    "_ns_committed_at": "2023-11-14T22:13:20.123456Z",
    "_ns_tx_id": 555,
}
ROW = {"name": "order 1", "count": 7, "price": "1.10", "made": "2024-01-02T03:04:05.678901Z"}


def lines(changes: ChangeBatch) -> list[Any]:
    return [json.loads(line) for line in Flat().json_lines(changes).to_pylist()]


def test_an_insert_is_the_envelope_and_the_columns_in_order() -> None:
    [line] = lines(batch([change("c", order(1))]))
    assert line == {**ENVELOPE, "id": 1, **ROW}
    assert list(line) == [*ENVELOPE, *[column.name for column in ORDERS.columns]]


def test_a_snapshot_row_is_an_insert() -> None:
    assert lines(batch([change("r", order(1))]))[0]["_ns_op"] == "INSERT"


def test_a_delete_has_the_key_alone_when_the_log_has_no_more() -> None:
    _, delete, truncate = lines(batch([change("u", order(1)), change("d", None, {"id": 1}), change("t")]))
    assert delete == {**ENVELOPE, "_ns_op": "DELETE", "id": 1}
    assert truncate == {**ENVELOPE, "_ns_op": "TRUNCATE"}


def test_the_old_row_is_there_under_replica_identity_full() -> None:
    insert, update, delete = lines(
        batch([change("c", order(1)), change("u", order(1, name="new"), order(1)), change("d", None, order(1))], FULL)
    )
    assert insert["_ns_before"] is None
    assert (update["name"], update["_ns_before"]["name"]) == ("new", "order 1")
    assert delete == {**ENVELOPE, "_ns_op": "DELETE", "id": 1, **ROW, "_ns_before": {"id": 1, **ROW}}


def test_a_column_that_the_log_left_out_is_not_there() -> None:
    left, whole = lines(batch([change("u", order(1, name=None), unchanged=["name"]), change("u", order(1, name=None))]))
    assert "name" not in left
    assert whole["name"] is None


def test_no_value_is_rounded() -> None:
    table = TableSchema("public", "orders", (column("id", "int8"), column("d", "float8"), column("t", "_text")))
    [line] = (
        Flat().json_lines(batch([change("c", {"id": (1 << 63) - 1, "d": 0.1, "t": ["a", None]})], table)).to_pylist()
    )
    assert line.endswith('"id":9223372036854775807,"d":0.1,"t":["a",null]}')


def test_blocks_make_no_difference(monkeypatch: Any) -> None:
    changes = batch([change("c", order(1)), change("u", order(2)), change("d", None, {"id": 2})] * 3)
    whole = lines(changes)
    monkeypatch.setattr(text, "BLOCK_ROWS", 2)
    assert lines(changes) == whole


def test_arrow_records_have_the_same_content_typed() -> None:
    changes = batch([change("c", order(1)), change("d", None, {"id": 1})])
    records = Flat().records(changes)
    assert records.schema == flat_schema(ORDERS)
    insert, delete = records.to_pylist()
    assert (insert["_ns_op"], insert["_ns_lsn"], insert["_ns_tx_id"]) == ("INSERT", "0/16E9058", 555)
    assert insert["price"] == Decimal("1.10")
    assert (delete["_ns_op"], delete["id"], delete["name"]) == ("DELETE", 1, None)


def test_arrow_records_name_what_the_log_left_out() -> None:
    [row] = Flat().records(batch([change("u", order(1, name=None), unchanged=["name"])])).to_pylist()
    assert row["_ns_unchanged"] == ["name"]
    full = [change("u", order(1, name=None), order(1, name="kept"), unchanged=["name"])]
    [row] = Flat().records(batch(full, FULL)).to_pylist()
    assert (row["name"], row["_ns_unchanged"], row["_ns_before"]["name"]) == ("kept", None, "kept")
