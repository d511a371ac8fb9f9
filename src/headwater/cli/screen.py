"""The one-screen status of a running pipeline on a terminal."""

from __future__ import annotations

import threading

from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

from headwater.pipeline.run import Run
from headwater.pipeline.status import quantile

REFRESH_SECONDS = 0.5


def live_screen(pipeline: Run, ended: threading.Event, _as_json: bool) -> None:
    """Redraw until the run ends."""
    with Live(draw(pipeline), refresh_per_second=4, transient=False) as live:
        while not ended.wait(REFRESH_SECONDS):
            live.update(draw(pipeline))
        live.update(draw(pipeline))


def draw(pipeline: Run) -> Panel:
    """Everything worth a glance: flow, latency, lag, rows per table."""
    tail = pipeline.journal.status()
    facts = Table.grid(padding=(0, 2))
    facts.add_row("phase", pipeline.status.phase)
    facts.add_row("log", f"{tail.get('state', 'not started')}, {int(tail.get('behind_bytes', 0)):,} bytes behind")
    facts.add_row("slot", f"confirmed {tail.get('confirmed_lsn', '-')}, server at {tail.get('server_lsn', '-')}")
    facts.add_row("journal", f"{int(tail.get('journal_bytes', 0)) / 1e6:,.1f} MB")
    if tail.get("error"):
        facts.add_row("trouble", str(tail["error"]))
    parts: list[Table] = [facts]
    for name, status in list(pipeline.status.sinks.items()):
        latencies = list(status.latencies)
        title = (
            f"{name}: {status.changes:,} changes, {status.rate():,.0f}/s, commit to visible"
            f" p50 {quantile(latencies, 0.5) * 1000:.0f} ms, p99 {quantile(latencies, 0.99) * 1000:.0f} ms"
        )
        tables = Table(title=title, title_justify="left", expand=False)
        tables.add_column("table")
        tables.add_column("loaded", justify="right")
        tables.add_column("changes", justify="right")
        names = sorted({*status.rows, *status.loaded}, key=lambda table: -status.rows.get(table, 0))
        for table in names[:12]:
            tables.add_row(table, f"{status.loaded.get(table, 0):,}", f"{status.rows.get(table, 0):,}")
        if len(names) > 12:
            tables.add_row(f"… {len(names) - 12} more", "", "")
        parts.append(tables)
    return Panel(Group(*parts), title=f"headwater: {pipeline.definition.name}", expand=False)
