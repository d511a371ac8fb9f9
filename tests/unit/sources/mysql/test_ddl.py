"""Statements that change definitions: what they say, what they do to a table, and which are not understood."""

from __future__ import annotations

import pytest

from headwater.event import TableSchema
from headwater.sources.mysql.ddl import (
    AlterTable,
    DropColumn,
    DropTables,
    RenameTables,
    Unreadable,
)
from headwater.sources.mysql.ddl_grammar import parse_ddl
from headwater.sources.mysql.ddl_words import ANSI_QUOTES, NO_BACKSLASH_ESCAPES
from headwater.sources.mysql.definitions import Definitions, Flavour, Impossible

LETTERS = {"utf8mb4": 4, "utf8mb3": 3, "latin1": 1, "ucs2": 2, "binary": 1}
MARIADB = Flavour(True, 101105, LETTERS)
MYSQL = Flavour(False, 80033, LETTERS)
BEFORE = "create table t (id int primary key, a int unsigned, b varchar(10), c enum('x', 'y'), d text) charset=latin1"


def follow(*statements: str, flavour: Flavour = MARIADB, sql_mode: int = 0) -> Definitions:
    definitions = Definitions(flavour, databases={"shop": "utf8mb4"})
    for text in statements:
        parsed = parse_ddl(text, sql_mode, flavour.version, mariadb=flavour.mariadb)
        if parsed is not None:
            definitions.apply(parsed, "shop", "utf8mb4")
    return definitions


def brief(table: TableSchema | None) -> str:
    assert table is not None
    key = f" key({','.join(table.key)})" if table.key else ""
    return ", ".join(f"{column.name} {column.type}" for column in table.columns) + key


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "alter table t add e int first",
            "e int(11), id int(11), a int(10) unsigned, b varchar(10), c enum('x','y'), d text key(id)",
        ),
        ("alter table shop.t drop a, drop column b, drop `c`", "id int(11), d text key(id)"),
        ("alter table t drop id, drop a, drop b, drop c", "d text"),
        (
            "alter table t rename column a to b, rename column b to a, drop c, drop d",
            "id int(11), b int(10) unsigned, a varchar(10) key(id)",
        ),
        ("alter table t change id k bigint after a, drop b, drop c, drop d", "a int(10) unsigned, k bigint(20) key(k)"),
        ("alter table t drop primary key, drop b, drop c, drop d", "id int(11), a int(10) unsigned"),
        (
            "alter table t drop primary key, add primary key (b(3), a), drop c, drop d",
            "id int(11), a int(10) unsigned, b varchar(10) key(b,a)",
        ),
        (
            "alter table t drop a, drop b, drop c, add (e int, index (e), f bit(3)), drop d",
            "id int(11), e int(11), f bit(3) key(id)",
        ),
        ("alter table t modify D longtext, drop a, drop b, drop c", "id int(11), D longtext key(id)"),
        ("alter table t drop a, drop b, drop c, convert to charset utf8mb4", "id int(11), d mediumtext key(id)"),
        (
            "alter table if exists t drop a, drop b, drop c, add column if not exists d int",
            "id int(11), d text key(id)",
        ),
        ("alter online ignore table t wait 5 drop a, drop b, drop c, drop d", "id int(11) key(id)"),
        ("alter table t drop a, drop b, drop c, drop d partition by hash (id) partitions 4", "id int(11) key(id)"),
        ("alter table t drop a, drop b, drop c /*!80000 , drop d */ /*M!100000 , drop d */", "id int(11) key(id)"),
    ],
)
def test_an_alteration_leaves_these_columns(statement: str, expected: str) -> None:
    assert brief(follow(BEFORE, statement).find(("shop", "t"))) == expected


def test_a_swap_of_tables_is_one_rename_behind_the_other() -> None:
    found = follow(
        BEFORE, "create table _t_gho like t", "alter table _t_gho add z int", "rename table t to _t_del, _t_gho to t"
    )

    assert [column.name for column in found.tables["shop", "t"].columns][-1] == "z"
    assert [column.name for column in found.tables["shop", "_t_del"].columns][-1] == "d"
    assert set(found.tables) == {("shop", "t"), ("shop", "_t_del")}


def test_databases_come_and_go_with_their_tables_and_character_set() -> None:
    found = follow(
        "create database w character set latin1", "create table w.t (a char(3))", "create table t (a char(3))"
    )
    assert [found.tables[name].columns[0].detail["octets"] for name in (("w", "t"), ("shop", "t"))] == [3, 12]

    found = follow(
        "create database w", "create table w.t (a int)", "alter database w collate latin1_bin", "drop schema w"
    )
    assert not found.tables
    assert found.databases == {"shop": "utf8mb4"}


def test_what_exists_already_stays_when_the_statement_says_so() -> None:
    found = follow(BEFORE, "create table if not exists t (other int)", "create or replace table u (k int)")

    assert len(found.tables["shop", "t"].columns) == 5
    assert brief(found.find(("shop", "u"))) == "k int(11)"


def test_mysql_and_mariadb_spell_and_keep_some_types_their_own_way() -> None:
    text = "create table t (a int, b bool, c json, d tinyint(1) unsigned, e varchar(3) default 'x')"

    assert brief(follow(text).find(("shop", "t"))) == (
        "a int(11), b tinyint(1), c longtext, d tinyint(1) unsigned, e varchar(3)"
    )
    mysql = follow(text, flavour=MYSQL).tables["shop", "t"]
    assert brief(mysql) == "a int, b tinyint(1), c json, d tinyint unsigned, e varchar(3)"
    assert mysql.column("e").default == "x"


def test_the_session_s_modes_decide_what_quotes_mean() -> None:
    assert parse_ddl('alter table "t" drop "a"', ANSI_QUOTES) == AlterTable(("", "t"), (DropColumn("a"),))
    with pytest.raises(Unreadable):
        parse_ddl('alter table "t" drop "a"')
    labels = follow(r"create table t (a enum('x\', 'y'))", sql_mode=NO_BACKSLASH_ESCAPES).tables["shop", "t"]
    assert labels.columns[0].detail["labels"] == ["x\\", "y"]
    labels = follow(r"create table t (a enum('x\'', 'y', 'it''s ', '\\'))").tables["shop", "t"]
    assert labels.columns[0].detail["labels"] == ["x'", "y", "it's", "\\"]


def test_names_in_the_other_case_are_the_same_where_the_server_says_so() -> None:
    folding = Flavour(True, 101105, LETTERS, folds=True)
    found = follow("create table Shop.T (a int)", "alter table t add b int", flavour=folding)

    assert brief(found.find(("SHOP", "T"))) == "a int(11), b int(11)"


@pytest.mark.parametrize(
    ("statement", "parsed"),
    [
        ("rename tables a to b, x.c wait 3 to d", RenameTables(((("", "a"), ("", "b")), (("x", "c"), ("", "d"))))),
        ("drop table if exists `a`,`b`.`c` /* generated by server */", DropTables((("", "a"), ("b", "c")))),
        ("drop tables a cascade", DropTables((("", "a"),))),
        ("drop temporary table a", None),
        ("create temporary table a (b int)", None),
        ("create view v as select 1", None),
        ("create definer=`a`@`b` trigger t before insert on u for each row begin set new.a = 1; end", None),
        ("grant select on t to u", None),
        ("alter view v as select 1", None),
        ("drop index i on t", None),
    ],
)
def test_other_statements_name_tables_or_mean_nothing(statement: str, parsed: object) -> None:
    assert parse_ddl(statement) == parsed


@pytest.mark.parametrize(
    "statement",
    [
        "create table t select 1 as a",
        "create table t (a int) as select 2 as b",
        "create table t (a int) with system versioning",
        "alter table t add system versioning",
        "alter table t add column a",
        "alter table t frobnicate a",
        "alter table t add a int frobnicated",
        "alter table t add a int default",
        "alter table t add (a int",
        "alter table t modify",
        "create table t (a enum(1, 2))",
        "create table t (a int as row start)",
        "alter table t drop column 'a'",
        "alter table",
        "rename table a b",
        "create table t (a 'unclosed",
    ],
)
def test_what_is_not_understood_is_never_guessed(statement: str) -> None:
    with pytest.raises(Unreadable):
        parse_ddl(statement, 0, 101105, mariadb=True)


@pytest.mark.parametrize(
    "statement",
    [
        "alter table unknown add a int",
        "alter table t drop a, modify q int",
        "alter table t add z int after q",
        "alter table t add primary key (q)",
        "alter table t alter q set default 1",
        "alter table t convert to character set latin1, convert to character set ucs2",
        "alter table t add z hyperint",
        "rename table unknown to u",
        "create table u like unknown",
    ],
)
def test_a_statement_that_cannot_have_been_run_here_is_refused(statement: str) -> None:
    with pytest.raises(Impossible):
        follow(BEFORE, statement)
