"""TABLE_MAP events: a table's shape, before its rows in every statement. No I/O.

With `binlog_row_metadata=FULL` it names everything a decoder needs: column names, signedness, character sets, the
labels of enums and sets, and the primary key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headwater.sources.mysql.binlog import Malformed, length_encoded

# Type codes of columns, as in the server's enum_field_types.
TINY, SHORT, LONG, FLOAT, DOUBLE = 1, 2, 3, 4, 5
TIMESTAMP, LONGLONG, INT24, DATE, TIME, DATETIME, YEAR, NEWDATE, VARCHAR, BIT = 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
TIMESTAMP2, DATETIME2, TIME2 = 17, 18, 19
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
VECTOR, JSON, NEWDECIMAL, ENUM, SET = 242, 245, 246, 247, 248
BLOB, VAR_STRING, STRING, GEOMETRY = 252, 253, 254, 255

NUMBERS = frozenset((TINY, SHORT, INT24, LONG, LONGLONG, FLOAT, DOUBLE, NEWDECIMAL, YEAR))
_ONE_BYTE = frozenset((FLOAT, DOUBLE, BLOB, GEOMETRY, JSON, VECTOR, TIMESTAMP2, DATETIME2, TIME2, BLOB_COMPRESSED))
_TWO_BYTES = frozenset((VARCHAR, VAR_STRING, BIT, VARCHAR_COMPRESSED))
_TWO_PARTS = frozenset((NEWDECIMAL, STRING, ENUM, SET))


@dataclass(frozen=True)
class MapColumn:
    """A column as the event describes it; what it does not say is None or empty."""

    # The real type: ENUM and SET are hidden in STRING.
    type: int
    # Bytes, digits << 8 | scale, fraction digits, or size of the length: by type.
    meta: int
    nullable: bool
    name: str | None = None
    unsigned: bool | None = None
    # A number in information_schema.collations.
    collation: int | None = None
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TableMap:
    """A table under one definition."""

    id: int
    schema: str
    name: str
    columns: tuple[MapColumn, ...]
    # Places of the primary key's columns; None when the event does not say.
    key: tuple[int, ...] | None = None

    @property
    def full(self) -> bool:
        """Whether the server logs with binlog_row_metadata=FULL."""
        return all(column.name is not None for column in self.columns)


def parse_table_id(body: bytes | memoryview) -> int:
    """The first six bytes, of a TABLE_MAP and of a rows event."""
    return int.from_bytes(body[:6], "little")


def parse_table_map(body: bytes) -> TableMap:
    """A TABLE_MAP event's body without its checksum. Labels are decoded as UTF-8 when they are, see `_labels`."""
    try:
        return _parse(body)
    except IndexError:
        raise Malformed("a TABLE_MAP event that is too short") from None


def _parse(body: bytes) -> TableMap:
    schema, at = _name(body, 8)
    name, at = _name(body, at)
    count, at = length_encoded(body, at)
    types = body[at : at + count]
    size, at = length_encoded(body, at + count)
    metas = _metas(types, body[at : at + size])
    at += size
    nulls = body[at : at + (count + 7) // 8]
    if len(types) != count or len(nulls) != (count + 7) // 8:
        raise IndexError
    columns = [MapColumn(*_real(types[i], metas[i]), nullable=bool(nulls[i >> 3] >> (i & 7) & 1)) for i in range(count)]
    optional = _Optional(columns)
    for field, value in _fields(body, at + len(nulls)):
        optional.read(field, value)
    return TableMap(parse_table_id(body), schema, name, optional.columns(), optional.key)


def _name(body: bytes, at: int) -> tuple[str, int]:
    size = body[at]
    if at + size + 2 > len(body):
        raise IndexError
    return body[at + 1 : at + 1 + size].decode("utf-8", "replace"), at + size + 2


def _metas(types: bytes, data: bytes) -> list[int]:
    metas, at = [], 0
    for kind in types:
        if kind in _ONE_BYTE:
            metas.append(data[at])
            at += 1
        elif kind in _TWO_BYTES:
            metas.append(data[at] | data[at + 1] << 8)
            at += 2
        elif kind in _TWO_PARTS:
            metas.append(data[at] << 8 | data[at + 1])
            at += 2
        else:
            metas.append(0)
    return metas


def _real(kind: int, meta: int) -> tuple[int, int]:
    """STRING stands for CHAR, ENUM and SET; a CHAR's length of more than 8 bits borrows two of the type's."""
    if kind != STRING:
        return kind, meta
    high, low = meta >> 8, meta & 0xFF
    if high & 0x30 != 0x30:
        return STRING, low | (high & 0x30 ^ 0x30) << 4
    return (high if high in (ENUM, SET) else STRING), low


def _fields(body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at < len(body):
        field = body[at]
        size, at = length_encoded(body, at + 1)
        if at + size > len(body):
            raise IndexError
        yield field, body[at : at + size]
        at += size


class _Optional:
    """Optional metadata: fields for all columns, for the numbers, for the texts, for the enums and sets."""

    def __init__(self, columns: list[MapColumn]) -> None:
        self._columns = columns
        self._names: list[str] = []
        self._unsigned: dict[int, bool] = {}
        self._collation: dict[int, int] = {}
        self._labels: dict[int, tuple[bytes, ...]] = {}
        self.key: tuple[int, ...] | None = None

    def read(self, field: int, value: bytes) -> None:
        match field:
            case 1:
                places = self._places(lambda c: c.type in NUMBERS)
                self._unsigned = {p: bool(value[i >> 3] & 0x80 >> (i & 7)) for i, p in enumerate(places)}
            case 2 | 3:
                self._charsets(field == 2, value, lambda c: c.type in (STRING, VARCHAR, VAR_STRING, BLOB))
            case 4:
                self._names = [text.decode("utf-8", "replace") for text in _texts(value)]
            case 5:
                self._labels |= self._label_lists(value, SET)
            case 6:
                self._labels |= self._label_lists(value, ENUM)
            case 8:
                self.key = tuple(_numbers(value))
            case 9:
                self.key = tuple(_numbers(value))[::2]
            case 10 | 11:
                self._charsets(field == 10, value, lambda c: c.type in (ENUM, SET))
            case _:
                # Geometry types, visibility, vector sizes: nothing that decides how a value is read.
                pass

    def columns(self) -> tuple[MapColumn, ...]:
        if self._names and len(self._names) != len(self._columns):
            raise IndexError
        return tuple(
            MapColumn(
                column.type,
                column.meta,
                column.nullable,
                name=self._names[place] if self._names else None,
                unsigned=self._unsigned.get(place),
                collation=self._collation.get(place),
                labels=_decoded(self._labels[place]) if place in self._labels else None,
            )
            for place, column in enumerate(self._columns)
        )

    def _places(self, wanted: Callable[[MapColumn], bool]) -> list[int]:
        return [place for place, column in enumerate(self._columns) if wanted(column)]

    def _charsets(self, default: bool, value: bytes, wanted: Callable[[MapColumn], bool]) -> None:
        places = self._places(wanted)
        numbers = list(_numbers(value))
        if default:
            # One collation, then (place among these columns, collation) for the exceptions.
            found = [numbers[0]] * len(places)
            for place, collation in zip(numbers[1::2], numbers[2::2], strict=True):
                found[place] = collation
            numbers = found
        self._collation |= dict(zip(places, numbers, strict=False))

    def _label_lists(self, value: bytes, kind: int) -> dict[int, tuple[bytes, ...]]:
        found, at = {}, 0
        for place in self._places(lambda c: c.type == kind):
            count, at = length_encoded(value, at)
            labels = []
            for _ in range(count):
                size, at = length_encoded(value, at)
                labels.append(value[at : at + size])
                at += size
            found[place] = tuple(labels)
        return found


def _numbers(value: bytes) -> Iterator[int]:
    at = 0
    while at < len(value):
        number, at = length_encoded(value, at)
        yield number


def _texts(value: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(value):
        size, at = length_encoded(value, at)
        yield value[at : at + size]
        at += size


def _decoded(labels: tuple[bytes, ...]) -> tuple[str, ...]:
    """Labels are logged in the column's own character set; `columns.py` decodes those that are not UTF-8 again."""
    return tuple(label.decode("utf-8", "surrogateescape") for label in labels)
