"""Definitions kept in the journal's folder: at every position those that its rows were written under."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.errors import Stop
from headwater.event import Position
from headwater.journal import Journal, SourceFiles
from headwater.sources.mysql.binlog import Query
from headwater.sources.mysql.definitions import Definitions, Flavour
from headwater.sources.mysql.history import LINES, MARK, History, load_history
from headwater.sources.mysql.position import parse_mariadb

FLAVOUR = Flavour(True, 101105, {"utf8mb4": 4, "latin1": 1})
CHARSETS = {8: "latin1", 45: "utf8mb4"}


def captured(database: str, table: str) -> bool:
    return database == "shop" and not table.startswith("_")


def query(text: str, **more: int) -> Query:
    return Query(1, "shop", text, text.encode("latin1" if more.get("client") == 8 else "utf-8"), **more)


def kept(folder: Path) -> SourceFiles:
    return Journal(folder).source


def begun(folder: Path | None, **more: bool) -> History:
    definitions = Definitions(FLAVOUR, databases={"shop": "utf8mb4"})
    history = History(definitions, parse_mariadb("0-1-10"), captured, kept(folder) if folder else None, **more)
    history.save(10)
    history.define(query("create table t (a int primary key)"), CHARSETS, 10, "binlog.000001:100")
    history.define(query("alter table t add b int"), CHARSETS, 20, "binlog.000001:200")
    history.define(query("create table u (x int)"), CHARSETS, 30, "binlog.000001:300")
    history.define(query("drop table t"), CHARSETS, 40, "binlog.000001:400")
    history.read_up_to(parse_mariadb("0-1-50"), now=True)
    return history


def columns(history: History | None) -> dict[str, list[str]]:
    assert history is not None
    return {name: [column.name for column in table.columns] for (_, name), table in history.definitions.tables.items()}


@pytest.mark.parametrize(
    ("commit", "expected"),
    [
        # A transaction that begins at 20 lies behind the position 20.
        (10, {}),
        (11, {"t": ["a"]}),
        (20, {"t": ["a"]}),
        (21, {"t": ["a", "b"]}),
        (35, {"t": ["a", "b"], "u": ["x"]}),
        (50, {"u": ["x"]}),
    ],
)
def test_reading_begins_with_the_definitions_of_its_position(
    tmp_path: Path, commit: int, expected: dict[str, list[str]]
) -> None:
    begun(tmp_path)

    assert columns(load_history(kept(tmp_path), FLAVOUR, captured, Position(commit))) == expected


def test_what_lies_behind_the_position_comes_again_and_is_kept_once(tmp_path: Path) -> None:
    begun(tmp_path)
    again = load_history(kept(tmp_path), FLAVOUR, captured, Position(20))
    assert again is not None
    again.define(query("alter table t add other int"), CHARSETS, 20, "binlog.000001:200")

    assert columns(load_history(kept(tmp_path), FLAVOUR, captured, Position(50))) == {"t": ["a", "other"]}


def test_what_nobody_asks_for_any_more_is_folded_away(tmp_path: Path) -> None:
    history = begun(tmp_path)
    history.floor = 30
    history.read_up_to(history.seen, now=True)

    assert columns(load_history(kept(tmp_path), FLAVOUR, captured, Position(50))) == {"u": ["x"]}
    assert len((tmp_path / "source" / LINES).read_text().splitlines()) == 3
    assert columns(load_history(kept(tmp_path), FLAVOUR, captured, Position(30))) == {"t": ["a", "b"]}
    with pytest.raises(Stop, match="known from 21 on, not at our position 15"):
        load_history(kept(tmp_path), FLAVOUR, captured, Position(15))


def test_a_line_that_a_crash_cut_short_is_left_out(tmp_path: Path) -> None:
    begun(tmp_path)
    whole = (tmp_path / "source" / LINES).read_text()
    (tmp_path / "source" / LINES).write_text(whole[:-20])

    cut = load_history(kept(tmp_path), FLAVOUR, captured, Position(50))
    assert columns(cut) == {"t": ["a", "b"], "u": ["x"]}
    assert cut is not None
    cut.define(query("drop table t"), CHARSETS, 40, "binlog.000001:400")
    assert columns(load_history(kept(tmp_path), FLAVOUR, captured, Position(50))) == {"u": ["x"]}


def test_damage_is_not_taken_for_an_empty_history(tmp_path: Path) -> None:
    begun(tmp_path)
    (tmp_path / "source" / LINES).write_text("{}x\n")
    with pytest.raises(Stop, match="is damaged"):
        load_history(kept(tmp_path), FLAVOUR, captured, Position(50))


def test_how_far_the_log_was_looked_through_is_kept(tmp_path: Path) -> None:
    begun(tmp_path)

    assert json.loads((tmp_path / "source" / MARK).read_text())["seen"] == "mariadb:0-1-50"
    assert load_history(kept(tmp_path / "elsewhere"), FLAVOUR, captured, Position(50)) is None


def test_a_statement_that_is_not_understood_stops_and_is_named_with_its_place() -> None:
    with pytest.raises(Stop) as stopped:
        begun(None).define(query("alter table u frobnicate x"), CHARSETS, 60, "binlog.000007:815")

    assert "binlog.000007:815" in str(stopped.value)
    assert "alter table u frobnicate x" in str(stopped.value)
    assert "skip_unparseable_ddl" in str(stopped.value)


def test_one_that_touches_no_captured_table_does_not_stop_until_that_becomes_one() -> None:
    history = begun(None)
    history.define(query("create table _u_new like u"), CHARSETS, 60, "f:1")
    history.define(query("alter table _u_new frobnicate x"), CHARSETS, 61, "f:2")
    history.define(query("alter table elsewhere.u frobnicate x"), CHARSETS, 62, "f:3")
    assert columns(history) == {"u": ["x"]}

    with pytest.raises(Stop, match="_u_new is not known"):
        history.define(query("rename table u to _u_old, _u_new to u"), CHARSETS, 63, "f:4")
    # A statement is followed wholly or not at all.
    assert columns(history) == {"u": ["x"]}


def test_one_that_is_not_understood_can_be_passed_over() -> None:
    history = begun(None, lenient=True)
    history.define(query("alter table u frobnicate x"), CHARSETS, 60, "f:1")

    assert columns(history) == {"u": ["x"]}


def test_one_that_is_not_needed_at_present_is_forgotten_rather_than_left_wrong() -> None:
    history = begun(None, spare=True)
    history.define(query("create table v (y int)"), CHARSETS, 60, "f:1")
    history.define(query("alter table u frobnicate x"), CHARSETS, 61, "f:2")
    assert columns(history) == {"v": ["y"]}
    history.define(query("alter table 'v' add z int"), CHARSETS, 62, "f:3")
    assert columns(history) == {}


def test_statements_are_read_in_the_character_set_of_their_session() -> None:
    history = begun(None)
    history.define(query("create table g (größe int)", client=8), CHARSETS, 60, "f:1")

    assert columns(history)["g"] == ["größe"]
