"""The Delta sink's tables: names, types, columns that come later, the changelog, what is refused."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sinks.lake_of_orders import ORDERS, Changes, load, row, rows_at, sink, table_at, write

from headwater.errors import Stop, Usage
from headwater.event import Column, Position, TableSchema
from headwater.options import parse_options
from headwater.sinks.delta import DeltaOptions
from headwater.sinks.delta.compact import FANOUT, to_compact
from headwater.sinks.delta.place import decode_name, encode_name
from headwater.sources.base import Severity

HOSTILE = ['a"b', "a'b", "a`b", "a;b", "a\nb", "a\tb", "a/b", "..", "a.b", "a b", "a,b", "{a}", "(a)", "a=b", "é中🙂",
           "a%2Fb", "~", "\\", "x" * 63, "_delta_log", "_headwater", "*", ".hidden"]  # fmt: skip


@given(st.text(min_size=1, max_size=63))
def test_a_name_as_a_path_part_is_reversible_and_stays_one_part(name: str) -> None:
    if "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
        return
    part = encode_name(name)

    assert decode_name(part) == name
    assert "/" not in part
    assert "%" not in part
    assert not part.startswith(".")


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("mode", ["upsert", "append"])
def test_hostile_names_of_schema_table_and_column(tmp_path: Path, name: str, mode: str) -> None:
    columns = (Column("id", "bigint", pa.int64()), Column(name, "text", pa.string()))
    table = TableSchema(name, name, columns, key=("id", name), identity=("id", name))
    to = sink(tmp_path / "lake", mode)
    assert not [finding for finding in to.check([table]) if finding.severity == Severity.ERROR]

    write(to, Changes(table).insert(**{"id": 1, name: "x"}).insert(**{"id": 2, name: "y"}))
    write(to, Changes(table, commit=200).delete(**{"id": 1, name: "x"}))

    assert to.table_position(table) == Position(200, 1)
    if mode == "upsert":
        assert rows_at(tmp_path / "lake", table) == [{"id": 2, name: "y"}]
    else:
        assert [found["before"] for found in rows_at(tmp_path / "lake", table)][-1] is not None
    assert os.listdir(tmp_path) == ["lake"]
    assert len(os.listdir(tmp_path / "lake")) == 1


EVERYTHING: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False, None]),
    "small": (pa.int16(), [-(2**15), 2**15 - 1, None]),
    "whole": (pa.int32(), [-(2**31), 2**31 - 1, None]),
    "big": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "real": (pa.float32(), [1.5, float("inf"), None]),
    "double": (pa.float64(), [float("-inf"), 5e-324, None]),
    "price": (pa.decimal128(38, 10), [Decimal("-1234567890123456789012345678.0123456789"), Decimal(0), None]),
    "text": (pa.string(), ["", "é\n" + "x" * 1_000_000, None]),
    "bytes": (pa.binary(), [b"", bytes(range(256)), None]),
    # Infinity and -infinity are the ends of the range; then year 10000 and 1 BC.
    "day": (pa.date32(), [2**31 - 1, -(2**31), 2932897, -719163]),
    "at": (pa.timestamp("us", tz="UTC"), [2**63 - 1, -(2**63), 253402300800000000, -62135596800000001]),
    "clock": (pa.timestamp("us"), [2**63 - 1, -(2**63), 253402300800000000, -62135596800000001]),
    "tags": (pa.list_(pa.string()), [["a", None, ""], [], None]),
    "numbers": (pa.list_(pa.int32()), [[1, None], [], None]),
    "pairs": (pa.map_(pa.string(), pa.string()), [[("k", None), ("", "v")], [], None]),
}


@pytest.mark.parametrize("mode", ["upsert", "append"])
def test_every_lake_type_survives_exactly_also_a_rewrite(tmp_path: Path, mode: str) -> None:
    table = TableSchema(
        "t",
        "types",
        (Column("id", "bigint", pa.int64()), *(Column(n, "", k) for n, (k, _) in EVERYTHING.items())),
        ("id",),
    )
    arrays = [pa.array([1, 2, 3, 4], pa.int64())]
    for kind, values in EVERYTHING.values():
        plain = {pa.date32(): pa.int32()}.get(kind, pa.int64()) if pa.types.is_temporal(kind) else kind
        arrays.append(pa.array((values * 4)[:4], plain).cast(kind))
    rows = pa.StructArray.from_arrays(arrays, fields=list(table.arrow))
    changes = Changes(table)
    for _ in range(4):
        changes.insert(id=0)
    batch = changes.batch()
    records = batch.records.set_column(
        batch.records.schema.get_field_index("after"), batch.records.schema.field("after"), rows
    )
    to = sink(tmp_path, mode)
    to.write(table, [type(batch)(table, records)], changes.upto)
    # A file rewritten for another row must not change what it holds.
    write(to, Changes(table, commit=200).insert(id=9).next().delete(id=9))
    write(to, Changes(table, commit=300).insert(id=9))
    write(to, Changes(table, commit=400).delete(id=9))

    read = table_at(tmp_path, table).to_pyarrow_table()
    if mode == "append":
        read = pa.Table.from_struct_array(read.filter(pa.compute.equal(read["_headwater_commit"], 100))["after"])
    read = read.sort_by("id")
    for at, name in enumerate(read.column_names):
        got, sent = read.column(name).combine_chunks(), arrays[at]
        got = got.chunk(0) if isinstance(got, pa.ChunkedArray) else got
        assert got.cast(sent.type).equals(sent), name


@pytest.mark.parametrize("mode", ["upsert", "append"])
def test_a_column_added_at_the_source_is_added_in_the_lake(tmp_path: Path, mode: str) -> None:
    to = sink(tmp_path, mode)
    old = Changes().insert(**row(1))
    write(to, old)
    wider = replace(ORDERS, columns=(*ORDERS.columns, Column("since", "timestamp", pa.timestamp("us"))))
    late_old = Changes(commit=200).insert(**row(2))
    new = Changes(wider, commit=300).insert(**row(3), since=1_000_000).update(["body"], **row(1, body=None), since=5)

    to.write(wider, [late_old.batch(), new.batch()], new.upto)

    rows = rows_at(tmp_path)
    if mode == "append":
        rows = [found["after"] for found in rows]
        assert sorted((found["id"], found["since"] is None) for found in rows) == [
            (1, False),
            (1, True),
            (2, True),
            (3, False),
        ]
    else:
        assert [found["since"] is None for found in rows] == [False, True, False]
        assert rows[0]["body"] == "b"
        assert list(rows[0]) == ["id", "note", "body", "qty", "since"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (Column("late", "integer", pa.int32(), default="7"), 7),
        (Column("late", "integer", pa.int32(), default="'-7'::integer"), -7),
        (Column("late", "text", pa.string(), default="'it''s; new'::text"), "it's; new"),
        (Column("late", "numeric(10,2)", pa.decimal128(10, 2), default="1.5"), Decimal("1.50")),
        (Column("late", "boolean", pa.bool_(), default="true"), True),
        (Column("late", "date", pa.date32(), default="'2020-02-29'::date"), date(2020, 2, 29)),
        (Column("late", "text", pa.string(), default="NULL::character varying"), None),
    ],
)
def test_rows_already_there_get_the_constant_default_of_a_new_column(
    tmp_path: Path, column: Column, value: Any
) -> None:
    to = sink(tmp_path)
    write(to, Changes().insert(**row(1)).insert(**row(2)))
    wider = replace(ORDERS, columns=(*ORDERS.columns, column))
    before_it = Changes(commit=200).insert(**row(3))
    after_it = Changes(wider, commit=300).insert(**row(4), late=None)

    to.write(wider, [before_it.batch(), after_it.batch()], after_it.upto)

    assert [found["late"] for found in rows_at(tmp_path)] == [value, value, value, None]
    assert to.table_position(wider) == after_it.upto


@pytest.mark.parametrize("default", ["now()", "nextval('s'::regclass)", "gen_random_uuid()", "'{}'::text[]", "1 + 1"])
def test_a_default_that_only_the_server_knows_stops_the_table(tmp_path: Path, default: str) -> None:
    to = sink(tmp_path)
    write(to, Changes().insert(**row(1)))
    wider = replace(ORDERS, columns=(*ORDERS.columns, Column("late", "text[]", pa.string(), default=default)))

    with pytest.raises(Stop, match="'late' was added with a value"):
        write(to, Changes(wider, commit=200).insert(**row(2), late="x"))
    assert to.table_position(ORDERS) == Position(100, 1)


@pytest.mark.parametrize("mode", ["upsert", "append"])
def test_a_column_that_went_or_changed_its_type_stops_the_table(tmp_path: Path, mode: str) -> None:
    to = sink(tmp_path, mode)
    write(to, Changes().insert(**row(1)))
    fewer = replace(ORDERS, columns=ORDERS.columns[:3])
    with pytest.raises(Stop, match=r"shop\.orders: column 'qty'"):
        write(to, Changes(fewer, commit=200).insert(id=2))
    bigger = replace(ORDERS, columns=(*ORDERS.columns[:3], Column("qty", "bigint", pa.int64())))
    with pytest.raises(Stop, match="int32, the source now int64"):
        write(to, Changes(bigger, commit=200).insert(id=2))

    assert len(rows_at(tmp_path)) == 1
    assert to.table_position(ORDERS) == Position(100, 1)


def test_the_changelog_has_a_row_for_every_change(tmp_path: Path) -> None:
    to, changes = sink(tmp_path, "append"), Changes()
    changes.insert(**row(1)).update(["body"], **row(1, body=None)).next().delete(id=1).truncate()

    write(to, changes)

    read = table_at(tmp_path).to_pyarrow_table().to_pylist()
    read.sort(key=lambda found: (found["_headwater_commit"], found["_headwater_ordinal"]))
    assert [(f["_headwater_op"], f["_headwater_commit"], f["_headwater_ordinal"]) for f in read] == [
        ("c", 100, 1),
        ("u", 100, 2),
        ("d", 110, 1),
        ("t", 110, 2),
    ]
    assert read[1]["_headwater_unchanged"] == ["body"]
    assert read[2]["before"]["id"] == 1
    assert read[2]["after"] is None
    assert read[0]["_headwater_transaction_id"] == 100


def test_a_loaded_changelog_holds_reads(tmp_path: Path) -> None:
    to = sink(tmp_path, "append")

    load(to, ORDERS, [[Changes().read(**row(1)).batch()], [Changes().read(**row(2)).batch()]], Position(500, 0))

    assert {found["_headwater_op"] for found in rows_at(tmp_path)} == {"r"}
    assert sorted(found["after"]["id"] for found in rows_at(tmp_path)) == [1, 2]


def test_files_carry_the_key_range_and_a_merge_leaves_the_others_alone(tmp_path: Path) -> None:
    to = sink(tmp_path)
    load(to, ORDERS, [[Changes().read(**row(k)).read(**row(k + 9)).batch()] for k in (0, 10, 20)], Position(50, 0))
    files = set(table_at(tmp_path).file_uris())
    stats = pa.table(table_at(tmp_path).get_add_actions(flatten=True))
    assert sorted(zip(stats["min.id"].to_pylist(), stats["max.id"].to_pylist(), strict=True)) == [
        (0, 9),
        (10, 19),
        (20, 29),
    ]

    write(to, Changes().update(**row(10, qty=5)).insert(**row(30)))

    assert len(files & set(table_at(tmp_path).file_uris())) == 2
    assert rows_at(tmp_path)[2] == row(10, qty=5)


def test_many_small_writes_leave_few_files(tmp_path: Path) -> None:
    for mode in ("upsert", "append"):
        to = sink(tmp_path / mode, mode)
        wider = replace(ORDERS, columns=(*ORDERS.columns, Column("late", "int", pa.int32())))
        for key in range(3 * FANOUT):
            # A column comes in the middle: files with and without it are put together.
            table = ORDERS if key < FANOUT + 4 else wider
            write(to, Changes(table, commit=key + 1).insert(**row(key)))

        assert len(table_at(tmp_path / mode).file_uris()) < 2 * FANOUT
        assert len(rows_at(tmp_path / mode)) == 3 * FANOUT


def test_only_a_full_tier_is_compacted_and_no_more_than_fills_a_file() -> None:
    assert to_compact([10] * (FANOUT - 1), 1000) == []
    assert to_compact([10] * FANOUT + [5000], 1000) == list(range(FANOUT))
    assert to_compact([120] * 2 * FANOUT, 1000) == list(range(9))
    assert to_compact([400] * 2 * FANOUT, 1000) == [], "large enough to be left alone"


def test_without_a_key_upsert_refuses_and_names_the_remedies(tmp_path: Path) -> None:
    keyless = replace(ORDERS, key=(), identity=tuple(column.name for column in ORDERS.columns))
    with pytest.raises(Stop, match="REPLICA IDENTITY FULL"):
        write(sink(tmp_path), Changes(keyless).insert(**row(1)))
    found = [finding for finding in sink(tmp_path).check([keyless]) if finding.severity == Severity.ERROR]
    assert "primary key" in found[0].text
    assert not (tmp_path / "shop").exists()

    to = sink(tmp_path, keys={"shop.orders": ["id"]})
    assert not [finding for finding in to.check([keyless]) if finding.severity == Severity.ERROR]
    write(to, Changes(keyless).insert(**row(1)).update(before=row(1), **row(1, qty=2)).delete(**row(5)))
    assert rows_at(tmp_path) == [row(1, qty=2)]


def test_a_replica_identity_index_is_the_key_where_the_log_does_not_carry_the_primary_key(tmp_path: Path) -> None:
    table = replace(ORDERS, identity=("note",))
    to = sink(tmp_path)
    write(to, Changes(table).insert(**row(1, "a")).insert(**row(2, "b")))

    write(to, Changes(table, commit=200).delete(note="a").update(before={"note": "b"}, **row(3, "c")))

    assert rows_at(tmp_path) == [row(3, "c")]


def test_a_delete_that_names_no_key_stops(tmp_path: Path) -> None:
    with pytest.raises(Stop, match="key column 'id'"):
        write(sink(tmp_path), Changes().insert(**row(1)).delete(note="a"))


def test_columns_that_differ_only_in_case_are_refused(tmp_path: Path) -> None:
    table = replace(ORDERS, columns=(*ORDERS.columns, Column("Note", "text", pa.string())))

    with pytest.raises(Stop, match="differ only in case"):
        write(sink(tmp_path), Changes(table).insert(**row(1)))
    assert any("case" in finding.text for finding in sink(tmp_path).check([table]))


def test_an_unwritable_path_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    findings = sink(tmp_path / "file" / "lake").check([])

    assert findings[0].severity == Severity.ERROR
    assert "not a folder" in findings[0].text


def test_options_are_checked_and_secrets_do_not_show() -> None:
    with pytest.raises(Usage, match="scd2"):
        parse_options(DeltaOptions, {"path": "x", "mode": "scd2"}, where="sinks[0]")
    with pytest.raises(Usage, match="list of column names"):
        DeltaOptions(path="x", keys={"a.b": [1]})
    with pytest.raises(Usage, match="percent"):
        sink(Path("/tmp/50%"))  # noqa: S108
    options = parse_options(DeltaOptions, {"path": "x", "storage_options": {"secret_key": "canary"}}, where="sinks[0]")
    assert "canary" not in repr(options)
    assert json.dumps(options.keys) == "{}"
