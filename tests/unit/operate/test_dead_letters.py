"""What a person does with dead letters: in order per row, all or none of a row, and nothing is lost by looking."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.dead_letters.test_dead_letters import POISON, Picky
from tests.unit.sinks.lake_of_orders import ORDERS, Changes, row

from headwater.cli import dead_letters as verb
from headwater.dead_letters import DeadLetters, DeadLetterSink
from headwater.errors import Rejected, Usage
from headwater.event import ChangeBatch, TableSchema
from headwater.journal import Limits
from headwater.journal.locks import lock_file
from headwater.journal.writer import JournalBusy
from headwater.operate.dead_letters import drop, found, retry
from headwater.pipeline.definition import Definition
from headwater.sinks.base import Written


class Late(Picky):
    """Notes what comes late, and refuses a row while told to."""

    refused: int | None = None

    def write_late(self, table: TableSchema, batches: Sequence[ChangeBatch]) -> Written:
        rows = [(one["op"], one["after"]["id"], one["after"]["qty"]) for b in batches for one in b.records.to_pylist()]
        if any(id_ == self.refused for _op, id_, _qty in rows):
            raise Rejected("still poison")
        self.got += rows
        return Written(table.table, len(rows), 0.0)


class Shop:
    """A source that knows its tables."""

    def tables(self) -> list[TableSchema]:
        return [ORDERS]

    def close(self) -> None:
        pass


@pytest.fixture
def sink() -> Late:
    return Late()


@pytest.fixture
def pipeline(tmp_path: Path, sink: Late) -> Definition:
    """Rows 1 and 2 wait, each with a change behind it."""
    source: Any = Shop()
    guarded = DeadLetterSink(sink, tmp_path)
    changes = Changes().insert(**row(1, qty=POISON)).insert(**row(2, qty=POISON)).insert(**row(3))
    changes.next().update(**row(1, qty=2)).update(**row(2, qty=2))
    guarded.write(ORDERS, [changes.batch()], changes.upto)
    assert sink.got == [("c", 3, 1)]
    return Definition("shop", source, {"picky": guarded}, tmp_path, str(tmp_path), Limits(1), 1, {})


FIRST = ["picky/100:1", "picky/110:1"]
SECOND = ["picky/100:2", "picky/110:2"]


def outcomes(done: Any) -> dict[str, str]:
    return {each.id: each.outcome for each in done}


def test_all_are_delivered_in_their_order_and_are_gone(pipeline: Definition, sink: Late, tmp_path: Path) -> None:
    assert set(outcomes(retry(pipeline, found(pipeline))).values()) == {"delivered"}

    assert sink.got[1:] == [("c", 1, POISON), ("c", 2, POISON), ("u", 1, 2), ("u", 2, 2)]
    assert found(pipeline) == []


def test_a_row_that_is_refused_again_waits_whole_and_the_others_do_not(pipeline: Definition, sink: Late) -> None:
    sink.refused = 1

    done = outcomes(retry(pipeline, found(pipeline)))

    assert done == {**dict.fromkeys(FIRST, "waiting"), **dict.fromkeys(SECOND, "delivered")}
    assert sink.got[1:] == [("c", 2, POISON), ("u", 2, 2)]
    assert [letter.id for letter in found(pipeline)] == FIRST


def test_nothing_goes_before_an_earlier_change_of_its_row(pipeline: Definition) -> None:
    with pytest.raises(Usage, match=r"picky/100:1 is an earlier change of the same row"):
        list(retry(pipeline, found(pipeline, ["picky/110:1"])))

    assert set(outcomes(retry(pipeline, found(pipeline, FIRST))).values()) == {"delivered"}


def test_behind_one_that_is_dropped_the_rest_can_be_retried(pipeline: Definition, sink: Late) -> None:
    assert outcomes(drop(pipeline, found(pipeline, ["picky/100:1"]))) == {"picky/100:1": "dropped"}

    assert outcomes(retry(pipeline, found(pipeline, ["picky/110:1"]))) == {"picky/110:1": "delivered"}
    assert sink.got[1:] == [("u", 1, 2)]


def test_the_pipeline_must_not_run_meanwhile(pipeline: Definition) -> None:
    lock = lock_file(pipeline.state / "run.lock", "the state")
    try:
        with pytest.raises(JournalBusy):
            list(retry(pipeline, found(pipeline)))
    finally:
        lock.close()
    assert len(found(pipeline)) == 4


def test_an_unknown_letter_or_sink_is_a_mistake(pipeline: Definition) -> None:
    with pytest.raises(Usage, match="no dead letter 'picky/1:1'"):
        found(pipeline, ["picky/1:1"])
    with pytest.raises(Usage, match="no sink 'pick'"):
        found(pipeline, sink="pick")
    assert found(pipeline, table="shop.other") == []


def test_the_list_shows_no_values_and_show_shows_all(
    pipeline: Definition, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    letters = list(DeadLetters(tmp_path, "picky").letters())

    verb.list_letters(letters, as_json=False)
    text = capsys.readouterr().out
    assert "picky/100:1" in text
    assert "it is poison" in text
    verb.list_letters(letters, as_json=True)
    line = json.loads(capsys.readouterr().out.splitlines()[0])
    assert "event" not in line
    assert letters[0].to_json()["event"]["after"]["qty"] == POISON


def test_dropping_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)

    with pytest.raises(Usage, match="2 changes will never be delivered"):
        verb.confirmed(2, yes=False)
    assert verb.confirmed(2, yes=True)
