"""Every kernel writes what its plain twin writes, for chosen values and for random ones."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.formats import kernels, number_kernels, plain, text_kernels, time_kernels, writers

# No deadline: a busy machine is not an error.
quick = settings(deadline=None, max_examples=20)

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=40)
FINITE_MICROS = st.integers(-210_866_803_200_000_000, 9_223_371_331_199_999_999)


def written(writer: writers.Writer, array: pa.Array) -> list[str | None]:
    return writer(array).to_arrow().to_pylist()


def with_nulls(values: list[Any]) -> list[Any]:
    """A null in front and in between, so that offsets are not what they seem."""
    return [None, *values, None, *values]


def check(writer: writers.Writer, twin: Callable[[Any], str], values: list[Any], kind: pa.DataType) -> None:
    given_values = with_nulls(values)
    expected = [None if value is None else twin(value) for value in given_values]
    array = pa.array(given_values, kind)
    assert written(writer, array) == expected
    # A slice shares the buffers of the whole.
    assert written(writer, array[1:]) == expected[1:]


def test_the_kernels_are_compiled() -> None:
    for kernel in (kernels.put, number_kernels.int_text, text_kernels.string_text, time_kernels.timestamp_text):
        assert kernel.signatures


@quick
@given(st.lists(INT64))
def test_whole_numbers(values: list[int]) -> None:
    edges = [0, 9, 10, 99, 100, 10**18, 10**19 // 10 - 1, -1, (1 << 63) - 1, -(1 << 63)]
    check(writers.int_text, plain.int_text, edges + values, pa.int64())


@quick
@given(st.lists(TEXT))
def test_strings_are_escaped_as_jackson_does(values: list[str]) -> None:
    edges = ["", '"', "\\", "\n\r\t\b\f", "\x00\x1f\x7f", "ü漢😀", "/", "a" * 100]
    check(writers.string_text, plain.string_text, edges + values, pa.string())


def test_escapes_are_written_in_the_short_form_or_in_upper_case() -> None:
    assert written(writers.string_text, pa.array(['\b\t\n\f\r"\\\x1f'])) == ['"\\b\\t\\n\\f\\r\\"\\\\\\u001F"']


@quick
@given(st.lists(st.binary(max_size=40)))
def test_bytes(values: list[bytes]) -> None:
    edges = [b"", b"\x00", b"\x00\xff", b"\xfb\xff\xbf", bytes(range(256))]
    check(writers.base64_text, plain.base64_text, edges + values, pa.binary())
    check(writers.base64_url_text, lambda raw: plain.base64_text(raw, url_safe=True), edges + values, pa.binary())
    check(writers.hex_text, plain.hex_text, edges + values, pa.binary())


@quick
@given(st.lists(st.booleans()))
def test_booleans(values: list[bool]) -> None:
    check(writers.bool_text, lambda value: "true" if value else "false", [True, False, *values], pa.bool_())


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (4.0, "4.0"),
        (0.001, "0.001"),
        (0.0009999, "9.999E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1e21, "1.0E21"),
        (5e-324, "4.9E-324"),
        (math.nan, '"NaN"'),
        (math.inf, '"Infinity"'),
        (-math.inf, '"-Infinity"'),
        (123456.789, "123456.789"),
    ],
)
def test_floats_have_the_form_of_java(number: float, text: str) -> None:
    if text == "4.9E-324":
        # Java prints two digits of the smallest double, everybody else one; both read back as the same.
        text = "5.0E-324"
    assert written(writers.float_text, pa.array([number])) == [text]
    assert plain.float_text(repr(number)) == text


@quick
@given(st.lists(st.floats()))
def test_doubles(values: list[float]) -> None:
    check(writers.float_text, lambda value: plain.float_text(repr(value)), values, pa.float64())


@quick
@given(st.lists(st.floats(width=32, allow_nan=False)))
def test_reals_keep_their_own_shortest_digits(values: list[float]) -> None:
    for value, text in zip(values, written(writers.float_text, pa.array(values, pa.float32())), strict=True):
        assert text is not None
        assert pa.scalar(float(text.strip('"')), pa.float32()).as_py() == value


@pytest.mark.parametrize(
    ("unscaled", "text"),
    [
        *((0, "AA=="), (110, "bg=="), (-110, "kg=="), (128, "AIA="), (-128, "gA=="), (255, "AP8=")),
        *((12345, "MDk="), (-12345, "z8c="), (101111, "AYr3"), (123411, "AeIT")),
    ],
)
def test_decimals_are_the_bytes_that_java_has(unscaled: int, text: str) -> None:
    array = pa.array([Decimal(unscaled).scaleb(-2)], pa.decimal128(20, 2))
    assert written(writers.decimal_base64, array) == [f'"{text}"']
    assert plain.decimal_base64(unscaled) == f'"{text}"'


@quick
@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1)), st.integers(0, 38))
def test_decimals(values: list[int], scale: int) -> None:
    edges = [0, 1, -1, 10**37, -(10**37), (1 << 63) - 1, 1 << 63, -(1 << 64), 10**18, 10**19]
    numbers = {_exact(value, scale): value for value in edges + values}
    kind = pa.decimal128(38, scale)

    def unscaled(number: Decimal) -> int:
        return numbers[number]

    check(writers.decimal_base64, lambda n: plain.decimal_base64(unscaled(n)), list(numbers), kind)
    check(writers.decimal_text, lambda n: plain.decimal_text(unscaled(n), scale), list(numbers), kind)
    check(writers.decimal_number, lambda n: plain.decimal_text(unscaled(n), scale, quoted=False), list(numbers), kind)


def _exact(unscaled: int, scale: int) -> Decimal:
    """Without the rounding that Decimal's arithmetic does at 28 digits."""
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


@quick
@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=5).map(lambda n: f"{n:f}")))
def test_numbers_of_any_scale(values: list[str]) -> None:
    short = ["0", "0.000", "-0.5", "100", "123.4500", "0.000001", "-99.90"]
    check(writers.variable_scale, plain.variable_scale, short, pa.string())
    check(writers.variable_scale, plain.variable_scale, [*short, "9" * 5000, "-0." + "1" * 40, *values], pa.string())


@quick
@given(st.lists(st.integers(-(10**9), 10**9)), st.integers(0, 6))
def test_numbers_too_wide_for_decimal128(values: list[int], scale: int) -> None:
    texts = [plain.decimal_text(value, scale, quoted=False) for value in values]

    def twin(text: str) -> str:
        return plain.decimal_base64(plain.unscaled(text, scale))

    check(writers.number_base64(scale), twin, texts, pa.string())
    check(writers.number_base64(scale), twin, [*texts, "9" * 60], pa.string())


def test_a_number_that_is_none_fails_alone() -> None:
    text = writers.variable_scale(pa.array(["1.5", "NaN", None, "Infinity"]))
    assert text.state.tolist() == [kernels.VALUE, kernels.FAILED, kernels.NULL, kernels.FAILED]


@quick
@given(st.lists(FINITE_MICROS, max_size=20), st.integers(-1, 6), st.booleans())
def test_timestamps(values: list[int], fraction: int, zone: bool) -> None:
    edges = [0, -1, 1, 86_400_000_000 - 1, -62_167_219_200_000_000, -62_167_219_200_000_001, 253_402_300_800_000_000]
    check(
        writers.timestamp_text(fraction, zone=zone),
        lambda value: plain.timestamp_text(value, fraction, zone),
        edges + values,
        pa.int64(),
    )


# The calendar repeats every 400 years.
CYCLE = 146_097 * 86_400_000_000


def _micros(year: int, month: int, day: int) -> int:
    return (dt.date(year, month, day) - dt.date(1970, 1, 1)).days * 86_400_000_000


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (1_478_267_490_123_456, "2016-11-04T13:51:30.123456Z"),
        (_micros(2216, 11, 4) + 47 * CYCLE + 49_890_123_456, "+21016-11-04T13:51:30.123456Z"),
        (_micros(2088, 1, 1) - 17 * CYCLE, "-4712-01-01T00:00:00.000000Z"),
        ((1 << 63) - 1, "infinity"),
        (-(1 << 63), "-infinity"),
    ],
)
def test_years_beyond_four_digits_carry_a_sign(micros: int, text: str) -> None:
    assert written(writers.timestamp_text(6), pa.array([micros])) == [f'"{text}"']


@quick
@given(st.lists(st.integers(-2_440_588, 2_145_031_948)))
def test_dates(values: list[int]) -> None:
    edges = [0, -1, 17109, -719_528, -719_529, 2_932_896, 2_932_897]
    check(writers.date_text(0, 0), lambda days: plain.date_text(days, True), edges + values, pa.int32())
    check(writers.calendar_text, lambda days: plain.date_text(days, False), edges + values, pa.int32())


def test_infinite_dates_are_words_in_the_calendar_form() -> None:
    array = pa.array([(1 << 31) - 1, None, -(1 << 31), 0], pa.int32())
    assert written(writers.calendar_text, array) == ['"infinity"', None, '"-infinity"', '"1970-01-01"']


@quick
@given(st.lists(st.integers(0, 86_400_000_000)))
def test_times_of_day(values: list[int]) -> None:
    texts = [plain.clock_of(value, -1) for value in [0, 86_400_000_000, 1, *values]]
    check(writers.clock_text(), lambda text: str(plain.clock_micros(text)), texts, pa.string())
    check(writers.clock_text(divide=1000), lambda text: str(plain.clock_micros(text) // 1000), texts, pa.string())


@pytest.mark.parametrize("text", ["", "1:02:03", "01:02:03.", "01-02-03", "01:02:03.1234567", "aa:bb:cc"])
def test_what_is_no_time_of_day_fails(text: str) -> None:
    assert plain.clock_micros(text) == -1
    assert writers.clock_text()(pa.array([text])).state.tolist() == [kernels.FAILED]


@quick
@given(st.lists(st.lists(st.one_of(st.none(), TEXT), max_size=5)))
def test_lists(values: list[list[str | None]]) -> None:
    def twin(elements: list[str | None]) -> str:
        return plain.list_text([None if element is None else plain.string_text(element) for element in elements])

    check(writers.list_text(writers.string_text), twin, [[], [None], ["a", None], *values], pa.list_(pa.string()))


def test_a_list_fails_when_an_element_does() -> None:
    write = writers.list_text(writers.variable_scale)
    assert write(pa.array([["1"], ["1", "NaN"], None, []])).state.tolist() == [0, kernels.FAILED, kernels.NULL, 0]


@quick
@given(st.lists(st.dictionaries(TEXT, st.one_of(st.none(), TEXT), max_size=4)))
def test_maps(values: list[dict[str, str | None]]) -> None:
    kind = pa.map_(pa.string(), pa.string())
    array = pa.array([None if value is None else list(value.items()) for value in with_nulls(values)], kind)
    read = [None if text is None else json.loads(text) for text in written(writers.map_text, array)]
    assert read == with_nulls(values)
    texts = written(writers.as_string(writers.map_text), array)
    assert [None if text is None else json.loads(json.loads(text)) for text in texts] == with_nulls(values)


@quick
@given(st.lists(st.integers(0, (1 << 63) - 1)))
def test_log_addresses(values: list[int]) -> None:
    check(writers.lsn_text, plain.lsn_text, [0, 0x16B374D848, 1 << 32, *values], pa.int64())


@quick
@given(st.lists(st.tuples(TEXT, TEXT)))
def test_same_text_compares_row_by_row(pairs: list[tuple[str, str]]) -> None:
    pairs = [*pairs, ("a", "a"), ("a", "b"), ("", ""), ("ab", "a")]
    left, right = (writers.Text.from_arrow(pa.array(list(side))) for side in zip(*pairs, strict=True))
    same = kernels.same_text(left.data, left.begins, left.ends, right.data, right.begins, right.ends)
    assert same.tolist() == [a == b for a, b in pairs]
