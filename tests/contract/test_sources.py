"""What every source promises, on its real server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.contract.origins import ORIGINS, PASSWORD, Origin

from headwater.errors import HeadwaterError
from headwater.event import Chunk, Position, TableSchema
from headwater.registry import known, source_class
from headwater.sources.base import Log, Source
from headwater.testing import wait_until

pytestmark = pytest.mark.server

SECONDS = 60.0
ITEMS = "create table items (id int primary key, name varchar(40), amount decimal(10,2))"
Row = dict[str, Any]


@pytest.fixture(params=ORIGINS, ids=lambda origin: str(origin.type))
def origin(request: pytest.FixtureRequest) -> Iterator[Origin]:
    made: Origin = request.param(request.getfixturevalue(request.param.fixture))
    yield made
    made.close()


@contextmanager
def opened(source: Source, after: Position) -> Iterator[Log]:
    log = source.log(after)
    try:
        yield log
    finally:
        log.close()


def skip_without_copies(origin: Origin) -> None:
    if not origin.copies:
        pytest.skip("a log that is all there is: nothing to copy")


def begin(source: Source) -> Position:
    position = source.prepare(None)
    source.close()
    return position


def read(source: Source, log: Log) -> list[Chunk]:
    """Chunks up to where the server is now, the last one whole."""
    target, deadline, chunks = source.end(), time.monotonic() + SECONDS, []
    while log.lag()["received"] < target or not (chunks and chunks[-1].whole):
        assert time.monotonic() < deadline, f"the log did not reach {target}: {log.lag()}"
        if (chunk := log.read(0.2)) is not None:
            chunks.append(chunk)
    return chunks


def decoded(source: Source, log: Log, chunks: list[Chunk]) -> list[Row]:
    """Every change with its table, in log order."""
    rows = []
    for chunk in chunks:
        schemas = {run.schema: log.schema(run.schema) for run in chunk.tables}
        for batch in source.decode(chunk, schemas):
            rows += [{"table": batch.table.table, **row} for row in batch.records.to_pylist()]
    return sorted(rows, key=lambda row: (row["commit"], row["ordinal"]))


def shown(rows: list[Row]) -> list[tuple[str, Any]]:
    """(op, id) of every change; of a delete the old row's."""
    return [(row["op"], (row["after"] or row["before"] or {}).get("id")) for row in rows]


def folded(rows: list[Row], key: str = "id") -> list[tuple[Any, ...]]:
    """The table that the changes make, by key."""
    kept: dict[Any, Row] = {}
    for row in rows:
        if row["op"] == "t":
            kept.clear()
        if row["op"] in "ud" and row["before"] is not None:
            kept.pop(row["before"][key], None)
        if row["after"] is not None:
            kept[row["after"][key]] = row["after"]
    return [tuple(kept[each].values()) for each in sorted(kept)]


def test_every_source_has_an_origin() -> None:
    assert {origin.type for origin in ORIGINS} >= {kind for kind in known("sources") if source_class(kind).schemes}


def test_changes_come_once_in_commit_order_and_nothing_rolled_back(origin: Origin) -> None:
    origin.execute(ITEMS)
    source = origin.source()
    with opened(source, begin(source)) as log:
        origin.transaction(["insert into items values (1, 'one', 1.10)", "insert into items values (2, 'two', null)"])
        origin.transaction(["insert into items values (9, 'never', 9)"], rollback=True)
        origin.transaction(
            [
                "update items set name = 'uno' where id = 1",
                "savepoint s",
                "insert into items values (8, 'never', 8)",
                "rollback to savepoint s",
                "delete from items where id = 2",
            ]
        )
        origin.execute("update items set id = 3 where id = 1")
        rows = decoded(source, log, read(source, log))

    assert [op for op, _ in shown(rows)][:4] == ["c", "c", "u", "d"]
    assert folded(rows) == origin.rows("items")
    assert len({(row["commit"], row["ordinal"]) for row in rows}) == len(rows)
    assert all(row["table"] == origin.name("items") for row in rows)
    assert not {8, 9} & {number for _, number in shown(rows)}


def test_snapshot_and_log_meet_without_gap_or_overlap(origin: Origin) -> None:
    skip_without_copies(origin)
    origin.execute(ITEMS)
    origin.transaction([f"insert into items values ({n}, 'n', {n})" for n in range(200)])
    source = origin.source()
    source.prepare(None)
    tables = source.tables()
    with source.snapshot(tables, 2) as snapshot:
        origin.transaction(["delete from items where id = 7", "insert into items values (1000, 'late', 1)"])
        copied = [
            {"table": batch.table.table, **row}
            for chunk in snapshot.chunks
            for batch in source.copy(chunk, snapshot)
            for row in batch.records.to_pylist()
        ]
        position = snapshot.position
    source.close()
    with opened(source, position) as log:
        origin.execute("update items set amount = 5 where id = 1000")
        streamed = decoded(source, log, read(source, log))

    assert {row["op"] for row in copied} == {"r"}
    assert sorted(row["after"]["id"] for row in copied) == list(range(200))
    assert shown(streamed) == [("d", 7), ("c", 1000), ("u", 1000)]
    assert folded(copied + streamed) == origin.rows("items")


def test_reading_goes_on_behind_any_whole_chunk(origin: Origin) -> None:
    origin.execute(ITEMS)
    source = origin.source()
    start = begin(source)
    for number in range(1, 4):
        origin.execute(f"insert into items values ({number}, 'n', 0)")
    with opened(source, start) as log:
        chunks = read(source, log)
        everything = shown(decoded(source, log, chunks))
    ends = [chunk.last for chunk in chunks if chunk.whole]
    assert everything == [("c", 1), ("c", 2), ("c", 3)]

    origin.execute("insert into items values (4, 'n', 0)")
    for end in {ends[0], ends[-1]}:
        seen = [number for row, number in everything if row == "c"]
        with opened(source, end) as log:
            again = decoded(source, log, read(source, log))
        assert [number for _, number in shown(again)][-1] == 4
        assert all(Position(row["commit"], row["ordinal"]) > end for row in again)
        assert [number for _, number in shown(again)] == [*seen, 4][-len(again) :]


def test_decoding_is_pure_and_knows_every_position(origin: Origin) -> None:
    origin.execute(ITEMS)
    source = origin.source()
    with opened(source, begin(source)) as log:
        origin.transaction([f"insert into items values ({n}, null, {n}.5)" for n in range(20)])
        chunks = [chunk for chunk in read(source, log) if chunk.changes]
        for chunk in chunks:
            schemas: dict[str, TableSchema] = {run.schema: log.schema(run.schema) for run in chunk.tables}
            # As from the journal: a schema is its JSON.
            stored = {name: TableSchema.from_json(schema.to_json()) for name, schema in schemas.items()}
            first, second = source.decode(chunk, schemas), source.decode(chunk, stored)
            assert [batch.records for batch in first] == [batch.records for batch in second]
            found = [Position(row["commit"], row["ordinal"]) for row in decoded(source, log, [chunk])]
            assert [(at.commit, at.ordinal) for at in source.positions(chunk)] == [(a.commit, a.ordinal) for a in found]
            assert source.decode(chunk, schemas, {"no.such"}) == []


def test_a_column_added_is_there_from_its_first_row_on(origin: Origin) -> None:
    origin.execute(ITEMS)
    source = origin.source()
    with opened(source, begin(source)) as log:
        origin.execute("insert into items values (1, 'one', 1)")
        origin.execute("alter table items add column more int")
        origin.execute("insert into items values (2, 'two', 2, 22)")
        rows = decoded(source, log, read(source, log))

    assert [set(row["after"]) for row in rows] == [{"id", "name", "amount"}, {"id", "name", "amount", "more"}]
    assert rows[1]["after"]["more"] == 22


def test_hostile_names_are_names(origin: Origin) -> None:
    skip_without_copies(origin)
    table, column = f'a "b" `c`; drop table x --\n{"ü" * 8}', "select 'x', \"y\" `z`"
    name, wild = origin.quoted(table), origin.quoted(column)
    origin.execute(f"create table {name} (id int primary key, {wild} varchar(9))")
    origin.execute(f"insert into {name} values (1, 'x')")
    source = origin.source()
    source.prepare(None)
    assert [each.name for each in source.tables()] == [table]
    with source.snapshot(source.tables(), 1) as snapshot:
        copied = [b.after.to_pylist() for chunk in snapshot.chunks for b in source.copy(chunk, snapshot)]
        position = snapshot.position
    source.close()
    with opened(source, position) as log:
        origin.execute(f"update {name} set {wild} = 'y'")
        (row,) = decoded(source, log, read(source, log))

    assert copied == [[{"id": 1, column: "x"}]]
    assert row["table"] == origin.name(table)
    assert row["after"] == {"id": 1, column: "y"}


def test_a_listener_leaves_nothing_behind_and_begins_now(origin: Origin) -> None:
    origin.execute(ITEMS)
    origin.execute("insert into items values (1, 'before', 0)")
    source = origin.source()
    log = source.listen(temporary=True)
    try:
        origin.execute("insert into items values (2, 'after', 0)")
        rows = decoded(source, log, read(source, log))
    finally:
        log.close()

    assert shown(rows) == [("c", 2)]
    # The server notices by itself that the connection has ended.
    wait_until(
        lambda: not [holder.name for holder in source.holders() if holder.ours], 30, "it leaves something behind"
    )


def test_a_server_that_is_not_there_is_named_and_no_secret_told(origin: Origin) -> None:
    scheme = origin.source().schemes[0]
    source = origin.source(url=f"{scheme}://someone:{PASSWORD}@127.0.0.1:1/nowhere")
    with pytest.raises(HeadwaterError) as refused:
        source.prepare(None)

    assert "127.0.0.1" in str(refused.value)
    assert PASSWORD not in str(refused.value)
    assert PASSWORD not in repr(source.options)
