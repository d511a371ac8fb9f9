"""Running a pipeline: prepares the source, starts the tail, loads tables, streams, and ends well."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

from headwater.errors import HeadwaterError, Retry, Stop
from headwater.event import Position, TableSchema
from headwater.journal import Journal, JournalReader
from headwater.journal.locks import lock_file
from headwater.pipeline.definition import Definition
from headwater.pipeline.opening import Opening, Stopped
from headwater.pipeline.reloads import Reloads
from headwater.pipeline.status import Status, StatusFile
from headwater.sinks.base import Sink
from headwater.spark.flow import LoadTables, SinkFlow
from headwater.spark.load import load_tables
from headwater.spark.work import Work
from headwater.tail.process import TailProcess, wait_for_tail

WATCH_SECONDS = 0.1
# A table that is rewritten under the snapshot this often is being rewritten all the time.
LOAD_ATTEMPTS = 6


class Run:
    """One run of a pipeline. `stop` may be called from a signal handler."""

    # log -> journal            one tail process, raw frames
    # journal -> slices         places in the journal, not rows
    # slices -> changes -> sink one task per table group, decoded where they are written
    # sink's position -> consumer -> confirmed by the tail

    def __init__(
        self, definition: Definition, *, say: Callable[[str], None] = lambda _text: None, with_tail: bool = True
    ) -> None:
        self.definition = definition
        self.journal = Journal(definition.journal)
        self.status = Status()
        self.openings: list[Opening] = []
        self.flows: list[SinkFlow] = []
        self.work = Work()
        # Where the health endpoint of this run listens, for those who read its status.
        self.endpoint = ""
        self._say = say
        self._reloads = Reloads(definition.state)
        # Without one, it runs on another machine (`TailRun`), and the journal is all that the two share.
        self._with_tail = with_tail
        self._stopping = False
        self._loading = threading.Lock()
        self._settled = False

    def stop(self) -> None:
        """Finish the batch that is under way, then end."""
        self._stopping = True

    def run(self, *, available_now: bool = False) -> None:
        """Until stopped; with `available_now`, until everything committed before the start is delivered."""
        definition = self.definition
        definition.state.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack, suppress(Stopped):
            lock = lock_file(definition.state / "run.lock", f"the state of pipeline {definition.name!r}")
            stack.callback(lock.close)
            stack.enter_context(self._telling())
            begin, openings = self._prepare()
            stack.callback(definition.source.close)
            target = definition.source.end() if available_now else None
            tail = self._start_tail(stack) if self._with_tail else None
            stack.callback(self._stop_flows)
            self._start(begin, openings, tail, target)
            self._watch(tail)
        self.status.phase = "ended"

    def _start_tail(self, stack: ExitStack) -> TailProcess:
        definition, source = self.definition, self.definition.source
        tail = TailProcess(self.journal, definition.tail_folder, source.type, source.options, definition.limits)
        stack.callback(tail.stop)
        tail.ensure()
        return tail

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Keep `status.json` while the block runs; its last word is how the run ended."""
        definition = self.definition
        file = StatusFile(definition.state, definition.name, self.status, definition.source, self._flow_facts)
        file.endpoint = self.endpoint
        file.start()
        try:
            yield
        except Stopped:
            file.close(None)
            raise
        except BaseException as error:
            file.close(error)
            raise
        file.close(None)

    def _flow_facts(self) -> dict[str, Any]:
        waiting = {
            opening.name: {"active": opening.is_alive(), "trouble": opening.trouble, "failures": opening.failures}
            for opening in list(self.openings)
        }
        flowing = {
            flow.name: {
                "active": flow.active,
                "trouble": flow.trouble,
                "failures": flow.failures,
                "reached": flow.position.to_json(),
                "stopped": flow.stopped.texts(),
            }
            for flow in list(self.flows)
        }
        return {**waiting, **flowing}

    def _prepare(self) -> tuple[Position, list[Opening]]:
        """Publication and slot, the journal's owner, and how far each sink is. One that is away does not hold the
        others: it is as far as the journal knows it to be, at least."""
        definition = self.definition
        known = self.journal.consumer_positions()
        openings = [Opening(name, sink, known.get(name)) for name, sink in definition.sinks.items()]
        for opening in openings:
            opening.ask(self._say)
        begun = self.journal.begin()
        # A sink that was started and holds no position yet may hold tables that were loaded since the log was begun:
        # what happened to them has to follow, however far the others are.
        reached = [o.position or (begun if o.name in known else None) for o in openings]
        held = [position for position in reached if position is not None]
        durable = min(held) if held else None
        source = definition.source
        self.journal.create(source.type, source.identity(), source.facts())
        source.files, source.scratch = self.journal.source, definition.tail_folder / "source"
        index = JournalReader(self.journal)
        index.refresh()
        # Once begun, the other machine's tail may be back at any moment.
        source.read_elsewhere = begun is not None and not self._with_tail
        elsewhere = source.read_elsewhere and self.journal.storage.written_by() is not None
        known_begin = begun if durable is None and elsewhere else None
        # A tail that reads already, before any sink holds anything, has begun where it was told to.
        begin = known_begin or source.prepare(durable, index.reach(durable) if durable else None)
        # A sink that is new takes what the journal has; what it has no longer lies before the sink's snapshot.
        begin = max(begin, index.start)
        self.journal.set_begin(begin)
        self._forget_strangers()
        for opening in openings:
            self.journal.set_consumer(opening.name, opening.position)
        return begin, openings

    def _forget_strangers(self) -> None:
        """A sink taken out of the file holds nothing back any more."""
        for name in self.journal.consumer_positions():
            if name not in self.definition.sinks:
                self._say(f"sink {name!r} is no longer in the file: its position no longer holds the slot back")
                self.journal.remove_consumer(name)

    def _start(self, begin: Position, openings: list[Opening], tail: TailProcess | None, target: int | None) -> None:
        """Those who work, then every sink in a thread of its own: what it lacks is loaded, and its stream begins."""
        tables = self.definition.source.tables()
        self.work = self._workers(tables)
        missing = {opening.name: self._missing(opening.sink, tables) for opening in openings if opening.answered}
        self._end_if_stopping()
        if tail is not None:
            wait_for_tail(self.journal, tail)
        self.openings = openings
        for opening in openings:
            lacks = missing.get(opening.name)
            opening.start(partial(self._open, opening, tables if lacks is None else lacks, begin, target))

    def _missing(self, sink: Sink, tables: list[TableSchema]) -> list[TableSchema]:
        """What the sink does not have, or has as another table, and what somebody wants it to have anew."""
        anew = self._reloads.of(sink.name)
        return [
            t
            for t in tables
            if t.table in anew or (self._loads and (sink.table_position(t) is None or sink.replaced(t)))
        ]

    def _open(self, opening: Opening, tables: list[TableSchema], begin: Position, target: int | None) -> None:
        """In the sink's own thread: those of the tables that it does not have are loaded, then it streams."""
        name, sink = opening.name, opening.sink
        while not opening.ask(self._say):
            opening.settled.set()
            self._pause(opening.patience())
        load = partial(self._load, name, sink)
        load(tables)
        self._end_if_stopping()
        if opening.position is None:
            # From here on a restart knows that this sink has begun.
            sink.advance(begin)
        position = opening.position or begin
        self.journal.set_consumer(name, position)
        flow = self._flow(name, sink, load if self._loads else None)
        flow.start(position, target)
        self.flows.append(flow)

    @property
    def _loads(self) -> bool:
        return bool(self.definition.source.options.snapshot != "no_data")

    def _workers(self, tables: list[TableSchema]) -> Work:
        """Spark, which starts in the background: what is small need not wait for it."""
        from headwater.spark.jobs import SparkJobs, warm_workers
        from headwater.spark.session import Session, StartingSession, start_session

        definition = self.definition
        sinks = list(definition.sinks.values())
        needed = {k: v for sink in sinks for k, v in sink.spark_settings(tables).items()}
        settings = {**needed, **definition.spark}

        def start() -> Session:
            spark = start_session(definition.name, settings, definition.state / "spark.log")
            # The first job would wait seconds for imports and kernels.
            warming = partial(warm_workers, spark, definition.source.type, sinks)
            threading.Thread(target=warming, daemon=True).start()
            return spark

        session = StartingSession(start, settings)
        # Kernels that are not compiled yet (11 s, once per installation) are compiled here, while the JVM
        # starts, and not in every worker at the same time.
        definition.source.warm_up()
        if needed:
            # Tables that only Spark can write: nobody else may touch them meanwhile.
            self.status.phase = "starting Spark"
            session.get()
        return SparkJobs(session, definition.batch_driver_bytes)

    def _load(self, name: str, sink: Sink, wanted: list[TableSchema]) -> None:
        """Copy tables that a sink does not have yet."""
        wanted = self._missing(sink, wanted)
        if not wanted:
            return
        for table in wanted:
            if sink.replaced(table):
                self._say(f"{name}: {table.table} is another table than before: made anew, or renamed to this name")
        self.status.phase = f"loading {len(wanted)} tables"
        self._say(f"{name}: loading {', '.join(table.table for table in wanted[:5])}" + " …" * (len(wanted) > 5))

        def progress(table: str, rows: int) -> None:
            self._reloads.done(name, table)
            self.status.loaded(name, table, rows)
            self._say(f"{name}: loaded {table}: {rows:,} rows")
            self._end_if_stopping()

        for attempt in range(1, LOAD_ATTEMPTS + 1):
            try:
                # One at a time: a snapshot is the source's, and there is one source.
                with self._loading:
                    load_tables(self.work, self.definition.source, sink, wanted, progress, self._say)
                break
            except Retry as error:
                # Truncated or rewritten under the snapshot, or the connection that held it broke.
                if attempt == LOAD_ATTEMPTS:
                    raise
                self._say(f"{name}: {error.what}; copying what is missing again, under a new snapshot")
                with self._loading:
                    self.definition.source.close()
                self._pause(attempt)
                wanted = self._missing(sink, wanted)
        if self._settled:
            self.status.phase = "streaming"

    def _flow(self, name: str, sink: Sink, load: LoadTables | None) -> SinkFlow:
        return SinkFlow(
            name,
            sink,
            self.journal,
            self.work,
            load=load,
            on_batch=partial(self.status.batch, name),
            say=self._say,
            max_bytes=self.definition.batch_max_bytes,
            min_seconds=self.definition.batch_min_ms / 1000,
        )

    def _end_if_stopping(self) -> None:
        """Between two steps of starting: nothing is half done here that the next run would not mend."""
        if self._stopping:
            raise Stopped

    def _pause(self, seconds: float) -> None:
        """Wait, but not longer than the run lasts."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._end_if_stopping()
            time.sleep(min(WATCH_SECONDS, seconds))

    def _watch(self, tail: TailProcess | None) -> None:
        """Until everything is delivered, somebody stops us, or something cannot go on."""
        while not self._stopping:
            self.status.beat = time.time()
            if tail is not None:
                tail.ensure()
            self.work.check()
            self._settle()
            for opening in self.openings:
                opening.raise_error()
            for flow in list(self.flows):
                if not flow.active and flow.error is not None:
                    raise flow.error
            if not any(opening.is_alive() for opening in self.openings) and not any(f.active for f in self.flows):
                self._raise_drift()
                return
            time.sleep(WATCH_SECONDS)

    def _settle(self) -> None:
        """Once every sink streams, or has said why it does not yet."""
        if not self._settled and all(opening.settled.is_set() for opening in self.openings):
            self._settled = True
            self.status.phase = "streaming"
            # A sink that was away may be loading: then what it needs stays until the end.
            if self._loading.acquire(blocking=False):
                self.definition.source.close()
                self._loading.release()

    def _raise_drift(self) -> None:
        """Everything else is delivered: what stopped is the last word."""
        for flow in self.flows:
            if flow.stopped.error is not None:
                raise flow.stopped.error

    def _stop_flows(self) -> None:
        self._stopping = True
        for opening in self.openings:
            opening.join()
        failures = []
        for flow in self.flows:
            try:
                flow.stop()
            except HeadwaterError as error:
                failures.append(error)
        if failures:
            raise next((error for error in failures if isinstance(error, Stop)), failures[0])
