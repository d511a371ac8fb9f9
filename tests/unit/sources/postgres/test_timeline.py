"""From frames to events: counted through their transactions, however the log was cut. Frames are made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.sources.postgres.frame_builder import (
    begin,
    commit,
    delete,
    describe,
    insert,
    message,
    relation,
    truncate,
    update,
)

from headwater.errors import Unrepresentable
from headwater.event import Chunk, Position, TableSchema
from headwater.formats.debezium_options import DebeziumOptions
from headwater.options import parse_options
from headwater.sources.postgres.debezium import PostgresConnector
from headwater.sources.postgres.decode import decode
from headwater.sources.postgres.frames import ChunkBuilder
from headwater.sources.postgres.message import MESSAGES
from headwater.sources.postgres.pgoutput import Relation
from headwater.sources.postgres.position import at_lsn
from headwater.sources.postgres.types import builtin_column
from headwater.transforms.stream import EventStream

# Table `a` by its key, `b` whole (FULL): an update of either may change the key.
FRAMES = [
    begin(100, 7),
    relation(1, "a"),
    relation(2, "b"),
    insert(1, ["1", "x"], lsn=50),
    update(1, ["2", "x"], ["1", None], b"K"),
    insert(2, ["1", "x"], lsn=60),
    update(2, ["1", "y"], ["1", "x"]),
    update(2, ["2", "y"], ["1", "y"]),
    message("p", b"m", 70),
    truncate(1, 2),
    relation(3, "hidden"),
    insert(3, ["1", "x"]),
    delete(1, ["2", None]),
    insert(2, ["3", "z"], lsn=90),
    commit(100, 108),
    begin(200, 8),
    insert(1, ["9", "x"], lsn=150),
    commit(200, 208),
]


def describe_tables(table: Relation) -> TableSchema | None:
    if table.name == "hidden":
        return None
    found = describe(table)
    return replace(found, identity=("id", "v")) if table.name == "b" else found


def chunks_of(cut: int) -> tuple[list[Chunk], dict[str, TableSchema]]:
    """The frames as chunks, cut behind so many of them."""
    schemas = {MESSAGES.id: MESSAGES}

    def remember(table: Relation) -> TableSchema | None:
        schema = describe_tables(table)
        if schema is not None:
            schemas[schema.id] = schema
        return schema

    builder = ChunkBuilder(at_lsn(10), remember)
    chunks = []
    for part in (FRAMES[:cut], FRAMES[cut:]):
        for frame in part:
            builder.add(frame)
        while (chunk := builder.take()) is not None:
            chunks.append(chunk)
    return chunks, schemas


def events(
    chunks: Sequence[Chunk],
    schemas: dict[str, TableSchema],
    bounds: Sequence[tuple[Position | None, Position | None]] = ((None, None),),
    **options: Any,
) -> Iterator[dict[str, Any]]:
    given = {"topic.prefix": "srv", "provide.transaction.metadata": "true", **options}
    stream = EventStream(parse_options(DebeziumOptions, given, where="test"), PostgresConnector("db"))
    for after, upto in bounds:
        for chunk in chunks:
            yield from stream.events(decode(chunk, schemas), 1_000_000_000, after, upto).to_pylist()


def orders(records: Iterator[dict[str, Any]]) -> list[tuple[str, int, int] | tuple[str, Any]]:
    found: list[Any] = []
    for record in records:
        if record["value"] is None:
            continue
        value = json.loads(record["value"])
        if record["topic"] == "srv.transaction":
            counts = {each["data_collection"]: each["event_count"] for each in value["data_collections"] or ()}
            found.append((value["status"], value["id"], value["event_count"], counts))
        else:
            block = value["transaction"]
            found.append((record["topic"], value["op"], block["total_order"], block["data_collection_order"]))
    return found


EXPECTED = [
    ("BEGIN", "7:50", None, {}),
    ("srv.public.a", "c", 1, 1),
    ("srv.public.a", "d", 2, 2),
    ("srv.public.a", "c", 3, 3),
    ("srv.public.b", "c", 4, 1),
    ("srv.public.b", "u", 5, 2),
    ("srv.public.b", "d", 6, 3),
    ("srv.public.b", "c", 7, 4),
    ("srv.message", "m", 8, 1),
    ("srv.public.a", "d", 9, 4),
    ("srv.public.b", "c", 10, 5),
    ("END", "7:108", 10, {"public.a": 4, "public.b": 5, MESSAGES.name: 1}),
    ("BEGIN", "8:150", None, {}),
    ("srv.public.a", "c", 1, 1),
    ("END", "8:208", 1, {"public.a": 1}),
]


@pytest.mark.parametrize("cut", range(len(FRAMES)))
def test_a_transaction_is_counted_through_wherever_the_log_is_cut(cut: int) -> None:
    assert orders(events(*chunks_of(cut))) == EXPECTED


@pytest.mark.parametrize("ordinal", range(14))
def test_a_transaction_is_counted_through_wherever_a_batch_ends(ordinal: int) -> None:
    middle = Position(100, ordinal)
    found = events(*chunks_of(9), bounds=[(None, middle), (middle, None)])
    assert orders(found) == EXPECTED


def test_skipped_operations_are_not_counted() -> None:
    found = orders(events(*chunks_of(9), **{"skipped.operations": "none"}))
    assert ("srv.public.b", "t", 10, 5) in found
    assert found[-4] == ("END", "7:108", 12, {"public.a": 5, "public.b": 6, MESSAGES.name: 1})


def sequence(records: Iterator[dict[str, Any]], pick: Callable[[str], bool] = bool) -> list[str]:
    values = (json.loads(record["value"]) for record in records if record["value"] and pick(record["topic"]))
    return [value["source"]["sequence"] for value in values if "source" in value]


@pytest.mark.parametrize("cut", range(len(FRAMES)))
def test_sequence_names_the_end_of_the_transaction_before(cut: int) -> None:
    found = sequence(events(*chunks_of(cut)))
    assert found[0] == '[null,"50"]'
    assert found[-1] == '["108","150"]'
    assert {each.split(",")[0] for each in found[:-1]} == {"[null"}


def test_a_log_opened_behind_a_transaction_knows_its_end() -> None:
    builder = ChunkBuilder(Position(100, 13, "0/6C"), describe)
    for frame in (FRAMES[-3], relation(1, "a"), *FRAMES[-2:]):
        builder.add(frame)
    chunk = builder.take()
    assert chunk is not None
    assert chunk.context["previous"] == 108


def test_a_number_that_is_none_follows_the_failure_mode() -> None:
    numeric = builtin_column("v", 1700, ((10 << 16) | 2) + 4)

    schemas: dict[str, TableSchema] = {}

    def remember(table: Relation) -> TableSchema:
        found = describe(table)
        found = replace(found, columns=(found.columns[0], numeric))
        schemas[found.id] = found
        return found

    builder = ChunkBuilder(at_lsn(10), remember)
    for frame in (begin(100), relation(1), insert(1, ["1", "1.50"]), insert(1, ["2", "NaN"]), commit(100)):
        builder.add(frame)
    chunk = builder.take()
    assert chunk is not None

    with pytest.raises(Unrepresentable):
        decode(chunk, schemas)
    decoded = decode(chunk, schemas, numeric_as_text=True)
    for mode, amounts in (("warn", ["AJY=", None]), ("skip", ["AJY=", None])):
        options = DebeziumOptions(topic_prefix="srv", converting_failure=mode)
        values = EventStream(options, PostgresConnector("db")).events(decoded, 1).column("value").to_pylist()
        assert [json.loads(value)["after"]["v"] for value in values] == amounts
    with pytest.raises(Unrepresentable, match=r"public\.t\.v"):
        EventStream(DebeziumOptions(topic_prefix="srv"), PostgresConnector("db")).events(decoded, 1)
