"""Transforms and column options in Spark's `.option()`: what a reader makes of them, without a server."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.formats.change_builder import batch, change, order

from headwater.errors import Usage
from headwater.formats.debezium_options import DebeziumOptions
from headwater.options import parse_options
from headwater.transforms.reading import reader_chain, with_properties

pytest.importorskip("pyspark")

URL = "postgresql://cdc@127.0.0.1:1/none"


def reading(**options: Any) -> Any:
    from headwater.spark.datasource import Reading

    # As Spark hands them over: names in lower case.
    return Reading({"url": URL, **{name.lower(): value for name, value in options.items()}})


def test_a_reader_takes_connect_s_transforms_whatever_the_case_of_their_names() -> None:
    found = reading(
        **{
            "transforms": "Unwrap",
            "transforms.Unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
            "transforms.Unwrap.add.fields": "op",
            "tasks.max": "1",
        }
    )
    assert [transform.type for transform in found.transforms.events] == ["flatten"]
    assert found.transforms.events[0].options.add_fields == ["op"]


def test_a_reader_of_rows_refuses_transforms_of_events() -> None:
    options = {"table": "public.t", "transforms": "a", "transforms.a.type": "flatten"}
    with pytest.raises(Usage, match="works on Debezium's events, but rows are read"):
        reading(**options)


def test_a_salt_keeps_its_case_in_properties_only() -> None:
    name = "column.mask.hash.v2.SHA-256.with.salt.PePPer"
    with pytest.raises(Usage, match="lower-cases"):
        reading(**{name: "public.t.x"})
    found = reading(properties=f"# hidden\n{name}=public.t.x")
    assert found.debezium.column_rules == {name: "public.t.x"}


def test_column_options_hold_for_rows() -> None:
    given = {"column.exclude.list": "public.orders.name"}
    chain = reader_chain([], parse_options(DebeziumOptions, given, where="test"), rows=True)
    (out,) = chain.apply_all([batch([change("c", order(1))])])
    assert "name" not in [column.name for column in out.table.columns]


def test_a_line_of_properties_that_is_none_is_refused() -> None:
    with pytest.raises(Usage, match="is no key=value"):
        with_properties({"properties": "a=1\nwhat is this"})
