"""What is seen of the demo: a live table on a terminal, a line now and then elsewhere; and the last words."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headwater.cli.demo_stage import Stage
from headwater.pipeline.status import quantile

LINE_SECONDS = 5.0


class Screen:
    """Says lines, and between `with` and its end shows the stage."""

    def __init__(self, out: TextIO, stage: Stage) -> None:
        self._console = Console(file=out, highlight=False, soft_wrap=True)
        self._stage = stage
        self._live: Live | None = None
        self._last_line = 0.0

    def say(self, text: str, style: str = "") -> None:
        """One line that stays."""
        self._console.print(Text(text, style))

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(draw(self._stage), console=self._console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()
        elif error is None:
            self._last_line = 0.0
            self.show()

    def show(self) -> None:
        """The stage as it is now."""
        if self._live is not None:
            self._live.update(draw(self._stage))
        elif time.monotonic() - self._last_line >= LINE_SECONDS:
            self._last_line = time.monotonic()
            self.say(f"{time.strftime('%H:%M:%S')} {line(self._stage)}")


def draw(stage: Stage) -> Panel:
    """Flow, latency, lag, rows per table."""
    tables = Table(box=None, padding=(0, 2), pad_edge=False)
    tables.add_column("table")
    for title in ("snapshot", "changes", "rows at source", "rows in lake"):
        tables.add_column(title, justify="right")
    sink = stage.sink
    for table in stage.tables:
        name = f"public.{table}"
        cells = (
            sink.loaded.get(name, 0),
            sink.rows.get(name, 0),
            stage.rows.get(table, 0),
            stage.lake_rows.get(table, 0),
        )
        tables.add_row(table, *(f"{cell:,}" for cell in cells))
    return Panel(Group(*(Text(text) for text in summary(stage)), Text(), tables), title="headwater demo", expand=False)


def line(stage: Stage) -> str:
    """The same in one line."""
    return "; ".join(" ".join(text.split()) for text in summary(stage))


def summary(stage: Stage) -> Iterator[str]:
    """The numbers above the tables."""
    sink = stage.sink
    if not sink.changes:
        loaded = f", {sum(sink.loaded.values()):,} rows loaded" if sink.loaded else ""
        waiting = ", waiting for the first change to come through" if stage.pulse is not None else ""
        yield f"phase      {stage.phase}{loaded}{waiting} ({time.monotonic() - stage.opened:.0f} s)"
        return
    yield f"phase      {stage.phase}; the shop has made {stage.shop.get('transactions', 0):,} transactions"
    yield f"flow       {sink.rate():,.0f} changes/s; {sink.changes:,} changes in {sink.batches:,} batches"
    yield f"latency    {latency(stage)}"
    yield f"slot lag   {stage.retained / 1e6:.1f} MB of WAL retained"


def latency(stage: Stage) -> str:
    """Commit to visible, with the number of measurements."""
    seconds = list(stage.pulse.seconds) if stage.pulse is not None else []
    first = stage.pulse.first if stage.pulse is not None else None
    if not seconds or first is None:
        return "commit to visible: not measured yet"
    lost = f", {stage.pulse.lost} not seen" if stage.pulse is not None and stage.pulse.lost else ""
    p50, p99 = (quantile(seconds, q) * 1000 for q in (0.5, 0.99))
    return (
        f"commit to visible p50 {p50:.0f} ms, p99 {p99:.0f} ms"
        f" ({len(seconds)} measured{lost}; the very first took {first:.1f} s)"
    )


def farewell(stage: Stage, *, kept: bool) -> Iterator[str]:
    """The numbers seen, and what to try next."""
    sink, shop = stage.sink, stage.shop
    busy = max(0.001, stage.ended - stage.began)
    undone = shop.get("think_again", 0) + shop.get("think_half_again", 0)
    yield (
        f"  {sum(sink.loaded.values()):,} rows by snapshot, then {sink.changes:,} changes in {sink.batches:,} batches,"
        f" {stage.spark_jobs} Spark jobs for the large ones:"
        f" {sink.changes / busy:,.0f} changes/s from {shop.get('transactions', 0) / busy:,.0f} transactions/s"
    )
    yield f"  {latency(stage)}; at most {stage.most_retained / 1e6:.1f} MB of WAL retained"
    yield (
        f"  among the transactions: {undone:,} rollbacks and savepoint rollbacks, {shop.get('burst', 0):,} COPY bursts,"
        f" {shop.get('rename_product', 0):,} key changes, {shop.get('restock', 0):,} updates beside an unchanged TOAST"
    )
    yield ""
    command = program()
    if not kept:
        yield f"next: {command} demo --keep leaves the server up and everything in place, to try the rest by hand"
        return
    python = os.path.relpath(sys.executable)
    yield "next, in another terminal:"
    yield f"  {command} tail {stage.url}                      # every change as a Debezium event, no Spark"
    yield f"  {python} -m headwater.testing.shop_traffic {stage.url}   # the shop again"
    yield f"  {command} run {stage.file}                     # the pipeline goes on from where it was"
    yield f"  {command} verify {stage.file}                  # the comparison again, when nobody writes"
    yield f"  {python} -c \"import deltalake; print(deltalake.DeltaTable('{stage.lake}/public/orders').to_pandas())\""


def program() -> str:
    """How this very command was called."""
    return os.path.relpath(sys.argv[0]) if os.path.sep in sys.argv[0] else "headwater"
