"""A sink's flow over a real journal, with work that does as it is told: what is tried again, what stops, what moves."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.journal.chunk_builder import transactions

from headwater.errors import Drift, HeadwaterError, Rejected, Retry
from headwater.event import ORIGIN, Position, TableSchema
from headwater.journal import Journal, Limits
from headwater.sinks.base import Written
from headwater.spark import flow as flow_module
from headwater.spark.flow import SinkFlow
from headwater.spark.slices import Slice
from headwater.spark.whole_log import Unloaded
from headwater.spark.work import UNLOADED, JobFailed, Result, Work

END = Position(300, 1)


class Told(Work):
    """Answers batch by batch with what it is told, then that all went well."""

    here = parallel = 3

    def __init__(self, *answers: Result | HeadwaterError, small_bytes: int = 0) -> None:
        self.answers = list(answers)
        self.small_bytes = small_bytes
        self.batches: list[tuple[Sequence[Slice], Collection[str]]] = []

    def apply(self, sink: Any, slices: Sequence[Slice], *, load_first: bool, stopped: Collection[str]) -> list[Result]:
        self.batches.append((slices, stopped))
        answer = self.answers.pop(0) if self.answers else Result("public.t", 1, 5)
        if isinstance(answer, HeadwaterError):
            raise answer
        return [answer]


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Journal]:
    """Three transactions, all there is."""
    monkeypatch.setattr(flow_module, "FIRST_BACKOFF_SECONDS", 0.001)
    made = Journal(tmp_path / "journal")
    made.create("postgres", "postgres:1/shop/slot", {})
    opened = made.writer(Limits(1 << 30))
    for chunk in transactions(100, 200, 300):
        opened.append(chunk)
        opened.sync()
    made.set_status({"received": 300})
    yield made
    opened.close()


class Flow:
    """One flow, to its end."""

    def __init__(self, journal: Journal, work: Work, load: Any = None, max_bytes: int = 1 << 20, **sink: Any) -> None:
        self.advanced: list[Position] = []
        self.said: list[str] = []
        self.counted: dict[str, int] = {}
        made: Any = SimpleNamespace(**({"takes_log": lambda: False, "advance": self.advanced.append} | sink))
        self.flow = SinkFlow(
            "lake",
            made,
            journal,
            work,
            load=load,
            on_batch=lambda changed, _oldest: self.counted.update(changed),
            say=self.said.append,
            max_bytes=max_bytes,
            min_seconds=0.0,
        )
        self.flow.start(ORIGIN, 300)
        self.flow._thread.join(20)
        assert not self.flow.active


def test_everything_is_one_batch_and_the_position_follows(journal: Journal) -> None:
    work = Told()
    done = Flow(journal, work)

    assert done.flow.error is None
    assert [len(slices) for slices, _stopped in work.batches] == [1], "one table, one slice"
    assert done.advanced == [END]
    assert journal.consumer_positions() == {"lake": END}
    assert done.counted == {"public.t": 1}


def test_a_batch_is_cut_where_a_transaction_ends(journal: Journal) -> None:
    done = Flow(journal, Told(), max_bytes=1)

    assert done.advanced == [Position(100, 1), Position(200, 1), END]


def test_what_passes_by_itself_is_tried_again_and_told_once(journal: Journal) -> None:
    away = [Retry("the lake is away"), Retry("the lake is away")]
    done = Flow(journal, Told(*away))

    assert done.said == ["lake: the lake is away"]
    assert (done.flow.failures, done.flow.trouble, done.advanced) == (2, "", [END])


def test_what_spark_cannot_run_three_times_ends_the_flow_and_advances_nothing(journal: Journal) -> None:
    done = Flow(journal, Told(*[JobFailed("Spark failed", cause="a worker died")] * 3))

    assert isinstance(done.flow.error, HeadwaterError)
    assert done.flow.error.cause == "a worker died"
    assert done.advanced == []
    assert journal.consumer_positions() == {}


def test_spark_may_fail_now_and_then(journal: Journal) -> None:
    failed = JobFailed("Spark failed")
    done = Flow(journal, Told(failed, failed, Retry("away"), failed, failed))

    assert (done.flow.error, done.advanced) == (None, [END])


def test_a_record_that_never_fits_ends_the_flow(journal: Journal) -> None:
    done = Flow(journal, Told(Result.failed("public.t", Rejected("too long", cause="80 characters"))))

    assert isinstance(done.flow.error, Rejected)
    assert (str(done.flow.error.what), done.flow.error.cause, done.advanced) == ("too long", "80 characters", [])


def test_a_table_that_drifts_stops_alone_and_holds_the_position_back(journal: Journal) -> None:
    work = Told(Result.failed("public.t", Drift("a column was dropped")))
    done = Flow(journal, work, max_bytes=1)

    assert done.flow.error is None
    assert done.flow.position == END
    assert set(done.advanced) == {ORIGIN}, "what the table does not hold is not confirmed"
    assert [stopped for _slices, stopped in work.batches] == [(), ("public.t",), ("public.t",)]


def test_a_table_that_the_sink_has_never_seen_is_loaded_first(journal: Journal) -> None:
    table = TableSchema("public", "t", ())
    loaded: list[TableSchema] = []
    work = Told(Result("public.t", note=UNLOADED, schema=table.to_json()))
    done = Flow(journal, work, load=loaded.extend)

    assert [each.table for each in loaded] == ["public.t"]
    assert len(work.batches) == 2
    assert done.advanced == [END]


def test_a_table_that_is_gone_before_it_can_be_loaded_comes_from_the_log(journal: Journal) -> None:
    table = TableSchema("public", "t", ())

    class Gone(Told):
        def apply(self, *_arguments: Any, load_first: bool, **_more: Any) -> list[Result]:
            self.answers.append(Retry("asked"))
            return [Result("public.t", note=UNLOADED, schema=table.to_json()) if load_first else Result("public.t", 1)]

    work = Gone()
    done = Flow(journal, work, load=lambda _tables: None)

    assert (len(work.answers), done.flow.error, done.advanced) == (2, None, [END])


def test_so_it_does_into_a_sink_of_the_whole_log(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    table = TableSchema("public", "t", ())

    class Log:
        oldest = 5

        def __init__(self, *_arguments: Any, load_first: bool, loaded: Collection[str]) -> None:
            self.known = not load_first or "public.t" in loaded

    def write_log(log: Log, *_more: Any) -> list[Written]:
        if not log.known:
            raise Unloaded(table)
        return [Written("public.t", 1, 0.0)]

    monkeypatch.setattr(flow_module, "WholeLog", Log)
    done = Flow(journal, Told(), load=lambda _tables: None, takes_log=lambda: True, write_log=write_log)

    assert (done.flow.error, done.flow.position, done.counted) == (None, END, {"public.t": 1})


def test_any_other_error_is_told_with_the_sink_s_name(journal: Journal) -> None:
    class Broken(Told):
        def apply(self, *_arguments: Any, **_more: Any) -> list[Result]:
            raise ZeroDivisionError("a mistake of ours")

    done = Flow(journal, Broken())

    assert done.flow.error is not None
    assert "'lake' failed" in done.flow.error.what
    assert "a mistake of ours" in str(done.flow.error.cause)


def test_a_flow_that_waits_for_its_sink_can_be_stopped(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_module, "FIRST_BACKOFF_SECONDS", 600.0)
    asked = threading.Event()

    class Away(Told):
        def apply(self, *_arguments: Any, **_more: Any) -> list[Result]:
            asked.set()
            raise Retry("away")

    sink: Any = SimpleNamespace(takes_log=lambda: False)
    flow = SinkFlow(
        "lake", sink, journal, Away(), load=None, on_batch=lambda *_: None, say=print, max_bytes=1, min_seconds=0.0
    )
    flow.start(ORIGIN, None)
    assert asked.wait(20)
    flow.stop()

    assert (flow.active, flow.error, flow.position) == (False, None, ORIGIN)


@pytest.mark.parametrize(("count", "threads"), [(1, True), (5, True), (5, False)])
def test_work_here_gives_everything_in_order(count: int, threads: bool) -> None:
    done = Work().run(lambda number: iter([Result(str(number))]), count, small=True, threads=threads)

    assert [result.table for result in done] == [str(number) for number in range(count)]


@pytest.mark.parametrize("kind", [Retry, Rejected, Drift])
def test_an_error_comes_back_as_it_was(kind: type[HeadwaterError]) -> None:
    error = Result.failed("t", kind("what", "do this", cause="why")).to_error()

    assert type(error) is kind
    assert (error.what, error.cause, tuple(error.remedies)) == ("what", "why", ("do this",))
