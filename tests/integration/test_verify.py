"""Verification of a Delta lake against a real PostgreSQL: what is equal, and that no difference escapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headwater.cli import main
from headwater.operate.verify import Verdict, Verification
from headwater.pipeline.definition import Definition, build_definition

pytestmark = pytest.mark.server

# One column of every kind that the lake tells apart.
TABLE = """
create type mood as enum ('happy', 'sad');
create table "Odd ""name" (
    id bigint, part text, primary key (id, part),
    price numeric(10,2), exact numeric, ratio double precision, small real, is_on boolean, feeling mood, at timestamptz,
    local timestamp, day date, raw bytea, tags text[], grid int[][], doc jsonb, span interval, net inet
);
insert into "Odd ""name"
select n, 'part ' || n % 3, n / 7.0, n / 3.0, 'NaN', '-0', n % 2 = 0, 'sad', 'epoch'::timestamptz + n * interval '1 s',
    '0044-03-15 BC', 'infinity',
    '\\x00ff', array[null, '', 'a"b,c'], '{{1,2},{3,4}}', '{"a": [1, null]}', '1 mon -1 day', '::1'
from generate_series(1, 500) n;
create table empty (id int primary key);
create table moods (feeling mood[] primary key, note text);
insert into moods values ('{happy,sad}', null), ('{}', '');
"""


@pytest.fixture
def pipeline(database: Any, tmp_path: Path) -> Definition:
    """A lake that was loaded by snapshot, without Spark."""
    database.execute(TABLE)
    given = {
        "name": "v",
        "source": {"type": "postgres", "url": database.url},
        "sinks": [{"type": "delta", "path": str(tmp_path / "lake")}],
    }
    (tmp_path / "v.yaml").write_text(json.dumps(given))
    definition = build_definition(given)
    source, sink = definition.source, definition.sinks["delta"]
    source.prepare(None)
    source.close()
    with source.snapshot(source.tables(), 1) as snapshot:
        for chunk in snapshot.chunks:
            receipt = sink.load_part(chunk.table, source.copy(chunk, snapshot))
            sink.load(chunk.table, [receipt], snapshot.position)
    return definition


def verdicts(definition: Definition) -> dict[str, Verdict]:
    return {verdict.table: verdict for verdict in Verification(definition).verdicts()}


def test_a_loaded_lake_is_equal_in_every_type(pipeline: Definition) -> None:
    found = verdicts(pipeline)

    assert {table: verdict.reason for table, verdict in found.items() if not verdict.equal} == {}
    assert found['public.Odd "name'].difference.source_rows == 500
    assert set(found) == {'public.Odd "name', "public.empty", "public.moods"}


@pytest.mark.parametrize(
    ("statement", "column"),
    [
        ("price = price + 0.01", "price"),
        ("exact = exact * 1.0", "exact"),
        ("ratio = null", "ratio"),
        ("small = 0", "small"),
        ("at = at + interval '1 microsecond'", "at"),
        ("local = null", "local"),
        ("raw = ''", "raw"),
        ("tags[2] = null", "tags"),
        ("""grid = '{{1,2},{3,5}}'""", "grid"),
        ("""doc = '{"a": [1, 0]}'""", "doc"),
        ("feeling = 'happy'", "feeling"),
    ],
)
def test_one_value_that_differs_is_found_by_key_and_column(
    pipeline: Definition, database: Any, statement: str, column: str
) -> None:
    database.execute(f'update "Odd ""name" set {statement} where id = 42')

    found = verdicts(pipeline)['public.Odd "name']

    assert (found.difference.different, found.difference.columns) == (1, {column})
    assert found.difference.named == [("different", {"id": "42", "part": "part 0"})]


def test_rows_that_came_and_went_are_counted(pipeline: Definition, database: Any) -> None:
    database.execute("delete from moods where note = ''; insert into empty values (1), (2)")

    found = verdicts(pipeline)

    assert (found["public.moods"].difference.extra, found["public.empty"].difference.missing) == (1, 2)


def test_a_column_that_the_lake_lacks_is_a_difference_without_comparing_rows(
    pipeline: Definition, database: Any
) -> None:
    database.execute("alter table empty add column more text")

    assert verdicts(pipeline)["public.empty"].reason == "the columns differ: more"


def test_the_command_says_equal_or_exits_with_3(
    pipeline: Definition, database: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(tmp_path / "v.yaml")]) == 0
    assert 'equal    public.Odd "name: 500 rows' in capsys.readouterr().out

    database.execute("insert into empty values (7)")

    assert main(["verify", str(tmp_path / "v.yaml"), "--table", "public.empty", "--json"]) == 3
    said = json.loads(capsys.readouterr().out)
    assert said["keys"] == [{"kind": "missing", "key": {"id": "7"}}]
