"""Comparing two tables: what counts as a difference, and how it is told."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headwater.operate.compare import Difference, compare, differing

KEY = ("id",)


def found(source: dict[str, Any], lake: dict[str, Any], key: tuple[str, ...] = KEY) -> Difference:
    """The difference of two tables, the lake's with the source's types."""
    left = pa.table(source)
    difference = Difference()
    compare(left, pa.table(lake, schema=left.schema), key, difference)
    return difference


def test_the_same_rows_in_another_order_are_equal() -> None:
    difference = found({"id": [1, 2, 3], "name": ["a", None, ""]}, {"id": [3, 1, 2], "name": ["", "a", None]})

    assert difference.equal
    assert (difference.source_rows, difference.lake_rows) == (3, 3)


def test_missing_and_extra_keys_are_counted_and_named() -> None:
    difference = found({"id": [1, 2, 3], "v": [0, 0, 0]}, {"id": [2, 4], "v": [0, 0]})

    assert (difference.missing, difference.extra, difference.different) == (2, 1, 0)
    assert difference.named == [("missing", {"id": "1"}), ("missing", {"id": "3"}), ("extra", {"id": "4"})]


def test_a_key_that_is_in_the_lake_twice_is_a_difference_even_when_the_counts_agree() -> None:
    difference = found({"id": [1, 2], "v": [5, 5]}, {"id": [1, 1], "v": [5, 5]})

    assert (difference.repeated, difference.missing) == (1, 1)
    assert not difference.equal


def test_other_values_are_told_by_key_and_column_without_the_value() -> None:
    difference = found({"id": [1, 2], "secret": ["canary", "x"]}, {"id": [1, 2], "secret": ["other", "x"]})

    assert (difference.different, difference.columns) == (1, {"secret"})
    assert difference.named == [("different", {"id": "1"})]
    assert "canary" not in repr(difference)


def test_only_the_first_keys_are_named_and_all_are_counted() -> None:
    difference = found({"id": list(range(100))}, {"id": []})

    assert difference.missing == 100
    assert len(difference.named) == 5


def test_a_composite_key_needs_all_its_columns() -> None:
    rows = {"order_id": [1, 1, 2], "line": [1, 2, 1], "sku": ["a", "b", "c"]}
    swapped = {"order_id": [1, 1, 2], "line": [1, 2, 1], "sku": ["b", "a", "c"]}

    assert found(rows, rows, ("order_id", "line")).equal
    assert found(rows, swapped, ("order_id", "line")).different == 2


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        (None, "", pa.string()),
        ("a", "a ", pa.string()),
        (Decimal("1.10"), Decimal("1.11"), pa.decimal128(10, 2)),
        (0.0, -0.0, pa.float64()),
        (float("nan"), 0.0, pa.float32()),
        (None, 0.0, pa.float64()),
        ([0.0], [-0.0], pa.list_(pa.float64())),
        ([], None, pa.list_(pa.int64())),
        ([1, None], [1, 0], pa.list_(pa.int64())),
        ([[1], [2]], [[1, 2]], pa.list_(pa.list_(pa.int64()))),
        ([("k", None)], [("k", "")], pa.map_(pa.string(), pa.string())),
        (1, 2, pa.timestamp("us", tz="UTC")),
        (b"\x00", b"", pa.binary()),
        (True, None, pa.bool_()),
    ],
)
def test_values_that_look_alike_differ(left: Any, right: Any, kind: pa.DataType) -> None:
    one, other = pa.chunked_array([pa.array([left], kind)]), pa.chunked_array([pa.array([right], kind)])

    assert differing(one, other).tolist() == [True]
    assert differing(one, one).tolist() == [False]


@pytest.mark.parametrize("kind", [pa.float64(), pa.list_(pa.float64())])
def test_nan_equals_nan(kind: pa.DataType) -> None:
    nan = float("nan")
    values = [nan, 1.0] if pa.types.is_floating(kind) else [[nan], [1.0]]
    changed = [nan, 2.0] if pa.types.is_floating(kind) else [[nan], [2.0]]

    different = differing(pa.chunked_array([pa.array(values, kind)]), pa.chunked_array([pa.array(changed, kind)]))

    assert different.tolist() == [False, True]


def test_an_array_can_be_a_key() -> None:
    rows = {"id": [[1, 2], [3]], "v": [1, 2]}

    assert found(rows, rows).equal
    assert found(rows, {"id": [[1, 2], [4]], "v": [1, 2]}).missing == 1


def test_differences_of_the_parts_of_a_table_add_up() -> None:
    total = Difference()
    compare(pa.table({"id": [1, 2]}), pa.table({"id": [1]}), KEY, total)
    compare(pa.table({"id": [3]}), pa.table({"id": [3]}), KEY, total)

    assert (total.source_rows, total.lake_rows, total.missing) == (3, 2, 1)


def test_empty_tables_are_equal() -> None:
    empty = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))]).empty_table()
    difference = Difference()

    compare(empty, empty, KEY, difference)

    assert difference.equal
