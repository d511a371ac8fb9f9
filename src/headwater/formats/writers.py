"""Writers: Arrow values → JSON text, a column at a time. A source chooses one writer per column.

The common types go through compiled kernels. Rare ones go through `each`, a plain function of one text, applied
to the distinct values only. A value that its JSON form cannot hold comes out in the state FAILED; the format
decides what happens then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.formats import decimal_kernels, kernels, number_kernels, plain, text_kernels, time_kernels
from headwater.formats.text import NONE, Bytes, Longs, Slot, Template, Text, bytes_of, literal, null_state

Writer = Callable[[pa.Array], Text]

NANOS_LIMIT = np.iinfo(np.int64).max // 1000


def longs_of(array: pa.Array) -> Longs:
    """Numbers, dates and timestamps as 64-bit integers; anything where null."""
    width = array.type.bit_width
    kind = {16: np.int16, 32: np.int32, 64: np.int64}[width]
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(len(array), dtype=np.int64)
    values = np.frombuffer(data, dtype=kind)[array.offset : array.offset + len(array)]
    return values.astype(np.int64, copy=False)


def words_of(array: pa.Array) -> Longs:
    """decimal128 values as pairs of 64-bit words, low word first."""
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(2 * len(array), dtype=np.int64)
    return np.frombuffer(data, dtype=np.int64)[2 * array.offset : 2 * (array.offset + len(array))]


def long_text(values: Longs, state: Bytes = NONE) -> Text:
    """Whole numbers that are no Arrow array yet."""
    out = np.empty(20 * len(values), dtype=np.uint8)
    ends = np.zeros(len(values) + 1, dtype=np.int64)
    size = number_kernels.int_text(np.ascontiguousarray(values), out, ends)
    return Text.from_ends(out[:size], ends, state)


def int_text(array: pa.Array) -> Text:
    """smallint, int, bigint; a date as its days, a timestamp as its microseconds."""
    return long_text(longs_of(array), null_state(array))


def bool_text(array: pa.Array) -> Text:
    """true, false."""
    truth = np.asarray(pc.fill_null(array, False).to_numpy(zero_copy_only=False), dtype=bool)
    words = literal("falsetrue")
    # Both words lie in one buffer; a row copies its part of it.
    ends = np.zeros(len(array) + 1, dtype=np.int64)
    np.cumsum(np.where(truth, 4, 5), out=ends[1:])
    out = np.empty(ends[-1], dtype=np.uint8)
    starts = ends[:-1]
    for letter in range(5):
        rows = ~truth if letter == 4 else slice(None)
        out[starts[rows] + letter] = np.where(truth[rows], words[min(5 + letter, 8)], words[letter])
    return Text.from_ends(out, ends, null_state(array))


def float_text(array: pa.Array) -> Text:
    """real and double precision in Java's form."""
    data, offsets = bytes_of(pc.cast(pc.fill_null(array, 0.0), pa.string()))
    ends = np.zeros(len(offsets), dtype=np.int64)
    out = np.empty(int(offsets[-1] - offsets[0]) + 10 * len(array), dtype=np.uint8)
    size = number_kernels.float_text(data, offsets, out, ends)
    return Text.from_ends(out[:size], ends, null_state(array))


def string_text(array: pa.Array) -> Text:
    """Quoted and escaped text."""
    data, offsets = bytes_of(array)
    used = data[offsets[0] : offsets[-1]]
    ends = np.zeros(len(offsets), dtype=np.int64)
    out = np.empty(len(used) + 5 * text_kernels.count_escapes(used) + 2 * len(array), dtype=np.uint8)
    size = text_kernels.string_text(data, offsets, out, ends)
    return Text.from_ends(out[:size], ends, null_state(array))


def base64_text(array: pa.Array, alphabet: Bytes = text_kernels.BASE64) -> Text:
    """bytea, base64 with padding: Connect's form of bytes."""
    data, offsets = bytes_of(array)
    ends = np.zeros(len(offsets), dtype=np.int64)
    out = np.empty(int(offsets[-1] - offsets[0]) * 4 // 3 + 6 * len(array), dtype=np.uint8)
    size = text_kernels.base64_text(data, offsets, alphabet, out, ends)
    return Text.from_ends(out[:size], ends, null_state(array))


def base64_url_text(array: pa.Array) -> Text:
    """bytea, base64 in the alphabet that is safe in addresses."""
    return base64_text(array, text_kernels.BASE64_URL)


def hex_text(array: pa.Array) -> Text:
    """bytea, lower-case hexadecimal digits."""
    data, offsets = bytes_of(array)
    ends = np.zeros(len(offsets), dtype=np.int64)
    out = np.empty(int(offsets[-1] - offsets[0]) * 2 + 2 * len(array), dtype=np.uint8)
    size = text_kernels.hex_text(data, offsets, out, ends)
    return Text.from_ends(out[:size], ends, null_state(array))


def _words_base64(words: Longs, state: Bytes) -> Text:
    out = np.empty(26 * (len(words) // 2), dtype=np.uint8)
    ends = np.zeros(len(words) // 2 + 1, dtype=np.int64)
    size = decimal_kernels.decimal_base64(words, out, ends)
    return Text.from_ends(out[:size], ends, state)


def decimal_base64(array: pa.Array) -> Text:
    """decimal128 as Connect's Decimal: the unscaled integer's bytes."""
    return _words_base64(words_of(array), null_state(array))


def decimal_text(array: pa.Array, quoted: bool = True) -> Text:
    """decimal128 in plain notation with all digits of its scale."""
    scale = array.type.scale
    out = np.empty((44 + abs(scale)) * len(array), dtype=np.uint8)
    ends = np.zeros(len(array) + 1, dtype=np.int64)
    size = decimal_kernels.decimal_text(words_of(array), scale, int(quoted), out, ends)
    return Text.from_ends(out[:size], ends, null_state(array))


def decimal_number(array: pa.Array) -> Text:
    """decimal128 as a JSON number with all digits of its scale."""
    return decimal_text(array, quoted=False)


def decimal_float(array: pa.Array) -> Text:
    """decimal128 as the nearest double, in Java's form."""
    return float_text(pc.cast(pc.cast(array, pa.string()), pa.float64()))


def number_float(array: pa.Array) -> Text:
    """Decimal text (numeric without precision) as the nearest double."""
    return float_text(pc.cast(array, pa.float64()))


def number_base64(scale: int) -> Writer:
    """Decimal text as Connect's Decimal of this scale, for numbers too wide for decimal128."""

    def write(array: pa.Array) -> Text:
        data, offsets = bytes_of(array)
        words = np.empty(2 * len(array), dtype=np.int64)
        scales = np.empty(len(array), dtype=np.int64)
        decimal_kernels.number_words(data, offsets, scale, 1, words, scales)
        if _left_to_python(array, scales):
            return each(lambda text: plain.decimal_base64(plain.unscaled(text, scale)))(array)
        return _words_base64(words, null_state(array))

    return write


def _left_to_python(array: pa.Array, scales: Longs) -> bool:
    """Whether some number has more than 18 digits, or is NaN: Python's integers have no limit."""
    state = null_state(array)
    return bool((scales[state == kernels.VALUE] < 0).any() if state.size else (scales < 0).any())


_VARIABLE = Template((Slot('{"scale":'), Slot(',"value":')), "}")


def variable_scale(array: pa.Array) -> Text:
    """Decimal text as Debezium's VariableScaleDecimal: its own scale beside the unscaled integer."""
    data, offsets = bytes_of(array)
    words = np.empty(2 * len(array), dtype=np.int64)
    scales = np.empty(len(array), dtype=np.int64)
    decimal_kernels.number_words(data, offsets, 0, 0, words, scales)
    if _left_to_python(array, scales):
        return each(plain.variable_scale)(array)
    columns = [long_text(scales), _words_base64(words, NONE)]
    text = _VARIABLE.fill(columns, len(array))
    return text.with_state(null_state(array))


def timestamp_text(
    fraction: int, plus_infinity: str = "infinity", minus_infinity: str = "-infinity", *, zone: bool = True
) -> Writer:
    """Timestamps as ISO 8601 with this many digits of the second; -1 = as many as are needed."""

    def write(array: pa.Array) -> Text:
        out = np.empty(48 * len(array), dtype=np.uint8)
        ends = np.zeros(len(array) + 1, dtype=np.int64)
        words = literal(plus_infinity), literal(minus_infinity)
        size = time_kernels.timestamp_text(longs_of(array), fraction, int(zone), *words, out, ends)
        return Text.from_ends(out[:size], ends, null_state(array))

    return write


def epoch_text(unit: str, plus_infinity: int, minus_infinity: int) -> Writer:
    """Timestamps as `ms`, `us` or `ns` since the epoch; the infinities as the given numbers."""

    def write(array: pa.Array) -> Text:
        micros = longs_of(array)
        state = null_state(array)
        infinite = (micros == time_kernels.PLUS_INFINITY) | (micros == time_kernels.MINUS_INFINITY)
        match unit:
            case "ms":
                values = micros // 1000
            case "us":
                values = micros
            case _:
                with np.errstate(over="ignore"):
                    values = micros * 1000
        if infinite.any():
            values = np.where(micros == time_kernels.PLUS_INFINITY, plus_infinity, values)
            values = np.where(micros == time_kernels.MINUS_INFINITY, minus_infinity, values)
        text = long_text(values, state)
        if unit != "ns":
            return text
        beyond = (np.abs(micros) > NANOS_LIMIT) & ~infinite & ~text.rows(kernels.NULL)
        return text.marked(beyond, kernels.FAILED) if beyond.any() else text

    return write


def days_of(array: pa.Array, plus_infinity: int, minus_infinity: int) -> Longs:
    """Dates as days since the epoch; the infinities as the given numbers."""
    limit = np.iinfo(np.int32)
    days = longs_of(array)
    return np.where(days == limit.max, plus_infinity, np.where(days == limit.min, minus_infinity, days))


def days_text(plus_infinity: int, minus_infinity: int) -> Writer:
    """Dates as days since the epoch."""
    return lambda array: long_text(days_of(array, plus_infinity, minus_infinity), null_state(array))


def _iso_dates(days: Longs, zone: bool) -> Text:
    out = np.empty(24 * len(days), dtype=np.uint8)
    ends = np.zeros(len(days) + 1, dtype=np.int64)
    size = time_kernels.date_text(np.ascontiguousarray(days), int(zone), out, ends)
    return Text.from_ends(out[:size], ends)


def date_text(plus_infinity: int, minus_infinity: int) -> Writer:
    """Dates as ISO 8601 with a `Z` behind."""
    return lambda array: _iso_dates(days_of(array, plus_infinity, minus_infinity), True).with_state(null_state(array))


_INFINITE_DATE = Template((Slot("", '"infinity"', '"-infinity"'),), "")


def calendar_text(array: pa.Array) -> Text:
    """Dates as ISO 8601, `infinity` and `-infinity` as words."""
    limit = np.iinfo(np.int32)
    days = longs_of(array)
    text = _iso_dates(days, False)
    for bound, kind in ((limit.max, kernels.NULL), (limit.min, kernels.UNAVAILABLE)):
        if (days == bound).any():
            text = text.marked(days == bound, kind)
    if text.state.size:
        text = _INFINITE_DATE.fill([text], len(array))
    return text.with_state(null_state(array))


def lsn_text(array: pa.Array) -> Text:
    """Log addresses in PostgreSQL's notation."""
    out = np.empty(20 * len(array), dtype=np.uint8)
    ends = np.zeros(len(array) + 1, dtype=np.int64)
    size = number_kernels.lsn_text(longs_of(array), out, ends)
    return Text.from_ends(out[:size], ends, null_state(array))


def clock_text(divide: int = 1, multiply: int = 1) -> Writer:
    """Time-of-day text as a number past midnight: microseconds, divided or multiplied."""

    def write(array: pa.Array) -> Text:
        data, offsets = bytes_of(array)
        micros = np.empty(len(array), dtype=np.int64)
        time_kernels.clock_micros(data, offsets, micros)
        text = long_text(micros // divide * multiply, null_state(array))
        failed = (micros < 0) & ~text.rows(kernels.NULL)
        return text.marked(failed, kernels.FAILED) if failed.any() else text

    return write


def each(function: Callable[[Any], str]) -> Writer:
    """A plain function from the source's text or bytes to JSON text, for rare types. It sees every distinct value once.

    The function raises ValueError for a value it cannot represent."""

    def write(array: pa.Array) -> Text:
        distinct = array.dictionary_encode()
        texts: list[str] = []
        failed: list[int] = []
        for code, value in enumerate(distinct.dictionary.to_pylist()):
            try:
                texts.append(function(value))
            except ValueError:
                texts.append("")
                failed.append(code)
        text = Text.from_arrow(pa.array(texts, pa.string()).take(distinct.indices))
        if not failed:
            return text
        codes = distinct.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return text.marked(np.isin(codes, failed), kernels.FAILED)

    return write


def list_text(element: Writer) -> Writer:
    """JSON arrays; the elements go through their own writer, all rows' at once."""

    def write(array: pa.Array) -> Text:
        child = element(array.values)
        data = array.buffers()[1]
        if data is None or not len(array):
            lists = np.zeros(len(array) + 1, dtype=np.int64)
        else:
            places = np.frombuffer(data, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
            lists = places.astype(np.int64)
        nulls = 4 * len(child) if child.state.size else 0
        out = np.empty(len(child.data) + nulls + len(child) + 2 * len(array), dtype=np.uint8)
        ends = np.zeros(len(array) + 1, dtype=np.int64)
        size = kernels.list_text(lists, child.data, child.begins, child.ends, child.state, out, ends)
        text = Text.from_ends(out[:size], ends, null_state(array))
        failed = child.rows(kernels.FAILED)
        if not failed.any():
            return text
        # A list fails as a whole when one of its elements does.
        counts = np.concatenate([[0], np.cumsum(failed)])
        return text.marked(counts[lists[1:]] > counts[lists[:-1]], kernels.FAILED)

    return write


def map_text(array: pa.Array) -> Text:
    """Maps with text keys as JSON objects; a pair's value may be null."""
    keys, values = string_text(array.keys), string_text(array.items)
    pairs = Template((Slot(""), Slot(":")), "").fill([keys, values], len(keys))
    lists = list_text(lambda _: pairs)(pa.ListArray.from_arrays(_offsets(array), pa.nulls(len(keys), pa.int64())))
    # The same layout as an array but for its brackets.
    data = lists.data.copy()
    data[lists.begins] = ord("{")
    data[lists.ends - 1] = ord("}")
    return Text(data, lists.begins, lists.ends, null_state(array))


def _offsets(array: pa.Array) -> pa.Array:
    data = array.buffers()[1]
    if data is None:
        return pa.array([0] * (len(array) + 1), pa.int32())
    return pa.array(np.frombuffer(data, dtype=np.int32)[array.offset : array.offset + len(array) + 1])


def as_string(writer: Writer) -> Writer:
    """What `writer` writes, as a JSON string of its own: JSON inside JSON."""

    def write(array: pa.Array) -> Text:
        inner = writer(array)
        quoted = string_text(inner.to_arrow())
        return quoted.with_state(inner.state)

    return write
