"""Transforms of changes: batch in, batch out."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import pytest
from tests.unit.formats.change_builder import ORDERS, batch, change, order

from headwater.errors import Usage
from headwater.event import ChangeBatch
from headwater.formats.debezium_options import DebeziumOptions
from headwater.options import parse_options
from headwater.transforms.chain import build_chain
from headwater.transforms.column_rules import ColumnRulesTransform


def through(changes: list[dict[str, Any]], *sections: dict[str, Any]) -> ChangeBatch:
    chain = build_chain(sections)
    out = chain.apply(batch(changes))
    assert chain.table(ORDERS) == out.table
    return out


def test_filter_keeps_what_is_true_in_order() -> None:
    out = through([change("c", order(n)) for n in range(6)], {"type": "filter", "condition": "after.id % 2 = 0"})
    assert [row["id"] for row in out.after.to_pylist()] == [0, 2, 4]
    assert out.records.column("ordinal").to_pylist() == [1, 3, 5]


def test_filter_leaves_other_tables_alone() -> None:
    only = {"type": "filter", "condition": "no_such_column = 1", "tables": ["public.others"]}
    assert len(through([change("c", order(1))], only)) == 1


def test_columns_keep_the_key() -> None:
    out = through(
        [change("u", order(1, name=None), unchanged=["name", "price"])],
        {"type": "columns", "exclude": ["id", "name", "m*"]},
    )
    assert [column.name for column in out.table.columns] == ["id", "count", "price"]
    assert out.records.column("unchanged").to_pylist() == [["price"]]


def test_mask_hides_before_and_after_and_leaves_null_rows_null() -> None:
    out = through(
        [change("u", order(1), order(1)), change("d", None, order(2))],
        {"type": "mask", "columns": ["name"], "length": 3},
    )
    assert [row and row["name"] for row in out.before.to_pylist()] == ["***", "***"]
    assert [row and row["name"] for row in out.after.to_pylist()] == ["***", None]


def test_hash_is_salted_and_null_stays_null() -> None:
    section = {"type": "mask", "columns": ["name"], "method": "hash", "salt": "pepper"}
    out = through([change("c", order(1)), change("c", order(2, name=None))], section)
    digest = hashlib.sha256(b"pepperorder 1").hexdigest()
    assert [row["name"] for row in out.after.to_pylist()] == [digest, None]


def test_a_mask_that_cannot_hide_is_refused() -> None:
    with pytest.raises(Usage, match=r"public\.orders\.count is int4: only text can be masked"):
        through([change("c", order(1))], {"type": "mask", "columns": ["count"]})


def test_route_gives_tables_another_name() -> None:
    section = {"type": "route", "regex": r"public\.(?<name>.*)", "replacement": "raw.${name}_v1"}
    assert through([change("c", order(1))], section).table.table == "raw.orders_v1"


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"type": "filtr"}, "did you mean 'filter'"),
        ({"type": "filter"}, "'condition' is missing"),
        ({"type": "filter", "condition": "true", "condtion": 1}, "did you mean 'condition'"),
        ({"type": "route", "regex": "(", "replacement": "x.y"}, "not a regular expression"),
        ({"type": "route", "regex": "(.*)", "replacement": "$2.x"}, "has no group '2'"),
        ({"type": "columns"}, "either include or exclude"),
    ],
)
def test_a_wrong_section_is_an_error_that_names_it(section: dict[str, Any], says: str) -> None:
    with pytest.raises(Usage) as error:
        build_chain([section])
    assert says in str(error.value)


def test_a_transform_of_changes_cannot_follow_one_of_events() -> None:
    with pytest.raises(Usage, match="put it before"):
        build_chain([{"type": "flatten"}, {"type": "filter", "condition": "true"}])


def test_column_options_hide_rows_as_they_hide_events() -> None:
    given = {
        "column.exclude.list": r"public\.orders\.(id|count)",
        "column.truncate.to.3.chars": "public.orders.name",
    }
    rules = ColumnRulesTransform(parse_options(DebeziumOptions, given, where="test"))
    out = rules.apply(batch([change("c", order(1))]))
    assert out.after.to_pylist() == [{key: value for key, value in order(1, name="ord").items() if key != "count"}]
    assert rules.table(ORDERS) == out.table


def test_a_constant_mask_of_the_key_is_refused() -> None:
    table = dataclasses.replace(ORDERS, key=("name",))
    given = {"column.mask.with.5.chars": "public.orders.name"}
    rules = ColumnRulesTransform(parse_options(DebeziumOptions, given, where="test"))
    with pytest.raises(Usage, match="rows would become one"):
        rules.apply(batch([change("c", order(1))], table))
