"""Every built-in type, through COPY and through pgoutput, against the server's own word.

Random values (the seed is printed; HEADWATER_SEED=… repeats a run) and edge values go into one wide table. The
two ways of reading it must give the same Arrow columns, and these must be what the server says they are.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from headwater.errors import Unrepresentable
from headwater.event import TableSchema
from headwater.sources.postgres import catalog, values
from headwater.sources.postgres.connection import SESSION_SETTINGS

pytestmark = pytest.mark.server
ROWS = 120
Generator = Callable[[random.Random], str]


@dataclass(frozen=True)
class Kind:
    """A column type, how to make a value of it, and values that must be among them."""

    type: str
    make: Generator
    edges: Sequence[str] = ()


def word(r: random.Random, longest: int = 20) -> str:
    """Any letters, those with a meaning in COPY, arrays and hstore more often than others."""
    special = "\\\"',;{}()[]=>\t\n\r\b\f\v N"
    any_letter = [range(33, 0xD800), range(0xE000, 0x110000)]
    return "".join(
        r.choice(special) if r.random() < 0.4 else chr(r.choice(r.choice(any_letter)))
        for _ in range(r.randrange(longest))
    )


def whole(bits: int) -> Generator:
    return lambda r: str(r.randrange(-(1 << bits - 1), 1 << bits - 1) >> r.randrange(bits))


def decimal(precision: int, scale: int) -> Generator:
    def make(r: random.Random) -> str:
        digits = r.randrange(10 ** r.randrange(1, precision + 1))
        return f"{r.choice(['', '-'])}{digits}e{-scale}"

    return make


def real(r: random.Random) -> str:
    value = struct.unpack("<d", r.randbytes(8))[0]
    return repr(value) if value == value and abs(value) < 1e308 else "1.5"


def single(r: random.Random) -> str:
    value = np.frombuffer(r.randbytes(4), np.float32)[0]
    return str(value) if np.isfinite(value) else "1.5"


def day(r: random.Random) -> str:
    if r.random() < 0.3:
        return f"{r.randrange(1, 4714):04}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02} BC"
    if r.random() < 0.3:
        return f"{r.randrange(10_000, 290_000)}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}"
    return (date(1, 1, 1) + timedelta(r.randrange(3_650_000))).isoformat()


def clock(r: random.Random) -> str:
    return f"{r.randrange(24):02}:{r.randrange(60):02}:{r.randrange(60):02}.{r.randrange(10**6):06}"


def moment(r: random.Random) -> str:
    text, _, era = day(r).partition(" ")
    return f"{text} {clock(r)} {era}".strip()


def zoned(r: random.Random) -> str:
    text, era, _ = moment(r).partition(" BC")
    return text + r.choice(["+00", "-08", "+05:45", "+00:19:32"]) + era


def span(r: random.Random) -> str:
    signed = [f"{r.randrange(-5000, 5000)} {unit}" for unit in ("years", "mons", "days", "hours")]
    return " ".join(signed) + f" {r.randrange(-(10**9), 10**9)}.{r.randrange(10**6):06} secs"


def hexes(count: int) -> Generator:
    return lambda r: r.randbytes(count).hex()


def bits(r: random.Random) -> str:
    return "".join(r.choice("01") for _ in range(r.randrange(1, 40)))


def points(form: str) -> Generator:
    return lambda r: form.format(*(round(r.uniform(-9, 9), 3) for _ in range(10)))


def ranges(bound: Generator) -> Generator:
    """A range with one bound: two random ones might come in the wrong order."""
    return lambda r: r.choice(["empty", "(,)", f'["{bound(r)}",)', f'(,"{bound(r)}")'])


def multi(make: Generator) -> Generator:
    return lambda r: "{" + (make(r) if r.random() < 0.8 else "") + "}"


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def array(make: Generator, delimiter: str = ",") -> Generator:
    def elements(r: random.Random) -> Iterator[str]:
        for _ in range(r.randrange(6)):
            yield "NULL" if r.random() < 0.2 else quoted(make(r))

    return lambda r: "{" + delimiter.join(elements(r)) + "}"


def store(r: random.Random) -> str:
    pairs = (f"{quoted(word(r))}=>{'NULL' if r.random() < 0.2 else quoted(word(r))}" for _ in range(r.randrange(5)))
    return ", ".join(pairs)


def document(r: random.Random) -> str:
    text = word(r).translate({9: 32, 10: 32, 13: 32, 8: 32, 12: 32, 11: 32, 34: 32, 92: 32})
    return f'{{"b": [1, {r.random()}, null],  "a": "{text}"}}'


def one_of(*texts: str) -> Generator:
    return lambda r: r.choice(texts)


KINDS = [
    Kind("boolean", one_of("t", "f")),
    Kind("smallint", whole(16), ["-32768", "32767"]),
    Kind("integer", whole(32), ["-2147483648", "2147483647"]),
    Kind("bigint", whole(64), ["-9223372036854775808", "9223372036854775807"]),
    Kind("oid", lambda r: str(r.randrange(1 << 32)), ["0", "4294967295"]),
    Kind("real", single, ["NaN", "Infinity", "-Infinity", "-0", "3.4028235e38", "1e-45"]),
    Kind("double precision", real, ["NaN", "Infinity", "-Infinity", "-0", "5e-324", "1.7976931348623157e308", "0.1"]),
    Kind("numeric(10,2)", decimal(10, 2), ["99999999.99", "-99999999.99", "0", "-0.01"]),
    Kind("numeric(38,10)", decimal(38, 10), ["9" * 28 + "." + "9" * 10, "-" + "9" * 28 + "." + "9" * 10]),
    Kind("numeric(38,0)", decimal(38, 0), ["9" * 38, "-" + "9" * 38, "18446744073709551616"]),
    Kind("numeric(38,38)", decimal(38, 38), ["0." + "9" * 38]),
    Kind("numeric(50,20)", decimal(50, 20), ["NaN"]),
    Kind("numeric", decimal(1000, 200), ["NaN", "Infinity", "-Infinity", "9" * 1000, "1e1000", "1.10", "-0.0"]),
    Kind("text", word, ["", "\\N", "NULL", "\t\n\\.", "x" * 100_000]),
    Kind("varchar(20)", word, ["", " " * 20]),
    Kind("char(20)", word, ["", "a"]),
    Kind('"char"', one_of("a", "", "\\", "~")),
    Kind("name", one_of("pg_class", 'a"b', "x" * 63)),
    Kind("citext", word, ["MiXed"]),
    Kind("uuid", hexes(16)),
    Kind("json", document, ["null", ' {"a":1,  "a":2}', "1e999"]),
    Kind("jsonb", document, ["null", '{"a":1,  "a":2}', "1e99"]),
    Kind("date", day, ["infinity", "-infinity", "4714-11-24 BC", "5874897-12-31", "0001-01-01", "1970-01-01"]),
    Kind("time", clock, ["24:00:00", "00:00:00", "23:59:59.999999"]),
    Kind("time(3)", clock),
    Kind("timetz", lambda r: clock(r) + r.choice(["+00", "-08", "+05:45", "+15:59:59"]), ["24:00:00-15:59:59"]),
    Kind("timestamp", moment, ["infinity", "-infinity", "4714-11-24 00:00:00 BC", "294247-01-10 04:00:54.775806"]),
    Kind("timestamp(0)", moment),
    Kind(
        "timestamptz", zoned, ["infinity", "-infinity", "4714-11-24 00:00:00+00 BC", "294247-01-10 04:00:54.775806+00"]
    ),
    Kind("interval", span, ["178000000 years", "-178000000 years", "0", "1 day -00:00:00.000001"]),
    Kind("interval day to second(2)", span),
    Kind("bytea", lambda r: "\\x" + r.randbytes(r.randrange(40)).hex(), ["\\x", "\\x00", "\\x5c78"]),
    Kind("bit(7)", lambda r: f"{r.randrange(128):07b}"),
    Kind("bit varying", bits, [""]),
    Kind("inet", one_of("10.0.0.1", "10.0.0.1/8", "::1", "2001:db8::ff00:42:8329/64")),
    Kind("cidr", one_of("10.0.0.0/8", "2001:db8::/32")),
    Kind("macaddr", hexes(6)),
    Kind("macaddr8", hexes(8)),
    Kind(
        "money", lambda r: str(r.randrange(-(10**15), 10**15) / 100), ["-92233720368547758.08", "92233720368547758.07"]
    ),
    Kind("point", points("({},{})"), ["(NaN,Infinity)", "(1e-300,0)"]),
    Kind("line", points("{{1,{},{}}}")),
    Kind("lseg", points("[({},{}),({},{})]")),
    Kind("box", points("({},{}),({},{})")),
    Kind("path", points("[({},{}),({},{})]")),
    Kind("polygon", points("(({},{}),({},{}),({},{}))")),
    Kind("circle", points("<({},{}),3.5>")),
    Kind("int4range", ranges(whole(31)), ["[1,5)", "empty"]),
    Kind("int8range", ranges(whole(63))),
    Kind("numrange", ranges(decimal(40, 10)), ["[NaN,)", "(,Infinity]"]),
    Kind("daterange", ranges(day), ["[infinity,)"]),
    Kind("tsrange", ranges(moment), ["[294276-12-31 23:59:59.999999,infinity]"]),
    Kind("tstzrange", ranges(zoned)),
    Kind("int4multirange", multi(ranges(whole(31))), ["{[1,2),[5,9)}"]),
    Kind("tstzmultirange", multi(ranges(zoned))),
    Kind("tsvector", one_of("'a':1A,2 'b''c'", "'x y'", "")),
    Kind("tsquery", one_of("'a' & !'b'", "'a' <-> 'b':*")),
    Kind("pg_lsn", one_of("0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF")),
    Kind("xid", lambda r: str(r.randrange(1 << 32))),
    Kind("xid8", lambda r: str(r.randrange(1 << 64))),
    Kind("tid", one_of("(0,1)", "(4294967295,65535)")),
    Kind("pg_snapshot", one_of("10:20:10,14,15")),
    Kind("int2vector", one_of("1 2 3", "-1", "")),
    Kind("oidvector", one_of("1 2 4294967295", "")),
    Kind("regclass", one_of("pg_class", "public.wide", "0", "999999999")),
    Kind("regtype", one_of("integer", "public.mood", "timestamp with time zone")),
    Kind("jsonpath", one_of('$."a"[*]?(@ > 1)', "lax $")),
    Kind("public.mood", one_of("sad", "o'k", 'ha"p,py', "")),
    Kind("public.price", decimal(12, 3)),
    Kind("public.pair", lambda r: f"({r.randrange(99)},{quoted(word(r))})", ["(,)", '(1,"")']),
    Kind("hstore", store, ["", '"a"=>NULL', '"a\\"=>"=>"\\\\"']),
    Kind("boolean[]", array(one_of("t", "f"))),
    Kind("smallint[]", array(whole(16))),
    Kind("bigint[]", array(whole(64)), ["{}", "{NULL}"]),
    Kind("real[]", array(single), ["{NaN,-Infinity}"]),
    Kind("numeric(10,2)[]", array(decimal(10, 2))),
    Kind("numeric[]", array(decimal(300, 100)), ["{NaN}"]),
    Kind("text[]", array(word), ['{"",NULL,"NULL",null,"a\\\\\\"b"}']),
    Kind("varchar(5)[]", array(one_of("a b", "", "{}"))),
    Kind("date[]", array(day), ["{infinity,NULL}"]),
    Kind("timestamp[]", array(moment), ["{-infinity}"]),
    Kind("timestamptz[]", array(zoned)),
    Kind("bytea[]", array(lambda r: "\\x" + r.randbytes(r.randrange(9)).hex())),
    Kind("uuid[]", array(hexes(16))),
    Kind("jsonb[]", array(document)),
    Kind("box[]", array(points("({},{}),({},{})"), ";")),
    Kind("interval[]", array(span)),
    Kind("public.mood[]", array(one_of("sad", "o'k", 'ha"p,py', ""))),
    Kind("public.price[]", array(decimal(12, 3))),
    Kind("public.scores[]", array(array(whole(31)))),
    Kind("hstore[]", array(store)),
    Kind("integer[][]", one_of("{{1,2},{3,NULL}}", "{}", "{1}", "[0:1]={1,2}")),
]


@pytest.fixture
def session(database: Any) -> Iterator[psycopg.Connection[Any]]:
    """A connection with the settings that every connection of the source has."""
    with database.connect() as connection:
        connection.execute("create extension hstore; create extension citext")
        connection.execute("create type mood as enum ('sad', 'o''k', 'ha\"p,py', '')")
        connection.execute("create type pair as (a int, b text)")
        connection.execute("create domain price as numeric(12,3); create domain scores as int[]")
        for name, value in SESSION_SETTINGS.items():
            connection.execute("select set_config(%s, %s, false)", [name, value])
        connection.execute("set search_path = public, pg_catalog")
        yield connection


def create(session: psycopg.Connection[Any], types: Sequence[str]) -> TableSchema:
    """Table `wide` with a column per type, in a publication with a slot."""
    columns = sql.SQL(", ").join(sql.SQL(f"c{i} {kind}") for i, kind in enumerate(types))
    session.execute(sql.SQL("create table wide (id int primary key, {})").format(columns))
    session.execute("create publication every for table wide")
    session.execute("select pg_create_logical_replication_slot('types', 'pgoutput')")
    return catalog.describe(session)[0]


def copied(session: psycopg.Connection[Any]) -> list[list[bytes | None]]:
    """The rows of `wide` as COPY gives them, its escapes undone."""
    escapes = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}

    def field(raw: bytes) -> bytes | None:
        if raw == b"\\N":
            return None
        pieces = raw.split(b"\\")
        out, at = pieces[0], 1
        while at < len(pieces):
            if pieces[at]:
                out += escapes.get(pieces[at][:1], pieces[at][:1]) + pieces[at][1:]
            else:
                at += 1
                out += b"\\" + pieces[at]
            at += 1
        return out

    with session.cursor().copy("copy (select * from wide order by id) to stdout") as copy:
        raw = b"".join(bytes(block) for block in copy)
    return [[field(text) for text in line.split(b"\t")] for line in raw.split(b"\n")[:-1]]


def streamed(session: psycopg.Connection[Any]) -> list[list[bytes | None]]:
    """The rows of `wide` as pgoutput gives them: the tuples of its Insert messages."""
    options = ["proto_version", "1", "publication_names", "every"]
    peek = "select data from pg_logical_slot_peek_binary_changes('types', null, null, variadic %s::text[])"
    rows = []
    for (message,) in session.execute(peek, [options], binary=True):
        if message[:1] != b"I":
            continue
        (count,) = struct.unpack_from(">h", message, 6)
        at, row = 8, []
        for _ in range(count):
            if message[at : at + 1] == b"n":
                row.append(None)
                at += 1
                continue
            assert message[at : at + 1] == b"t"
            (length,) = struct.unpack_from(">i", message, at + 1)
            row.append(message[at + 5 : at + 5 + length])
            at += 5 + length
        rows.append(row)
    return rows


def parsed(table: TableSchema, rows: list[list[bytes | None]]) -> dict[str, pa.Array]:
    """The columns of these rows, by `values.parse`."""
    cells = [text for row in rows for text in row]
    lengths = np.array([-1 if text is None else len(text) for text in cells], np.int32)
    starts = np.cumsum(np.maximum(lengths, 0), dtype=np.int64) - np.maximum(lengths, 0)
    data = np.frombuffer(b"".join(text for text in cells if text is not None), np.uint8)
    width = len(table.columns)
    columns = {
        column.name: values.parse(column, data, starts[i::width], lengths[i::width], table.table)
        for i, column in enumerate(table.columns)
    }
    for column in table.columns:
        columns[column.name].validate(full=True)
        assert columns[column.name].type == column.arrow
    return columns


def word_of_the_server(arrow: pa.DataType, value: str) -> str:
    """SQL for what the server says `value` is, in plain types that need none of our parsers."""
    kinds = pa.types
    if kinds.is_list(arrow):
        inner = word_of_the_server(arrow.value_type, "u.e")
        elements = f"select json_agg({inner} order by u.n) from unnest({value}) with ordinality u (e, n)"
        return f"case when {value} is not null then coalesce(({elements}), '[]') end"
    if kinds.is_map(arrow):
        return f"hstore_to_json({value})"
    if kinds.is_date32(arrow) or kinds.is_timestamp(arrow):
        last = 2**31 - 1 if kinds.is_date32(arrow) else 2**63 - 1
        days = f"{value} - date '1970-01-01'"
        number = days if kinds.is_date32(arrow) else f"(extract(epoch from {value}) * 1000000)::bigint"
        ends = f"when {value} = 'infinity' then {last} when {value} = '-infinity' then {-last - 1}"
        return f"case {ends} else {number} end"
    if kinds.is_floating(arrow):
        return f"encode(float{arrow.bit_width // 8}send({value}), 'hex')"
    if kinds.is_binary(arrow):
        return f"encode({value}, 'hex')"
    if kinds.is_string(arrow) or kinds.is_decimal(arrow):
        # A composite of nulls "is null", but it is distinct from one.
        return f"case when {value} is distinct from null then format('%s', {value}) end"
    return value


def our_word(arrow: pa.DataType, value: Any) -> Any:
    """The same of a value of ours (a Python value, times as numbers)."""
    kinds = pa.types
    if value is None:
        return None
    if kinds.is_list(arrow):
        return [our_word(arrow.value_type, element) for element in value]
    if kinds.is_map(arrow):
        return dict(value)
    if kinds.is_floating(arrow):
        return struct.pack(">f" if arrow.bit_width == 32 else ">d", value).hex()
    if kinds.is_binary(arrow):
        return value.hex()
    return value


def python_values(array: pa.Array) -> list[Any]:
    """to_pylist, with times as numbers: Python's own end at the year 9999."""
    if pa.types.is_timestamp(array.type):
        return array.view(pa.int64()).to_pylist()
    if pa.types.is_date32(array.type):
        return array.view(pa.int32()).to_pylist()
    if pa.types.is_list(array.type):
        inner, at = python_values(array.flatten()), 0
        rows: list[Any] = []
        for length in array.value_lengths().to_pylist():
            rows.append(None if length is None else inner[at : at + length])
            at += length or 0
        return rows
    return array.to_pylist()


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, Decimal):
        return ours == Decimal(theirs)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return bool(ours == theirs)


def test_every_type_is_the_same_in_snapshot_and_stream_and_what_the_server_says(session: Any) -> None:
    seed = int(os.environ.get("HEADWATER_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"HEADWATER_SEED={seed}")
    r = random.Random(seed)  # noqa: S311
    table = create(session, [kind.type for kind in KINDS])
    rows = []
    for i in range(ROWS):
        made = [kind.edges[i] if i < len(kind.edges) else None if r.random() < 0.1 else kind.make(r) for kind in KINDS]
        rows.append([i, *made])
    insert = f"insert into wide values ({', '.join(['%s'] * (len(KINDS) + 1))})"
    with session.cursor() as cursor:
        cursor.executemany(insert, rows)

    snapshot, stream = parsed(table, copied(session)), parsed(table, streamed(session))

    for column in table.columns:
        ours, name = snapshot[column.name], f"{column.name} {column.type}"
        assert len(ours) == ROWS, name
        assert repr(python_values(ours)) == repr(python_values(stream[column.name])), name
        said = session.execute(
            f"select {word_of_the_server(column.arrow, column.name)} from wide order by id"
        ).fetchall()
        for value, (theirs,) in zip(python_values(ours), said, strict=True):
            assert same(our_word(column.arrow, value), theirs), name
        if pa.types.is_string(column.arrow):
            assert restored(session, column.type, ours.to_pylist()) == ours.to_pylist(), name


def restored(session: Any, type: str, texts: list[str | None]) -> list[str | None]:
    """The texts after a way through the server: nothing of the value is lost in them."""
    session.execute(f"drop table if exists back; create temporary table back (id serial, v {type})")
    with session.cursor() as cursor:
        cursor.executemany("insert into back (v) values (%s)", [[text] for text in texts])
    return [text for (text,) in session.execute(f"select {word_of_the_server(pa.string(), 'v')} from back order by id")]


REFUSED = [
    ("timestamp", "294247-01-10 04:00:54.775807"),
    ("timestamp", "294276-12-31 23:59:59.999999"),
    ("timestamptz", "294276-12-31 23:59:59.999999+00"),
    ("numeric(10,2)", "NaN"),
    ("public.price", "NaN"),
    ("numeric(10,2)[]", "{1.00,NaN}"),
    ("integer[]", "{{1,2},{3,4}}"),
    ("integer[]", "[0:1]={1,2}"),
    ("text[]", '{{"a b"}}'),
]


@pytest.mark.parametrize(("type", "value"), REFUSED)
def test_what_the_lake_type_cannot_hold_is_refused_and_a_cast_keeps_its_text(
    session: Any, type: str, value: str
) -> None:
    table = create(session, [type])
    session.execute("insert into wide values (1, %s)", [value])
    for rows in (copied(session), streamed(session)):
        with pytest.raises(Unrepresentable, match=r'source\.cast: \{"public\.wide\.c0": string\}'):
            parsed(table, rows)
        (cast,) = catalog.describe(session, [table.detail["oid"]], cast={"public.wide.c0": "string"})
        assert parsed(cast, rows)["c0"].to_pylist() == [value]
