"""Every value kernel against its plain twin, over fixed and random texts; errors that never show a value."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import Unrepresentable
from headwater.event import Column
from headwater.sources.postgres import nested_kernels as nested
from headwater.sources.postgres import time_kernels as times
from headwater.sources.postgres import value_kernels as kernels
from headwater.sources.postgres import values
from headwater.sources.postgres.types import builtin_column

INT4 = (-(2**31), 2**31 - 1)
INT8 = (-(2**63), 2**63 - 1)


def numeric(precision: int, scale: int) -> Column:
    return builtin_column("c", 1700, ((precision << 16) | scale) + 4)


def scattered(texts: Sequence[bytes | None], seed: int = 5) -> tuple[Any, Any, Any]:
    """The texts in shuffled order with rubbish between them, and where each one is."""
    order = list(range(len(texts)))
    random.Random(seed).shuffle(order)  # noqa: S311
    data, starts, lengths = bytearray(b"rubbish"), np.zeros(len(texts), np.int64), np.full(len(texts), -1, np.int32)
    for i in order:
        text = texts[i]
        if text is not None:
            starts[i], lengths[i] = len(data), len(text)
            data += text + b'7"}'
    return np.frombuffer(data, np.uint8), starts, lengths


def parse(column: Column, texts: Sequence[str | None]) -> pa.Array:
    parsed = values.parse(column, *scattered([None if text is None else text.encode() for text in texts]))
    parsed.validate(full=True)
    assert parsed.type == column.arrow
    assert len(parsed) == len(texts)
    return parsed


def plain_numbers(array: pa.Array) -> list[Any]:
    """What an Arrow array holds, where Python's own types would not reach (infinity, years behind 9999)."""
    if pa.types.is_timestamp(array.type):
        return array.view(pa.int64()).to_pylist()
    return array.view(pa.int32()).to_pylist() if pa.types.is_date32(array.type) else array.to_pylist()


@dataclass(frozen=True)
class Case:
    """A type's kernel (by way of `parse`), its twin, and texts to hold them to."""

    column: Column
    twin: Callable[[str], Any]
    texts: Sequence[str]
    random_texts: st.SearchStrategy[str]
    # Almost right: what these letters make is usually refused.
    alphabet: str
    refused: Sequence[str] = field(default_factory=list)


clocks = st.builds(
    "{:02}:{:02}:{:02}{}".format,
    st.integers(0, 24),
    st.integers(0, 60),
    st.integers(0, 60),
    st.sampled_from(["", ".5", ".000001", ".999999", ".1234567", "."]),
)
days = st.builds(
    "{:04}-{:02}-{:02}".format,
    st.one_of(st.integers(0, 9999), st.integers(290_000, 300_000), st.integers(5_870_000, 5_890_000)),
    st.integers(0, 13),
    st.integers(0, 32),
)
eras = st.sampled_from(["", "", "", " BC"])
offsets = st.sampled_from(["+00", "-08", "+05:30", "-00:19:32", "+15:59:59", "+24", "+05:60", "+5", "", "+053"])
decimals = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.integers(0, 10**39),
    st.sampled_from(["", ".0", ".15", ".0000000001"]),
)
letters = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)


def array_text(elements: list[str | None]) -> str:
    """As the server writes it, with every element quoted."""
    quoted = (
        '"' + element.replace("\\", "\\\\").replace('"', '\\"') + '"' for element in elements if element is not None
    )
    return "{" + ",".join("NULL" if element is None else next(quoted) for element in elements) + "}"


def hstore_text(pairs: list[tuple[str, str | None]]) -> str:
    def quote(text: str | None) -> str:
        return "NULL" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return ", ".join(f"{quote(key)}=>{quote(item)}" for key, item in pairs)


CASES = {
    "smallint": Case(
        builtin_column("c", 21, -1),
        lambda text: kernels.int_plain(text, -(2**15), 2**15 - 1),
        ["0", "-1", "32767", "-32768"],
        st.integers(-40_000, 40_000).map(str),
        "-0123456789",
        ["32768", "-32769", "", "-", "+1", " 1", "1 ", "0x1", "1.0"],
    ),
    "integer": Case(
        builtin_column("c", 23, -1),
        lambda text: kernels.int_plain(text, *INT4),
        ["0", "2147483647", "-2147483648"],
        st.integers(-(2**32), 2**32).map(str),
        "-0123456789",
        ["2147483648", "-2147483649", "99999999999999999999"],
    ),
    "bigint": Case(
        builtin_column("c", 20, -1),
        lambda text: kernels.int_plain(text, *INT8),
        ["9223372036854775807", "-9223372036854775808"],
        st.integers(-(10**20), 10**20).map(str),
        "-0123456789",
        ["9223372036854775808", "-9223372036854775809", "18446744073709551616"],
    ),
    "boolean": Case(
        builtin_column("c", 16, -1),
        lambda text: bool(kernels.bool_plain(text)),
        ["t", "f"],
        st.sampled_from(["t", "f"]),
        "tf1",
        ["", "true", "T", "tt"],
    ),
    "date": Case(
        builtin_column("c", 1082, -1),
        times.date_plain,
        ["1970-01-01", "2000-02-29", "4714-11-24 BC", "0001-12-31 BC", "5874897-12-31", "infinity", "-infinity"],
        st.builds("{}{}".format, days, eras),
        "0129- BC",
        ["1900-02-29", "2024-13-01", "2024-00-10", "0000-01-01", "99-01-01", "2024-1-1", "infinit", "2024-01-01 "],
    ),
    "timestamp": Case(
        builtin_column("c", 1114, -1),
        lambda text: times.timestamp_plain(text, False),
        ["1970-01-01 00:00:00", "1969-12-31 23:59:59.999999", "4714-11-24 00:00:00 BC", "infinity", "-infinity"],
        st.builds("{} {}{}".format, days, clocks, eras),
        "012:.- BC",
        ["2024-01-01", "2024-01-01T00:00:00", "2024-01-01 00:00:00+00", "294247-01-10 04:00:54.775807"],
    ),
    "timestamptz": Case(
        builtin_column("c", 1184, -1),
        lambda text: times.timestamp_plain(text, True),
        ["1970-01-01 00:00:00+00", "294247-01-10 04:00:54.775806+00", "0044-03-15 12:00:00-00:19:32 BC", "-infinity"],
        st.builds("{} {}{}{}".format, days, clocks, offsets, eras),
        "012:.-+ BC",
        ["2024-01-01 00:00:00", "294247-01-10 04:00:54.775807+00", "294276-12-31 23:59:59.999999+00"],
    ),
    "numeric(38,10)": Case(
        numeric(38, 10),
        lambda text: kernels.decimal_plain(text, 38, 10),
        ["0", "-0.0000000001", "9" * 28 + "." + "9" * 10, "-" + "9" * 28 + "." + "9" * 10, "18446744073709551616"],
        decimals,
        "-.0189",
        ["NaN", "Infinity", "-Infinity", "1" + "0" * 28, "0.00000000001", "", "-", ".", "1e5", "+1"],
    ),
    "numeric(3,0)": Case(
        numeric(3, 0),
        lambda text: kernels.decimal_plain(text, 3, 0),
        ["999", "-999", "000"],
        decimals,
        "-.09",
        ["1000", "1.0"],
    ),
    "bytea": Case(
        builtin_column("c", 17, -1),
        kernels.hex_plain,
        ["\\x", "\\x00ff", "\\xDEADBEEF"],
        st.binary(max_size=80).map(lambda raw: "\\x" + raw.hex()),
        "\\x0fg ",
        ["", "\\", "x00", "\\x0", "\\x0g", "\\000abc", "\\x 00"],
    ),
    "text": Case(
        builtin_column("c", 25, -1),
        str,
        ["", "a", "š" * 100, "NULL", "\\N"],
        st.text(st.characters(exclude_categories=["Cs"])),
        "aé",
    ),
    "text[]": Case(
        builtin_column("c", 1009, -1),
        nested.array_plain,
        ["{}", "{a,NULL,null}", '{"NULL","","a\\"b\\\\","{x,y}"," ž "}', "{ž}"],
        st.lists(st.one_of(st.none(), letters), max_size=6).map(array_text),
        '{}",\\aN',
        ["", "{", "a", "{{a}}", "[0:1]={a,b}", "{a,}", "{,a}", '{"a"b}', '{a"b"}', '{"a}', '{"a\\"}', "{a}}"],
    ),
    "box[]": Case(
        builtin_column("c", 1020, -1),
        lambda text: nested.array_plain(text, ";"),
        ["{(1,1),(0,0)}", "{(1,1),(0,0);(2,2),(0,0);NULL}"],
        st.sampled_from(["{}", "{(1,1),(0,0)}"]),
        "{};,(1)",
    ),
    "integer[]": Case(
        builtin_column("c", 1007, -1),
        lambda text: [None if e is None else kernels.int_plain(e, *INT4) for e in nested.array_plain(text)],
        ["{}", "{1}", "{-1,NULL,2147483647}", '{"1"}'],
        st.lists(st.one_of(st.none(), st.integers(*INT4).map(str)), max_size=8).map(array_text),
        "{},-1N",
    ),
    "hstore": Case(
        Column("c", "hstore", pa.map_(pa.string(), pa.string())),
        nested.hstore_plain,
        ["", '"a"=>"1"', '"a"=>NULL, "b\\"=>"=>"", ""=>"NULL"', '"ž"=>"\\\\"'],
        st.lists(st.tuples(letters, st.one_of(st.none(), letters)), max_size=4).map(hstore_text),
        '"=>, aNUL\\',
        ["a", '"a"', '"a"=>', '"a"=>"', '"a"=>1', '"a"=>"1",', '"a"=>"1","b"=>"2"', 'a=>"1"', '"a"=>"1", '],
    ),
}
by_type = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def agree(case: Case, texts: Sequence[str | None]) -> None:
    """Kernel and twin give the same values, or refuse the same value first."""
    expected: list[Any] = []
    refused = None
    for row, text in enumerate(texts):
        try:
            expected.append(None if text is None else case.twin(text))
        except ValueError:
            refused = row
            break
    if refused is None:
        assert plain_numbers(parse(case.column, texts)) == expected
        return
    with pytest.raises(Unrepresentable) as caught:
        parse(case.column, texts)
    # The index is the row's, except where an element of an array was refused by its own parser.
    if not pa.types.is_list(case.column.arrow) or pa.types.is_string(case.column.arrow.value_type):
        assert re.search(rf"value {refused} of {len(texts)},", str(caught.value))


@by_type
def test_kernel_and_twin_agree_on_fixed_texts(case: Case) -> None:
    agree(case, list(case.texts))
    agree(case, [None, *case.texts, None, *reversed(case.texts)])
    assert all(len(parse(case.column, [text])) == 1 for text in case.texts)


@by_type
def test_a_text_of_another_form_is_refused_at_its_index_without_being_shown(case: Case) -> None:
    for text in case.refused:
        with pytest.raises(ValueError, match=r".*"):
            case.twin(text)
        agree(case, [case.texts[0], None, text, case.texts[0]])


@by_type
@settings(max_examples=15, deadline=None, print_blob=True)
@given(data=st.data())
def test_kernel_and_twin_agree_on_random_texts(case: Case, data: st.DataObject) -> None:
    agree(case, data.draw(st.lists(st.one_of(st.none(), case.random_texts), max_size=20)))


@by_type
@settings(max_examples=15, deadline=None, print_blob=True)
@given(data=st.data())
def test_kernel_and_twin_agree_on_almost_right_texts(case: Case, data: st.DataObject) -> None:
    text = data.draw(case.random_texts)
    at = data.draw(st.integers(0, len(text)))
    spoiled = text[:at] + data.draw(st.text(case.alphabet, max_size=3)) + text[data.draw(st.integers(at, len(text))) :]
    agree(case, [spoiled])


@by_type
def test_no_rows_and_only_nulls(case: Case) -> None:
    assert parse(case.column, []).to_pylist() == []
    assert parse(case.column, [None, None]).to_pylist() == [None, None]
    empty = np.zeros(0, np.uint8)
    unchanged = values.parse(case.column, empty, np.zeros(2, np.int64), np.array([-1, -2], np.int32))
    assert unchanged.null_count == 2


@settings(print_blob=True)
@given(st.lists(st.binary(min_size=8, max_size=8)))
def test_floats_come_back_bit_by_bit(raws: list[bytes]) -> None:
    doubles = [struct.unpack("<d", raw)[0] for raw in raws]
    singles = [np.frombuffer(raw[:4], np.float32)[0] for raw in raws]
    texts = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    parsed = parse(builtin_column("c", 701, -1), [texts.get(repr(value), repr(value)) for value in doubles])
    small = parse(builtin_column("c", 700, -1), [texts.get(str(value), str(value)) for value in singles])
    for array, wanted in ((parsed, np.array(doubles, np.float64)), (small, np.array(singles, np.float32))):
        found = array.to_numpy(zero_copy_only=False)
        kind = f"i{found.dtype.itemsize}"
        same = (found.view(kind) == wanted.view(kind)) | (np.isnan(found) & np.isnan(wanted))
        assert same.all()


def test_every_day_of_four_hundred_years_is_its_number() -> None:
    # Then the calendar repeats itself.
    count = 146_097
    first = (date(1600, 1, 1) - date(1970, 1, 1)).days
    days = np.arange(first, first + count)
    texts = np.datetime_as_string(days.astype("datetime64[D]")).tolist()
    assert plain_numbers(parse(builtin_column("c", 1082, -1), texts)) == days.tolist()


def test_strided_and_writable_arrays_are_welcome() -> None:
    data = np.array([49, 50, 51, 52], np.uint8)
    bounds = np.array([[0, 2], [9, 9], [2, 2]], np.int64)
    parsed = values.parse(builtin_column("c", 23, -1), data, bounds[::2, 0], bounds[::2, 1].astype(np.int32))
    assert parsed.to_pylist() == [12, 34]


def test_text_that_is_not_utf8_is_refused() -> None:
    for text in (b"\xff", b"caf\xe9"):
        with pytest.raises(Unrepresentable, match="not UTF-8"):
            values.parse(builtin_column("c", 25, -1), *scattered([b"ok", text]))


@pytest.mark.parametrize(
    ("column", "text", "reason"),
    [
        (numeric(10, 2), "NaN", "NaN or Infinity in a decimal column"),
        (builtin_column("c", 1184, -1), "294276-12-31 23:59:59+00", "a timestamp behind 294247-01-10"),
        (builtin_column("c", 1007, -1), "{{31337}}", "an array of more than one dimension"),
        (builtin_column("c", 1007, -1), "[0:0]={31337}", "an array with explicit lower bounds"),
        (builtin_column("c", 701, -1), "31337x", "not the text of this type"),
    ],
)
def test_an_unrepresentable_value_names_the_column_the_reason_and_the_remedy(
    column: Column, text: str, reason: str
) -> None:
    with pytest.raises(Unrepresentable) as caught:
        values.parse(column, *scattered([text.encode()]), table="public.orders")
    said = str(caught.value)
    assert "public.orders.c" in said
    assert reason in said
    assert 'source.cast: {"public.orders.c": string}' in said
    assert "31337" not in said
    assert caught.value.__context__ is None or caught.value.__suppress_context__
