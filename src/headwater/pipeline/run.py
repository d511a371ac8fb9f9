"""Running a pipeline: prepares the source, starts the tail, loads tables, streams, and ends well."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError, Stop
from headwater.event import Position, TableSchema
from headwater.journal import Journal
from headwater.journal.writer import lock_file
from headwater.pipeline.definition import Definition
from headwater.pipeline.status import Status
from headwater.sinks.base import Sink
from headwater.tail.process import TailProcess, wait_for_tail

if TYPE_CHECKING:
    from headwater.spark.flow import SinkFlow

WATCH_SECONDS = 0.1


class Run:
    """One run of a pipeline. `stop` may be called from a signal handler."""

    # log -> journal            one tail process, raw frames
    # journal -> slices         the stream carries places, not rows
    # slices -> changes -> sink one task per table group, decoded where they are written
    # sink's position -> consumer -> confirmed by the tail

    def __init__(self, definition: Definition, *, say: Callable[[str], None] = lambda _text: None) -> None:
        self.definition = definition
        self.journal = Journal(definition.journal)
        self.status = Status()
        self.flows: list[SinkFlow] = []
        self._say = say
        self._stopping = False

    def stop(self) -> None:
        """Finish the batch that is under way, then end."""
        self._stopping = True

    def run(self, *, available_now: bool = False) -> None:
        """Until stopped; with `available_now`, until everything committed before the start is delivered."""
        definition = self.definition
        definition.state.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            lock = lock_file(definition.state / "run.lock", f"the state of pipeline {definition.name!r}")
            stack.callback(lock.close)
            begin, positions = self._prepare()
            stack.callback(definition.source.close)
            target = definition.source.end() if available_now else None
            tail = TailProcess(
                self.journal, definition.source.type, definition.source.options, begin, definition.journal_max_bytes
            )
            stack.callback(tail.stop)
            tail.ensure()
            self.status.phase = "starting Spark"
            self._start(begin, positions, tail, target)
            stack.callback(self._stop_flows)
            self.status.phase = "streaming"
            self._watch(tail)
        self.status.phase = "ended"

    def _prepare(self) -> tuple[Position, dict[str, Position | None]]:
        """Publication and slot, the journal's owner, and how far each sink is."""
        definition = self.definition
        positions = {name: sink.position() for name, sink in definition.sinks.items()}
        held = [position for position in positions.values() if position is not None]
        begin = definition.source.prepare(min(held) if held else None)
        source = definition.source
        self.journal.create(source.type, source.identity(), source.facts())
        self._forget_strangers()
        for name, position in positions.items():
            self.journal.set_consumer(name, position)
        return begin, positions

    def _forget_strangers(self) -> None:
        """A sink taken out of the file holds nothing back any more."""
        for name in self.journal.consumer_positions():
            if name not in self.definition.sinks:
                self._say(f"sink {name!r} is no longer in the file: its position no longer holds the slot back")
                self.journal.remove_consumer(name)

    def _start(
        self, begin: Position, positions: dict[str, Position | None], tail: TailProcess, target: int | None
    ) -> None:
        from headwater.spark.flow import SinkFlow
        from headwater.spark.load import load_tables
        from headwater.spark.session import start_session
        from headwater.spark.work import warm_up

        definition = self.definition
        # Kernels that are not compiled yet (11 s, once per installation) are compiled here, while the JVM
        # starts, and not in every worker at the same time.
        compiling = threading.Thread(target=definition.source.warm_up)
        compiling.start()
        loads = definition.source.options.snapshot != "no_data"
        tables = definition.source.tables()
        settings = {k: v for sink in definition.sinks.values() for k, v in sink.spark_settings(tables).items()}
        spark = start_session(definition.name, {**settings, **definition.spark}, definition.state / "spark.log")
        wait_for_tail(self.journal, tail)
        compiling.join()
        cores = spark.sparkContext.defaultParallelism
        for name, sink in definition.sinks.items():
            spark.range(0, cores, 1, cores).mapInArrow(warm_up(definition.source.type, sink), "id bigint").collect()

            def load(wanted: list[TableSchema], name: str = name, sink: Sink = sink) -> None:
                self.status.phase = f"loading {len(wanted)} tables"
                self._say(
                    f"{name}: loading {', '.join(table.table for table in wanted[:5])}" + " …" * (len(wanted) > 5)
                )

                def progress(table: str, rows: int) -> None:
                    self.status.loaded(name, table, rows)
                    self._say(f"{name}: loaded {table}: {rows:,} rows")

                load_tables(spark, definition.source, sink, wanted, progress)
                self.status.phase = "streaming"

            missing = [table for table in tables if sink.table_position(table) is None]
            if missing and loads:
                load(missing)
            flow = SinkFlow(
                spark,
                name,
                sink,
                self.journal,
                load=load if loads else None,
                on_batch=partial(self.status.batch, name),
                say=self._say,
                max_bytes=definition.batch_max_bytes,
                checkpoint=definition.state / "checkpoints" / name,
            )
            position = positions[name]
            if position is None:
                # From here on a restart knows that this sink has begun.
                sink.advance(begin)
                self.journal.set_consumer(name, begin)
            flow.start(position or begin, target)
            self.flows.append(flow)
        definition.source.close()

    def _watch(self, tail: TailProcess) -> None:
        """Until everything is delivered, somebody stops us, or something cannot go on."""
        while not self._stopping:
            tail.ensure()
            for flow in self.flows:
                if not flow.active and (failure := flow.failure()) is not None:
                    raise failure
            if not any(flow.active for flow in self.flows):
                return
            time.sleep(WATCH_SECONDS)

    def _stop_flows(self) -> None:
        failures = []
        for flow in self.flows:
            try:
                flow.stop()
            except HeadwaterError as error:
                failures.append(error)
        if failures:
            raise next((error for error in failures if isinstance(error, Stop)), failures[0])
