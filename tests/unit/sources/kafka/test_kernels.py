"""Kernels against their plain twins: on chosen texts and on random ones."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.sources.kafka import kernels
from headwater.sources.kafka.plain import base64_plain, decimal_plain, event_plain, unescape_plain
from headwater.sources.kafka.scan import scan

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
COLUMNS = ["id", "näme", 'odd "one"', "x\\y", "tab\t"]
ROWS = st.none() | st.dictionaries(st.sampled_from(COLUMNS), VALUES)
EVENTS = st.fixed_dictionaries({"before": ROWS, "after": ROWS, "op": st.sampled_from("rcudtm"), "ts_ms": VALUES})


def bounds(texts: list[bytes]) -> tuple[Any, Any, Any]:
    ends = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    return np.frombuffer(b"".join(texts) or b"\0", dtype=np.uint8), ends[:-1].copy(), ends[1:].copy()


def one(kernel: Any, text: bytes) -> bytes | None:
    data, begins, finishes = bounds([text])
    ends, out = np.zeros(2, np.int64), np.empty(len(text) + 1, np.uint8)
    return None if kernel(data, begins, finishes, ends, out) >= 0 else out[: ends[1]].tobytes()


@given(st.lists(EVENTS, min_size=1, max_size=4), st.sampled_from([(",", ":"), (", ", " : ")]))
def test_every_value_of_an_event_is_found(events: list[dict[str, Any]], separators: tuple[str, str]) -> None:
    # Names as Jackson writes them; values may have any escapes.
    texts = [json.dumps(event, ensure_ascii=False, separators=separators).encode() for event in events]
    data, begins, finishes = bounds(texts)
    found = scan(data, begins, finishes, COLUMNS)

    assert found.status.tolist() == [kernels.FINE] * len(texts)
    for row, text in enumerate(texts):
        op, *parts, _source = event_plain(text)
        assert chr(found.op[row]) == op
        for part, expected in enumerate(parts):
            assert bool(found.present[part, row]) == (expected is not None)
            for place, name in enumerate(COLUMNS):
                tokens = found.tokens(part, place)
                begin, size, kind = (int(each[row]) for each in (tokens.start, tokens.size, tokens.kind))
                if expected is None or name not in expected:
                    assert kind == kernels.ABSENT
                else:
                    assert json.loads(data[begin : begin + size].tobytes()) == expected[name]
                    assert (kind == kernels.NULL) == (expected[name] is None)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b"nonsense",
        b'{"op":"c"',
        b'{"op":"c"}x',
        b'{"op":"c","after":1}',
        b'{"op":"c","after":{"id"}}',
        b'{"op":"c","after":{"id":}}',
        b'{"op":"c","after":{"id":nule}}',
        b'{"op":"c","after":{"id":1,}}',
        b'{"op":"c","after":{"id":"open}}',
        b'{"op":"create"}',
        b'{"after":{"id":1}}',
    ],
)
def test_what_is_no_event_is_damaged(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        event_plain(text)
    assert scan(*bounds([text]), COLUMNS).status.tolist() == [kernels.DAMAGED]


def test_a_column_that_nobody_knows_is_told_unless_it_is_null() -> None:
    texts = [b'{"op":"c","after":{"id":1,"new":2}}', b'{"op":"c","after":{"id":1,"new":null}}']
    assert scan(*bounds(texts), COLUMNS).status.tolist() == [kernels.UNKNOWN, kernels.FINE]


@given(TEXTS, st.booleans())
def test_escapes_mean_what_json_says(text: str, ascii: bool) -> None:
    inside = json.dumps(text, ensure_ascii=ascii)[1:-1].encode()
    assert one(kernels.unescape, inside) == unescape_plain(inside).encode() == text.encode()


@pytest.mark.parametrize("text", [rb"\x", rb"\u12", rb"\ud800", rb"\udc00 ", rb"\uD83Dxx", b"end\\"])
def test_escapes_that_mean_nothing_are_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        unescape_plain(text)
    assert one(kernels.unescape, text) is None


@given(st.binary(max_size=20))
def test_base64_is_read_back(data: bytes) -> None:
    text = base64.b64encode(data)
    assert one(kernels.base64_bytes, text) == base64_plain(text) == data


@pytest.mark.parametrize("text", [b"A", b"AA=A", b"====", b"A===", b"AA A", "ÄÄ".encode()])
def test_what_is_no_base64_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        base64_plain(text)
    assert one(kernels.base64_bytes, text) is None


@given(st.binary(max_size=18))
def test_decimals_are_two_words(data: bytes) -> None:
    whole, begins, finishes = bounds([data])
    out = np.zeros(2, dtype=np.uint64)
    refused = kernels.decimal_words(whole, begins, finishes, out) >= 0
    try:
        expected = decimal_plain(data)
    except ValueError:
        assert refused
    else:
        assert not refused
        assert int.from_bytes(out.tobytes(), "little", signed=True) == expected
