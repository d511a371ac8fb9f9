"""Templates, and how a batch is cut into blocks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headwater.formats import kernels, text
from headwater.formats.text import PACK, Slot, Template, Text, blocks


def strings(*values: str | None) -> Text:
    return Text.from_arrow(pa.array(values, pa.string()))


def test_a_template_puts_columns_between_literals() -> None:
    template = Template((Slot("<"), Slot("|")), ">")
    filled = template.fill([strings("a", "bcd"), strings("", "ü")], 2)
    assert filled.to_arrow().to_pylist() == ["<a|>", "<bcd|ü>"]


def test_every_state_has_its_own_text() -> None:
    column = strings("a", None, "c", "d").marked(np.array([False, False, True, False]), kernels.UNAVAILABLE)
    template = Template((Slot("=", null="none", unavailable="gone"),), "")
    assert template.fill([column], 4).to_arrow().to_pylist() == ["=a", "=none", "=gone", "=d"]


def test_the_last_literal_can_be_given_anew() -> None:
    assert Template((Slot(""),), "x").fill([strings("a")], 1, end="y").to_arrow().to_pylist() == ["ay"]


def test_rows_can_be_taken_in_any_order_and_packed_again() -> None:
    taken = strings("a", None, "ccc").take(np.array([2, 1, 0, 2]))
    assert taken.to_arrow().to_pylist() == ["ccc", None, "a", "ccc"]
    assert PACK.fill([taken], 4).to_arrow().to_pylist() == ["ccc", "", "a", "ccc"]


def test_a_slice_of_an_array_is_read_where_it_lies() -> None:
    array = pa.array(["skip", "a", None, "b", "skip"])[1:4]
    assert Text.from_arrow(array).to_arrow().to_pylist() == ["a", None, "b"]


def test_long_rows_make_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 1000)
    records = pa.record_batch({"c": ["x" * 10] * 8 + ["y" * 5000] + ["x" * 10] * 7})
    parts = list(blocks(records))
    assert [begin for begin, _ in parts] == list(np.cumsum([0, *(part.num_rows for _, part in parts[:-1])]))
    assert pa.Table.from_batches(part for _, part in parts).to_pylist() == records.to_pylist()
    assert all(part.num_rows == 1 or part.nbytes <= 1000 for _, part in parts)
    # What all rows have in common counts as well.
    assert max(part.num_rows for _, part in blocks(records.slice(0, 8), constant=400)) == 2
