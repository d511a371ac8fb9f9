"""Kernels against their plain twins, on random rows, frames and values."""

from __future__ import annotations

import random
import zlib
from itertools import pairwise

import numpy as np
import pytest

from headwater.sources.mysql import kernels, plain, result_kernels, time_kernels, value_kernels
from headwater.sources.mysql.binlog import HEADER, Event, begin_frame
from headwater.sources.mysql.layout import decimal_bytes

LAYOUT = [4, -1, -2, 8, -4, 0, 3, 1, -3, 5]
KINDS = [Event.WRITE_ROWS_V1, Event.UPDATE_ROWS_V1, Event.DELETE_ROWS_V1, Event.WRITE_ROWS, Event.UPDATE_ROWS]


def image(r: random.Random, bitmap: int, layout: list[int]) -> bytes:
    present = [c for c in range(len(layout)) if bitmap >> c & 1]
    nulls, body = 0, b""
    for n, c in enumerate(present):
        if r.random() < 0.2:
            nulls |= 1 << n
        elif layout[c] < 0:
            raw = r.randbytes(r.randrange(40))
            body += len(raw).to_bytes(-layout[c], "little") + raw
        else:
            body += r.randbytes(layout[c])
    return nulls.to_bytes((len(present) + 7) // 8, "little") + body


def rows_event(r: random.Random, kind: int, rows: int, layout: list[int] = LAYOUT) -> bytes:
    images = 2 if kind in plain.UPDATES else 1
    width = (len(layout) + 7) // 8
    bitmaps = [r.choice([(1 << len(layout)) - 1, r.randrange(1, 1 << len(layout))]) for _ in range(images)]
    body = (7).to_bytes(6, "little") + b"\1\0"
    if kind >= Event.WRITE_ROWS:
        body += b"\5\0" + b"xyz"
    body += bytes([len(layout)]) + b"".join(bitmap.to_bytes(width, "little") for bitmap in bitmaps)
    for _ in range(rows):
        body += b"".join(image(r, bitmap, layout) for bitmap in bitmaps)
    return HEADER.pack(0, kind, 1, 19 + len(body), 5000 + len(body), 0) + body


def array(data: bytes) -> np.ndarray:  # type: ignore[type-arg]
    return np.frombuffer(data, dtype=np.uint8).copy()


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_found_as_the_twin_finds_them(seed: int) -> None:
    r = random.Random(seed)  # noqa: S311
    kind, rows = r.choice(KINDS), r.randrange(1, 20)
    event = rows_event(r, kind, rows)
    found = plain.rows_plain(event, LAYOUT)
    layout = np.array(LAYOUT, np.int32)
    shape = (len(LAYOUT), rows)
    starts, sizes = np.zeros((2, *shape), np.int64), np.full((2, *shape), -1, np.int32)

    assert kernels.count_rows(array(event), 0, len(event), layout) == len(found) == rows
    one = np.array([0]), np.array([len(event)]), np.array([rows])
    assert kernels.row_bounds(array(event), *one, layout, starts[0], sizes[0], starts[1], sizes[1]) == -1
    for side, images in enumerate([[row.new for row in found], [row.old for row in found]]):
        for row, bounds in enumerate(images):
            if bounds is not None:
                assert list(zip(starts[side][:, row], sizes[side][:, row], strict=True)) == bounds


@pytest.mark.parametrize("seed", range(200))
def test_damaged_rows_are_refused_by_both_or_read_alike(seed: int) -> None:
    r = random.Random(seed)  # noqa: S311
    event = bytearray(rows_event(r, r.choice(KINDS), r.randrange(1, 5)))
    for _ in range(r.randrange(1, 4)):
        event[r.randrange(19, len(event))] ^= 1 << r.randrange(8)
    if r.random() < 0.5:
        del event[r.randrange(20, len(event)) :]
    try:
        expected = len(plain.rows_plain(bytes(event), LAYOUT))
    except ValueError:
        expected = -1

    assert kernels.count_rows(array(bytes(event)), 0, len(event), np.array(LAYOUT, np.int32)) == expected


@pytest.mark.parametrize("seed", range(10))
def test_frames_are_scanned_as_the_twin_scans_them(seed: int) -> None:
    r = random.Random(seed)  # noqa: S311
    frames, lengths = b"", []
    for n in range(r.randrange(1, 30)):
        if r.random() < 0.3:
            frame = bytes(4) + begin_frame(n, r.randrange(1 << 50), n * 3, (7 << 40) | r.randrange(1 << 33), 1, "0-1-2")
        else:
            rows = r.randrange(1, 5)
            frame = rows.to_bytes(4, "little") + rows_event(r, r.choice(KINDS), rows)
        frames, lengths = frames + frame, [*lengths, len(frame)]
    opened = [5, 6, 7, 8, (3 << 40) | 100]
    twin = plain.scan_frames_plain(frames, lengths, opened)
    count = len(lengths)
    run, kind = np.empty(count, np.int32), np.empty(count, np.uint8)
    longs = [np.empty(count, np.int64) for _ in range(7)]
    bad = kernels.scan_frames(
        array(frames), np.array(lengths, np.uint32), np.array([7]), np.array(opened), run, kind, *longs
    )

    assert bad == -1
    _start, rows_, address, commit, ordinal, time, number = (column.tolist() for column in longs)
    expected = [
        (f.kind, 0 if f.table == 7 else f.table, f.rows, f.address, f.commit, f.ordinal, f.time, f.number) for f in twin
    ]
    assert (
        list(zip(kind.tolist(), run.tolist(), rows_, address, commit, ordinal, time, number, strict=True)) == expected
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_result_s_rows_are_found_as_the_twin_finds_them(seed: int) -> None:
    r = random.Random(seed)  # noqa: S311
    layout = [4, -9, -1, 8, -9, 2]
    nulls, body = 0, b""
    for c, width in enumerate(layout):
        if r.random() < 0.3:
            nulls |= 1 << c + 2
        elif width == -9:
            size = r.choice([0, 5, 250, 251, 70_000])
            prefix = (
                bytes([size])
                if size < 251
                else b"\xfc" + size.to_bytes(2, "little")
                if size < 65536
                else b"\xfd" + size.to_bytes(3, "little")
            )
            body += prefix + r.randbytes(size)
        elif width == -1:
            body += b"\x03abc"
        else:
            body += r.randbytes(width)
    payload = b"\0" + nulls.to_bytes(1, "little") + body
    if r.random() < 0.3:
        payload = payload[: r.randrange(1, len(payload) + 1)]
    start, size_ = np.empty((len(layout), 1), np.int64), np.empty((len(layout), 1), np.int32)
    ends = np.array([len(payload)])
    bad = result_kernels.result_bounds(array(payload), np.array([0]), ends, np.array(layout, np.int32), start, size_)
    try:
        expected = plain.result_plain(payload, layout)
    except ValueError:
        assert bad == 0
    else:
        assert bad == -1
        assert list(zip(start[:, 0].tolist(), size_[:, 0].tolist(), strict=True)) == expected


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100, 1001])
def test_checksums_are_those_of_zlib(size: int) -> None:
    data = random.Random(size).randbytes(size + 3)  # noqa: S311

    assert kernels.crc32(array(data), 3, len(data)) == zlib.crc32(data[3:])


def column(values: list[bytes | None]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Values end to end, with a stranger between them; None is null."""
    starts, lengths, data = [], [], b""
    for value in values:
        data += b"?"
        starts.append(len(data))
        lengths.append(-1 if value is None else len(value))
        data += value or b""
    return array(data), np.array(starts, np.int64), np.array(lengths, np.int32)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("big", [True, False])
def test_whole_numbers(signed: bool, big: bool) -> None:
    r = random.Random(1)  # noqa: S311
    values = [r.randbytes(r.randrange(1, 9)) for _ in range(200)] + [b"\xff" * 8, b"\x80" + bytes(7), bytes(3)]
    out = np.zeros(len(values), np.int64)

    assert value_kernels.read_int(*column(list(values)), out, signed, big) == -1
    assert out.tolist() == [value_kernels.int_plain(value, signed, big) for value in values]
    assert value_kernels.read_int(*column([b""]), np.zeros(1, np.int64), signed, big) == 0


@pytest.mark.parametrize(("digits", "scale"), [(1, 0), (10, 2), (18, 9), (38, 0), (38, 30), (38, 38), (9, 9), (20, 1)])
def test_decimals_of_the_log(digits: int, scale: int) -> None:
    r = random.Random(digits * 100 + scale)  # noqa: S311
    values = [
        encoded(r.randrange(10 ** r.randrange(1, digits + 1)), r.random() < 0.5, digits, scale) for _ in range(100)
    ]
    out = np.zeros(2 * len(values), np.uint64)

    assert value_kernels.read_decimal(*column(list(values)), out, digits, scale) == -1
    assert numbers(out) == [int(value_kernels.decimal_plain(v, digits, scale).replace(".", "")) for v in values]


def test_a_decimal_with_impossible_digits_is_refused() -> None:
    bad = bytearray(encoded(5, False, 2, 0))
    bad[0] = 0x80 | 100
    assert value_kernels.read_decimal(*column([bytes(bad)]), np.zeros(2, np.uint64), 2, 0) == 0
    with pytest.raises(ValueError, match="not a decimal"):
        value_kernels.decimal_plain(bytes(bad), 2, 0)


def encoded(number: int, negative: bool, digits: int, scale: int) -> bytes:
    """As the server writes a decimal: the inverse of `decimal_plain`."""
    negative = negative and number != 0
    text = f"{number:0{digits}}"
    whole = digits - scale
    groups = ([whole % 9] if whole % 9 else []) + [9] * (whole // 9) + [9] * (scale // 9)
    groups += [scale % 9] if scale % 9 else []
    raw, at = b"", 0
    for count in groups:
        raw += int(text[at : at + count]).to_bytes((0, 1, 1, 2, 2, 3, 3, 4, 4, 4)[count])
        at += count
    assert len(raw) == decimal_bytes(digits << 8 | scale)
    raw = bytes([raw[0] ^ 0x80, *raw[1:]])
    return bytes(byte ^ 0xFF for byte in raw) if negative else raw


def numbers(words: np.ndarray) -> list[int]:  # type: ignore[type-arg]
    return [int.from_bytes(words[i : i + 2].tobytes(), "little", signed=True) for i in range(0, len(words), 2)]


def test_decimals_of_a_result() -> None:
    texts = ["0.00", "-0.01", "123456789012345678901234567890123456.78", "-1.50", "99.99"]
    out = np.zeros(2 * len(texts), np.uint64)

    assert value_kernels.parse_decimal(*column([text.encode() for text in texts]), out, 2) == -1
    assert numbers(out) == [value_kernels.decimal_text_plain(text, 2) for text in texts]
    for bad in ("", "-", "1.5", "1x.00", "1" * 39 + ".00"):
        assert value_kernels.parse_decimal(*column([bad.encode()]), np.zeros(2, np.uint64), 2) == 0


@pytest.mark.parametrize(("form", "sizes"), [(0, [3]), (1, [5, 6, 7, 8]), (2, [4, 5, 6, 7]), (3, [0, 4, 7, 11])])
def test_dates_and_timestamps(form: int, sizes: list[int]) -> None:
    r = random.Random(form)  # noqa: S311
    values = [r.randbytes(r.choice(sizes)) for _ in range(300)]
    if form == 1:
        values = [bytes([raw[0] | 0x80, *raw[1:]]) for raw in values]
    out, valid = np.zeros(len(values), np.int64), np.zeros(len(values), np.uint8)

    assert time_kernels.read_moment(*column(list(values)), form, 1, out, valid) == -1
    for raw, micros, ok in zip(values, out.tolist(), valid.tolist(), strict=True):
        year, month, day, clock = time_kernels.moment_plain(raw, form)
        exists = 1 <= month <= 12 and 1 <= day <= days_in(year, month)
        assert bool(ok) == exists
        if ok and year >= 1:
            assert micros == (np.datetime64(f"{year:04}-{month:02}-{day:02}", "D").astype(int)) * 86_400_000_000 + clock


def days_in(year: int, month: int) -> int:
    leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    return [31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1]


@pytest.mark.parametrize("result", [True, False])
@pytest.mark.parametrize("fraction", [0, 1, 2, 3, 4, 5, 6])
def test_times(result: bool, fraction: int) -> None:
    r = random.Random(fraction)  # noqa: S311
    values = []
    for _ in range(100):
        hours, minutes, seconds = r.randrange(839), r.randrange(60), r.randrange(60)
        micros = r.randrange(10**6) // 10 ** (6 - fraction) * 10 ** (6 - fraction)
        negative = r.random() < 0.5
        if result:
            raw = bytes([negative]) + (hours // 24).to_bytes(4, "little") + bytes([hours % 24, minutes, seconds])
            values.append(raw + micros.to_bytes(4, "little"))
        else:
            size = (fraction + 1) // 2
            packed = (hours << 12 | minutes << 6 | seconds) << 8 * size | micros // (1, 10_000, 100, 1)[size]
            values.append(((0x800000 << 8 * size) + (-packed if negative else packed)).to_bytes(3 + size))
    offsets, out = np.empty(len(values) + 1, np.int32), np.empty(18 * len(values), np.uint8)

    assert time_kernels.time_text(*column(list(values)), result, fraction, offsets, out) == -1
    texts = [out[a:b].tobytes().decode() for a, b in pairwise(offsets)]
    assert texts == [time_kernels.time_plain(value, result, fraction) for value in values]


def test_uuids() -> None:
    values = [bytes(range(16)), bytes(16), b"\xab", b""]
    out = np.zeros(36 * len(values), np.uint8)

    assert value_kernels.uuid_text(*column(list(values)), out) == -1
    assert [out[i : i + 36].tobytes().decode() for i in range(0, len(out), 36)] == list(
        map(value_kernels.uuid_plain, values)
    )
