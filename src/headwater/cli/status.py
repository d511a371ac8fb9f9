"""`headwater status FILE`: how a pipeline is, from what it leaves in its state folder."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headwater.operate.status import Observer, Report, SourceLag
from headwater.pipeline.definition import read_definition
from headwater.wording import duration_text, size_text

WATCH_SECONDS = 1.0
NOT_READY = 1


def add(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "status",
        help="how a pipeline is: what flows, how far behind, what is wrong",
        description="Read what the pipeline leaves in its state folder; asks no server and works when nothing runs."
        " Exit status 0 when data flows, 1 when it does not.",
        epilog="example: headwater status shop.yaml --watch",
    )
    parser.add_argument("file", metavar="FILE", help="the pipeline's YAML file")
    parser.add_argument("--watch", action="store_true", help="again every second, until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="everything as JSON; with --watch one line a second")
    parser.set_defaults(verb=status)


def status(given: argparse.Namespace) -> int:
    """Once, or again and again."""
    observer = Observer(read_definition(given.file))
    report = observer.report()
    if given.json:
        print(json.dumps(report.to_json()), flush=True)
        while given.watch:
            time.sleep(WATCH_SECONDS)
            print(json.dumps(observer.report().to_json()), flush=True)
    elif given.watch:
        with Live(drawn(report)) as live:
            while True:
                time.sleep(WATCH_SECONDS)
                live.update(drawn(observer.report()))
    else:
        Console(highlight=False, soft_wrap=True).print(drawn(report))
    return 0 if report.ready else NOT_READY


def drawn(report: Report) -> Group:
    """One screen."""
    word, colour = ("ready", "green") if report.ready else ("NOT READY", "red")
    lines = Text.assemble((word, colour), f"  {report.pipeline}: {report.phase}")
    if report.running:
        lines.append(f", process {report.pid}, for {duration_text(report.uptime_seconds)}")
    if report.endpoint:
        lines.append(f", {report.endpoint}")
    for reason in report.reasons:
        lines.append(f"\n  {reason}", "red")
    source = report.source
    facts = Table.grid(padding=(0, 2))
    facts.add_row("log", f"{source.state}, {behind(source.behind_bytes, source.behind_seconds)}")
    facts.add_row("received", source.received or "-")
    facts.add_row("confirmed", source.confirmed or "-")
    if source.by_time:
        facts.add_row("server keeps", f"{size_text(source.retained_bytes or 0)} of log; {outlook(source)}")
    elif source.retained_bytes is not None:
        safe = "no limit" if source.safe_bytes is None else f"{size_text(source.safe_bytes)} more before it is lost"
        facts.add_row("server keeps", f"{size_text(source.retained_bytes)} for us; {safe}")
    facts.add_row("journal", size_text(source.journal_bytes))
    parts: list[Any] = [lines, facts]
    for sink in report.sinks:
        title = (
            f"{sink.sink}: durable {sink.durable or '-'}, {behind(sink.behind_bytes, sink.behind_seconds)},"
            f" {sink.changes:,} changes in {sink.batches:,} batches, {sink.changes_per_second:,.0f}/s,"
            f" commit to visible p50 {sink.latency_p50_seconds:.3f} s, {sink.errors} errors"
            + (f", {sink.dead_letters:,} dead letters" if sink.dead_letters else "")
        )
        tables = Table(title=title, title_justify="left", box=None)
        for name in ("table", "loaded", "changes", "behind"):
            tables.add_column(name, justify="left" if name == "table" else "right")
        for table in sink.tables:
            late = f"{table.behind_changes:,} changes, {table.behind_seconds:.1f} s" if table.behind_changes else "-"
            tables.add_row(
                Text(table.table), f"{table.loaded_rows:,}", f"{table.changes:,}", "stopped" if table.stopped else late
            )
        parts.append(tables)
    return Group(*parts)


def outlook(source: SourceLag) -> str:
    """What becomes of log that is kept by time."""
    if source.kept_seconds is None or source.safe_seconds is None:
        return "for ever: it may fill the disk"
    left = duration_text(max(0.0, source.safe_seconds))
    return f"each part for {duration_text(source.kept_seconds)}, what we have not read for {left} more"


def behind(count: int, seconds: float) -> str:
    """`3 MB and 2 s behind`, or that it is not."""
    return f"{size_text(count)} and {duration_text(seconds)} behind" if count else "not behind"
