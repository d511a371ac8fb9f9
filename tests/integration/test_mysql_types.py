"""Every type, through a snapshot and through the log, against the server's own word.

Random values (the seed is printed; HEADWATER_SEED=… repeats a run) and edge values go into one wide table. The two ways
of reading it must give the same Arrow columns, and these must be what the server says they are.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from tests.integration.mysql_source import SetGlobal, batches, reading, source_of

from headwater.event import concat
from headwater.testing.mysql import MySqlServer

pytestmark = pytest.mark.server
ROWS = 80
Make = Callable[[random.Random], Any]


@dataclass(frozen=True)
class Kind:
    """A column type, how to make a value of it, values that must be among them, and how the server prints it."""

    type: str
    make: Make
    edges: Sequence[Any] = ()
    # SQL for the text that our lake value must have; None: not compared by text.
    text: str | None = "cast({0} as char)"
    mariadb: bool | None = None


def whole(bits: int, unsigned: bool = False) -> Make:
    low, high = (0, 1 << bits) if unsigned else (-(1 << bits - 1), 1 << bits - 1)
    return lambda r: r.randrange(low, high) >> r.randrange(bits)


def decimal(digits: int, scale: int) -> Make:
    def make(r: random.Random) -> str:
        number = str(r.randrange(10 ** r.randrange(1, digits + 1))).rjust(scale + 1, "0")
        text = number[: len(number) - scale] + ("." + number[len(number) - scale :] if scale else "")
        return r.choice(["", "-"]) + text

    return make


def single(r: random.Random) -> float:
    value = float(np.frombuffer(r.randbytes(4), np.float32)[0])
    return value if np.isfinite(value) else 1.5


def double(r: random.Random) -> float:
    value = struct.unpack("<d", r.randbytes(8))[0]
    return value if np.isfinite(value) else 1.5


def day(r: random.Random) -> str:
    return (date(1, 1, 1) + timedelta(r.randrange(3_650_000))).isoformat()


def clock(fraction: int, hours: int = 24) -> Make:
    def make(r: random.Random) -> str:
        digits = f".{r.randrange(10**fraction):0{fraction}}" if fraction else ""
        return f"{r.randrange(hours):02}:{r.randrange(60):02}:{r.randrange(60):02}{digits}"

    return make


def moment(fraction: int) -> Make:
    return lambda r: f"{day(r)} {clock(fraction)(r)}"


def stamp(fraction: int) -> Make:
    return lambda r: f"{r.randrange(1971, 2037)}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02} {clock(fraction)(r)}"


def span(fraction: int) -> Make:
    return lambda r: r.choice(["", "-"]) + clock(fraction, 838)(r)


def word(letters: str, longest: int = 20) -> Make:
    return lambda r: "".join(r.choice(letters) for _ in range(r.randrange(longest))).rstrip()


def raw(longest: int) -> Make:
    return lambda r: r.randbytes(r.randrange(longest))


def uuid(r: random.Random) -> UUID:
    """Versions that exist: the server refuses some others."""
    return UUID(int=r.getrandbits(128), version=r.randrange(1, 6))


ANY = "aZ09 '\"\\\n\t%_äßñ€漢字🙂ÿ"
LATIN = "aZ09 '\"\\äßñÿ€"
UTF8MB3 = "aZ09 äßñ€漢字"
ENUM = "enum('small','it''s','ä,b','')"
KINDS = [
    Kind("tinyint", whole(8), [-128, 127]),
    Kind("tinyint unsigned", whole(8, True), [255]),
    Kind("tinyint(1)", whole(8)),
    Kind("smallint", whole(16), [-32768, 32767]),
    Kind("smallint unsigned", whole(16, True), [65535]),
    Kind("mediumint", whole(24), [-(1 << 23), (1 << 23) - 1]),
    Kind("mediumint unsigned", whole(24, True), [(1 << 24) - 1]),
    Kind("int", whole(32), [-(1 << 31), (1 << 31) - 1]),
    Kind("int unsigned", whole(32, True), [(1 << 32) - 1]),
    Kind("bigint", whole(64), [-(1 << 63), (1 << 63) - 1]),
    Kind("bigint unsigned", whole(64, True), [(1 << 64) - 1]),
    Kind("decimal(10,2)", decimal(10, 2), ["-0.01", "99999999.99"]),
    Kind("decimal(38,0)", decimal(38, 0), ["9" * 38, "-" + "9" * 38]),
    Kind("decimal(38,30)", decimal(38, 30), ["9" * 8 + "." + "9" * 30, "-0." + "0" * 29 + "1"]),
    Kind("decimal(5,5)", decimal(5, 5), ["-0.99999"]),
    Kind("decimal(65,30)", decimal(65, 30), ["9" * 35 + "." + "9" * 30, "-" + "9" * 35 + "." + "9" * 30, "0"]),
    Kind("float", single, [0.1, -0.0, 3.4e38], text=None),
    Kind("double", double, [0.1, -0.0, 1.7e308, 5e-324], text=None),
    Kind("bit(1)", whole(1, True), [0, 1], text="lpad(bin({0} + 0), 1, '0')"),
    Kind("bit(13)", whole(13, True), [0, (1 << 13) - 1], text="lpad(bin({0} + 0), 13, '0')"),
    Kind("bit(64)", whole(64, True), [(1 << 64) - 1], text="lpad(bin({0} + 0), 64, '0')"),
    Kind("year", lambda r: r.randrange(1901, 2156), [0, 1901, 2155], text="cast({0} + 0 as char)"),
    Kind("date", day, ["0001-01-01", "9999-12-31", "2000-02-29", "1970-01-01"]),
    Kind("datetime", moment(0), ["1000-01-01 00:00:00", "9999-12-31 23:59:59"], text="concat({0}, '.000000')"),
    Kind("datetime(3)", moment(3), text="concat({0}, '000')"),
    Kind("datetime(6)", moment(6), ["9999-12-31 23:59:59.999999"]),
    Kind("timestamp null", stamp(0), ["1970-01-01 00:00:01", "2038-01-19 03:14:07"], text="concat({0}, '.000000')"),
    Kind("timestamp(1) null", stamp(1), text="concat({0}, '00000')"),
    Kind("timestamp(6) null", stamp(6), ["2038-01-19 03:14:07.999999"]),
    Kind("time", span(0), ["-838:59:59", "838:59:59", "00:00:00"]),
    Kind("time(2)", span(2), ["-00:00:00.01", "-838:59:58.99"]),
    Kind("time(4)", span(4), ["-00:00:00.0001"]),
    Kind("time(6)", span(6), ["-00:00:00.000001", "838:59:58.999999"]),
    Kind("char(20)", word(ANY)),
    Kind("char(100)", word(ANY, 90)),
    Kind("varchar(30)", word(ANY), [""]),
    Kind("varchar(300)", word(ANY, 200)),
    Kind("varchar(30) character set latin1", word(LATIN), ["\x81"]),
    Kind("varchar(30) character set ascii", word("aZ09 '\\")),
    Kind("varchar(30) character set ucs2", word(UTF8MB3)),
    Kind("varchar(30) character set utf16", word(ANY)),
    Kind("varchar(30) character set utf8mb3", word(UTF8MB3)),
    Kind("char(30) character set gbk", word("aZ09 漢字")),
    Kind("char(10) character set sjis", word("aZ 漢字カ", 10)),
    Kind("text character set cp1251", word("aZ09 ЖЩя")),
    Kind("tinytext", word(ANY)),
    Kind("text", word(ANY)),
    Kind("mediumtext", word(ANY, 2000)),
    Kind("longtext", word(ANY)),
    Kind("binary(8)", lambda r: r.randbytes(8), [b"\0" * 8, b"a\0\0\0\0\0\0\0", b"a "], text="hex({0})"),
    Kind("varbinary(20)", raw(20), [b"", b"a\0 "], text="hex({0})"),
    Kind("varbinary(300)", raw(300), text="hex({0})"),
    Kind("tinyblob", raw(200), text="hex({0})"),
    Kind("blob", raw(300), text="hex({0})"),
    Kind("longblob", raw(3000), text="hex({0})"),
    Kind(ENUM, lambda r: r.choice(["small", "it's", "ä,b", ""])),
    Kind("enum('я','b') character set cp1251", lambda r: r.choice(["я", "b"])),
    Kind("set('a','b c','ü')", lambda r: ",".join(x for x in ["a", "b c", "ü"] if r.random() < 0.5), ["", "a,b c,ü"]),
    Kind("point", lambda r: ("point", r.uniform(-9, 9), r.uniform(-9, 9)), text="hex({0})"),
    Kind("uuid", lambda r: str(uuid(r)), ["0" * 32, "f" * 32], mariadb=True),
    Kind(
        "inet6",
        lambda r: ":".join(f"{r.choice([0, r.randrange(65536)]):x}" for _ in range(8)),
        ["::", "::1", "::1.2.3.4", "::ffff:1.2.3.4", "1::", "1:0:0:2::"],
        mariadb=True,
    ),
    Kind("inet4", lambda r: ".".join(str(r.randrange(256)) for _ in range(4)), ["255.0.0.0"], mariadb=True),
]
JSON = Kind("json", lambda r: json_value(r), mariadb=False, text="cast({0} as char)")


def json_value(r: random.Random) -> str:
    import json

    def value(depth: int) -> Any:
        match r.randrange(9 if depth < 3 else 7):
            case 0:
                return r.choice([None, True, False])
            case 1:
                return r.randrange(-(1 << 63), 1 << 64) >> r.randrange(64)
            case 2:
                return r.choice([0.5, -1.25, 1e20, 1e-7, 100.0, r.uniform(-1e6, 1e6)])
            case 3 | 4 | 5 | 6:
                return "".join(r.choice(ANY) for _ in range(r.randrange(200)))
            case 7:
                return [value(depth + 1) for _ in range(r.randrange(5))]
        return {"".join(r.choice('abcä"\\') for _ in range(6)): value(depth + 1) for _ in range(r.randrange(5))}

    return json.dumps(value(0))


@pytest.fixture
def seed() -> int:
    found = int(os.environ.get("HEADWATER_SEED") or random.randrange(1 << 30))  # noqa: S311
    print(f"HEADWATER_SEED={found}")
    return found


def test_snapshot_and_log_give_what_the_server_says(
    mysql: MySqlServer, schema: str, seed: int, row_metadata: str
) -> None:
    kinds = [kind for kind in [*KINDS, JSON] if kind.mariadb in (None, mysql.binaries.mariadb)]
    columns = ", ".join(f"c{i} {kind.type}" for i, kind in enumerate(kinds))
    source = source_of(mysql, schema)
    with reading(source) as log:
        mysql.execute(f"create table {schema}.t (id int primary key, {columns})")
        insert(mysql, schema, kinds, random.Random(seed))  # noqa: S311
        streamed = concat(batches(source, log))
    with source.snapshot(source.tables(), 1) as snapshot:
        copied = concat([batch for chunk in snapshot.chunks for batch in source.copy(chunk, snapshot)])

    texts = server_texts(mysql, schema, kinds)
    order = copied.after.field(0).to_pylist()
    assert streamed.after.field(0).to_pylist() == order == [row[0] for row in texts]
    for i, kind in enumerate(kinds):
        from_log, from_table = streamed.after.field(i + 1), copied.after.field(i + 1)
        assert bits_of(from_log) == bits_of(from_table), kind.type
        if kind.text is not None:
            assert lake_texts(from_log) == [row[i + 1] for row in texts], kind.type


def insert(mysql: MySqlServer, schema: str, kinds: Sequence[Kind], r: random.Random) -> None:
    marks = ", ".join("point(%s, %s)" if kind.type == "point" else "%s" for kind in kinds)
    with mysql.connect(schema) as connection, connection.cursor() as cursor:
        cursor.execute("set sql_mode = ''")
        for row in range(ROWS):
            values: list[Any] = []
            for kind in kinds:
                value = kind.edges[row] if row < len(kind.edges) else kind.make(r) if r.random() < 0.9 else None
                if kind.type == "point":
                    values += value[1:] if value else (None, None)
                else:
                    values.append(value)
            cursor.execute(f"insert into t values (%s, {marks})", [row, *values])


def server_texts(mysql: MySqlServer, schema: str, kinds: Sequence[Kind]) -> list[tuple[Any, ...]]:
    shown = ", ".join((kind.text or "null").format(f"c{i}") for i, kind in enumerate(kinds))
    with mysql.connect(schema) as connection, connection.cursor() as cursor:
        cursor.execute("set time_zone = '+00:00'")
        cursor.execute(f"select id, {shown} from t order by id")
        return [tuple(v.decode() if isinstance(v, bytes) else v for v in row) for row in cursor.fetchall()]


def bits_of(array: pa.Array) -> list[Any]:
    """Floats by their bits: -0.0 is not 0.0."""
    if pa.types.is_floating(array.type):
        code = "<f" if array.type.bit_width == 32 else "<d"
        return [None if value is None else struct.pack(code, value) for value in array.to_pylist()]
    return array.to_pylist()


def lake_texts(array: pa.Array) -> list[str | None]:
    def text(value: Any) -> str | None:
        match value:
            case None:
                return None
            case bytes():
                return value.hex().upper()
            case Decimal():
                return f"{value:f}"
        return str(value)

    if pa.types.is_timestamp(array.type):
        return array.cast(pa.timestamp("us")).cast(pa.string()).to_pylist()
    return [text(value) for value in array.to_pylist()]


def test_dates_that_no_calendar_has_are_null_or_text(mysql: MySqlServer, schema: str) -> None:
    mysql.execute(
        "set sql_mode = ''",
        f"create table {schema}.t (id int primary key, d date, m datetime(2), s timestamp not null default 0,"
        " d2 date, m2 datetime(2), s2 timestamp not null default 0)",
    )
    cast = {f"{schema}.t.{name}": "string" for name in ("d2", "m2", "s2")}
    source = source_of(mysql, schema, cast=cast)
    zero, clock = "0000-00-00", "00:00:00"
    with reading(source) as log:
        values = f"1, '{zero}', '{zero} {clock}', '{zero} {clock}', '{zero}', '{zero} {clock}', '{zero} {clock}'"
        mysql.execute("set sql_mode = 'ALLOW_INVALID_DATES'", f"insert into {schema}.t values ({values})")
        values = (
            f"2, '2024-02-31', '2024-02-31 {clock}', '2024-02-28 {clock}', '2024-02-31', '2024-00-31 {clock}', now()"
        )
        mysql.execute("set sql_mode = 'ALLOW_INVALID_DATES'", f"insert into {schema}.t values ({values})")
        streamed = concat(batches(source, log)).after.to_pylist()
    with source.snapshot(source.tables(), 1) as snapshot:
        copied = [row for batch in source.copy(snapshot.chunks[0], snapshot) for row in batch.after.to_pylist()]

    assert streamed == copied
    first, second = streamed
    assert first == {
        "id": 1,
        "d": None,
        "m": None,
        "s": None,
        "d2": zero,
        "m2": f"{zero} {clock}.00",
        "s2": f"{zero} {clock}",
    }
    assert (second["d"], second["m"]) == (None, None)
    assert (second["d2"], second["m2"]) == ("2024-02-31", "2024-00-31 00:00:00.00")


def test_generated_and_invisible_columns_come_with_the_others(
    mysql: MySqlServer, schema: str, row_metadata: str
) -> None:
    source = source_of(mysql, schema)
    with reading(source) as log:
        mysql.execute(
            f"create table {schema}.t (id int primary key, a int, v int generated always as (a + 1) virtual,"
            " s int generated always as (a + 2) stored, h int default 7 invisible)",
            f"insert into {schema}.t (id, a) values (1, 10)",
        )
        streamed = concat(batches(source, log)).after.to_pylist()
    with source.snapshot(source.tables(), 1) as snapshot:
        copied = [row for batch in source.copy(snapshot.chunks[0], snapshot) for row in batch.after.to_pylist()]

    assert streamed == copied == [{"id": 1, "a": 10, "v": 11, "s": 12, "h": 7}]


def test_a_row_of_several_packets_is_copied_and_read(
    mysql: MySqlServer, schema: str, global_setting: SetGlobal
) -> None:
    global_setting("max_allowed_packet", str(64 << 20))
    size = 17 << 20
    source = source_of(mysql, schema)
    with reading(source) as log:
        mysql.execute(
            f"create table {schema}.t (id int primary key, body longblob)",
            f"insert into {schema}.t values (1, 'a'), (2, repeat('b', {size})), (3, 'c')",
        )
        streamed = concat(batches(source, log)).after.to_pylist()
    with source.snapshot(source.tables(), 1) as snapshot:
        copied = [row for batch in source.copy(snapshot.chunks[0], snapshot) for row in batch.after.to_pylist()]
    through_journal = source.copy_log()
    journaled = []
    while (piece := through_journal.read(0)) is not None:
        schemas = {run.schema: through_journal.schema(run.schema) for run in piece.tables}
        journaled += [row for batch in source.decode(piece, schemas) for row in batch.after.to_pylist()]
    through_journal.close()

    assert copied == streamed == [{"id": 1, "body": b"a"}, {"id": 2, "body": b"b" * size}, {"id": 3, "body": b"c"}]
    assert journaled == copied
