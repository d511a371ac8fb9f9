"""Positions: sets of GTIDs keep their holes, and coordinates grow."""

from __future__ import annotations

import pytest

from headwater.errors import Stop
from headwater.sources.mysql.position import FileProgress, at, parse_mariadb, parse_mysql, parse_progress

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "4e11fa47-71ca-11e1-9e33-c80aa9429562"


def test_a_set_of_gtids_keeps_its_holes() -> None:
    found = parse_mysql(f"{A}:1-7:9-10,\n{B}:5")

    assert found.gtids == f"{A}:1-7:9-10,{B}:5"
    assert found.coordinate == 10
    assert found.after(A, 8).gtids == f"{A}:1-10,{B}:5"
    assert found.after(A, 11).gtids == f"{A}:1-7:9-11,{B}:5"
    assert found.after(A, 8).coordinate == 11


def test_tags_are_sources_of_their_own() -> None:
    assert parse_mysql(f"{A}:1-3:tag:1-2,{B}:4").gtids == f"{A}:1-3,{A}:tag:1-2,{B}:4"


def test_one_set_covers_another_only_when_it_has_all_of_it() -> None:
    full, holed = parse_mysql(f"{A}:1-10"), parse_mysql(f"{A}:1-7:9-10")

    assert full.covers(holed)
    assert not holed.covers(full)
    assert not full.covers(parse_mysql(f"{B}:1"))
    assert not full.covers(parse_mariadb("0-1-5"))


def test_mariadb_counts_over_all_domains() -> None:
    found = parse_mariadb("1-2-7, 0-1-100")

    assert found.gtids == "0-1-100,1-2-7"
    assert found.coordinate == 107
    assert found.after(0, 3, 101).gtids == "0-3-101,1-2-7"
    assert found.after(5, 1, 1).gtids == "0-1-100,1-2-7,5-1-1"
    assert found.covers(parse_mariadb("0-9-100"))
    assert not found.covers(parse_mariadb("0-1-101"))
    assert not found.covers(parse_mariadb("2-1-1"))


def test_a_gtid_that_goes_back_stops() -> None:
    with pytest.raises(Stop, match="0-1-100"):
        parse_mariadb("0-1-100").after(0, 1, 100)


def test_files_are_ordered_by_number_then_offset() -> None:
    assert FileProgress("binlog.000009", 900).coordinate < FileProgress("binlog.000010", 4).coordinate
    assert FileProgress("binlog.1000000", 4).coordinate > FileProgress("binlog.999999", 1 << 35).coordinate


@pytest.mark.parametrize(
    "progress",
    [parse_mariadb("0-1-100,1-2-7"), parse_mariadb(""), parse_mysql(f"{A}:1-7:9-10"), FileProgress("a.b.000003", 4567)],
)
def test_a_position_can_be_resumed(progress) -> None:  # type: ignore[no-untyped-def]
    assert parse_progress(at(progress).resume) == progress


@pytest.mark.parametrize("text", ["", "0/16B3748", "mysql:x:1", "mariadb:0-1", "file:4", "mariadb:a-b-c"])
def test_what_is_no_position_is_not_guessed(text: str) -> None:
    with pytest.raises(Stop):
        parse_progress(text)
