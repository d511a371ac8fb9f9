"""Logs that do not name their columns: definitions come from the catalog once, then from the log's own statements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.integration.mysql_source import SetGlobal, batches, changes, read_up, reading, shown, source_of

from headwater.errors import Stop
from headwater.event import Position
from headwater.formats.connector import Moment, Run
from headwater.formats.debezium_json import DebeziumJson
from headwater.formats.debezium_options import DebeziumOptions
from headwater.journal import Journal
from headwater.sources.base import Severity
from headwater.sources.mysql import MySql
from headwater.sources.mysql.connection import connect
from headwater.sources.mysql.position import at
from headwater.sources.mysql.state import written
from headwater.testing.mysql import MySqlServer

pytestmark = pytest.mark.server


def kept(mysql: MySqlServer, schema: str, folder: Path, **options: Any) -> MySql:
    """A source with a folder of its own, as a tail has it."""
    source = source_of(mysql, schema, **options)
    source.files = Journal(folder).source
    return source


def here(source: MySql) -> Position:
    with connect(source.options) as server:
        return at(written(server))


def test_rows_are_read_under_the_definition_of_their_time(
    mysql: MySqlServer, schema: str, tmp_path: Path, row_metadata: str
) -> None:
    mysql.execute(
        f"create table {schema}.t (id int primary key, size enum('s', 'm', 'l'), n int unsigned, w varchar(9)"
        " character set latin1)"
    )
    source = kept(mysql, schema, tmp_path, tables=[f"{schema}.t", f"{schema}.made"])
    begin = source.prepare(None)
    mysql.execute(
        "insert into t values (1, 'm', 4000000000, 'é')",
        # The table's form in the log stays the same.
        "alter table t rename column n to amount, modify size enum('m', 'small', 'medium', 'large')",
        "insert into t values (2, 'small', 4000000001, 'ü')",
        "alter table t add first_one set('a', 'b') first, drop primary key, add primary key (id, amount)",
        "insert into t values ('a,b', 3, 'large', 1, 'x')",
        # An online migration, under a name that is not captured until the swap.
        "create table _t_gho like t",
        "alter table _t_gho drop column w, add column more json",
        "insert into _t_gho select first_one, id, size, amount, '{}' from t",
        "rename table t to _t_del, _t_gho to t",
        "insert into t values ('b', 4, 'medium', 7, '[1]')",
        "insert into _t_del values ('b', 5, 'medium', 8, 'no')",
        "truncate table t",
        "create table made as select 1 as one, 'two' as two",
        database=schema,
    )
    with reading(source, begin) as log:
        found = changes(source, log)

    assert [row["after"] for row in found] == [
        {"id": 1, "size": "m", "n": 4000000000, "w": "é"},
        {"id": 2, "size": "small", "amount": 4000000001, "w": "ü"},
        {"first_one": "a,b", "id": 3, "size": "large", "amount": 1, "w": "x"},
        {"first_one": "b", "id": 4, "size": "medium", "amount": 7, "more": "[1]"},
        None,
        {"one": 1, "two": "two"},
    ]
    assert found[4]["op"] == "t"


def test_reading_begins_anew_at_any_position(
    mysql: MySqlServer, schema: str, tmp_path: Path, global_setting: SetGlobal
) -> None:
    global_setting("binlog_row_metadata", "MINIMAL")
    mysql.execute(f"create table {schema}.t (id int primary key, a int)")
    begin = kept(mysql, schema, tmp_path).prepare(None)
    statements = []
    for n in range(3):
        statements += [f"insert into t values ({n}, {n})", f"alter table t change {'abcd'[n]} {'bcde'[n]} int"]
    mysql.execute(*statements, "insert into t values (9, 9)", database=schema)
    source = kept(mysql, schema, tmp_path)
    with reading(source, begin) as log:
        chunks = read_up(source, log)
        places = [begin, *(place for chunk in chunks for place in source.positions(chunk)), chunks[-1].last]
    everything = [{"id": n, "abcd"[n]: n} for n in range(3)] + [{"id": 9, "d": 9}]

    # Forward, and back again: a crash may have lost the end of the journal, and not the definitions behind it.
    for after in [*places, *reversed(places)]:
        source = kept(mysql, schema, tmp_path)
        with reading(source, after) as log:
            found = changes(source, log)
        expected = everything if after.commit == begin.commit else everything[-len(found) :] if found else []
        assert [row["after"] for row in found] == expected
        assert all(row["commit"] >= after.commit for row in found)


def test_a_position_further_on_than_the_definitions_is_caught_up_with(
    mysql: MySqlServer, schema: str, tmp_path: Path, global_setting: SetGlobal
) -> None:
    global_setting("binlog_row_metadata", "MINIMAL")
    mysql.execute(f"create table {schema}.t (id int primary key, a int)")
    source = kept(mysql, schema, tmp_path)
    source.prepare(None)
    mysql.execute("insert into t values (1, 1)", "alter table t rename column a to b", database=schema)
    # A snapshot was taken here, or the journal was lost and the sinks have been further on.
    after = here(source)
    mysql.execute("insert into t values (2, 2)", database=schema)
    with reading(source, after) as log:
        assert shown(changes(source, log)) == [("c", None, {"id": 2, "b": 2})]


def test_a_server_that_stops_naming_columns_is_followed_from_there_when_nothing_has_changed(
    mysql: MySqlServer, schema: str, tmp_path: Path, global_setting: SetGlobal
) -> None:
    mysql.execute(f"create table {schema}.t (id int primary key, a int)")
    source = kept(mysql, schema, tmp_path)
    begin = source.prepare(None)
    mysql.execute(f"insert into {schema}.t values (1, 1)")
    global_setting("binlog_row_metadata", "MINIMAL")
    mysql.execute(f"insert into {schema}.t values (2, 2)")
    with reading(source, begin) as log:
        assert [row["after"]["id"] for row in changes(source, log)] == [1, 2]
    # It is said before, not refused.
    finding = next(finding for finding in source.check() if finding.subject == "binlog_row_metadata")
    assert finding.severity == Severity.WARNING

    other = kept(mysql, schema, tmp_path / "other")
    mysql.execute(f"alter table {schema}.t rename column a to b", f"insert into {schema}.t values (3, 3)")
    with pytest.raises(Stop, match="definitions of tables at our position are not known"):
        other.log(begin)


def test_a_definition_that_cannot_be_followed_stops_and_is_named(
    mysql: MySqlServer, schema: str, tmp_path: Path, global_setting: SetGlobal
) -> None:
    if not mysql.binaries.mariadb:
        pytest.skip("the statement is MariaDB's")
    global_setting("binlog_row_metadata", "NO_LOG")
    mysql.execute(f"create table {schema}.t (id int primary key)", f"create table {schema}.other (id int primary key)")
    source = kept(mysql, schema, tmp_path, tables=[f"{schema}.t"])
    begin = source.prepare(None)
    mysql.execute("alter table other add system versioning", "alter table t add system versioning", database=schema)
    with reading(source, begin) as log, pytest.raises(Stop, match=r"binlog\.\d+:\d+ .* alter table t add system"):
        read_up(source, log)

    # Passed over, the next rows show that they do not fit.
    lenient = kept(mysql, schema, tmp_path, tables=[f"{schema}.t"], skip_unparseable_ddl=True)
    mysql.execute(f"insert into {schema}.t values (1)")
    with reading(lenient, begin) as log, pytest.raises(Stop, match="its rows have 3 columns, its definition has 1"):
        read_up(lenient, log)


@pytest.mark.parametrize("row_metadata", ["FULL", "MINIMAL"], indirect=True)
def test_changes_of_definitions_come_as_debezium_has_them_in_their_place(
    mysql: MySqlServer, schema: str, row_metadata: str
) -> None:
    source = source_of(mysql, schema, tables=[f"{schema}.t"], include_schema_changes=True)
    with reading(source) as log:
        mysql.execute(
            "create table t (id int unsigned auto_increment primary key, s enum('a', 'b') not null, w varchar(9))",
            "create table other (id int)",
            "insert into t values (1, 'a', 'x')",
            "alter table t add d decimal(5, 2) default 1.5 comment 'c', drop w",
            "insert into t values (2, 'b', 3)",
            "drop table t",
            database=schema,
        )
        found = batches(source, log)
    order = [(row["commit"], row["ordinal"], row["op"]) for batch in found for row in batch.records.to_pylist()]
    # A dropped table leaves no rows.
    assert [op for _, _, op in sorted(order)] == ["m", "c", "m", "c", "t", "m"]

    options = DebeziumOptions(topic_prefix="shop", schemas_enable=False)
    connector = MySql.connector(source.facts())
    encoder = DebeziumJson(options, connector, Run())
    events = []
    for batch in found:
        if batch.table.message:
            for block in encoder.encode(batch, Moment(now=1_700_000_000_000_000_000)).batches:
                events += block.to_pylist()
    assert {event["topic"] for event in events} == {"shop"}
    values = [json.loads(event["value"]) for event in events]
    assert {event["key"] for event in events} == {f'{{"databaseName":"{schema}"}}'}
    assert [change["type"] for value in values for change in value["tableChanges"]] == ["CREATE", "ALTER", "DROP"]
    altered = values[1]
    assert altered["databaseName"] == altered["source"]["db"] == schema
    assert altered["source"]["table"] == "t"
    assert altered["ddl"].startswith("alter table t add d")
    (change,) = altered["tableChanges"]
    assert change["id"] == f'"{schema}"."t"'
    assert change["table"]["primaryKeyColumnNames"] == ["id"]
    columns = {column["name"]: column for column in change["table"]["columns"]}
    assert list(columns) == ["id", "s", "d"]
    assert columns["id"] | {"autoIncremented": True, "typeName": "INT UNSIGNED", "optional": False} == columns["id"]
    assert columns["s"]["enumValues"] == ["'a'", "'b'"]
    assert columns["d"] | {"length": 5, "scale": 2, "position": 3, "comment": "c", "jdbcType": 3} == columns["d"]
