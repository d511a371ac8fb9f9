"""`headwater run FILE`: run a pipeline until it is stopped."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from headwater.cli.screen import live_screen
from headwater.errors import Usage
from headwater.operate.alarms import watch
from headwater.operate.endpoint import Endpoint
from headwater.pipeline.definition import read_definition
from headwater.pipeline.run import Run
from headwater.pipeline.status import quantile
from headwater.pipeline.tail_run import TailRun

LINE_SECONDS = 5.0


def add(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "run",
        help="run a pipeline",
        description="Stream every committed change from the source to the sinks, until Ctrl-C or SIGTERM.",
        epilog="example: headwater run shop.yaml --available-now",
    )
    parser.add_argument("file", metavar="FILE", help="the pipeline's YAML file")
    parser.add_argument(
        "--available-now", action="store_true", help="deliver everything committed before the start, then exit"
    )
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument(
        "--tail-only", action="store_true", help="read the log into the journal, and nothing else: Spark runs elsewhere"
    )
    parts.add_argument(
        "--no-tail", action="store_true", help="deliver from the journal: `--tail-only` runs on another machine"
    )
    parser.add_argument("--json", action="store_true", help="one JSON line per report instead of text")
    parser.set_defaults(verb=run)


def run(given: argparse.Namespace) -> int:
    """Until stopped: Ctrl-C and SIGTERM finish the batch that is under way and exit 0."""
    definition = read_definition(given.file)

    def say(text: str) -> None:
        # In one piece: sinks speak from threads of their own.
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
        sys.stderr.flush()

    if given.tail_only:
        if given.available_now:
            raise Usage("--tail-only has nothing to deliver", "leave --available-now to the run with --no-tail")
        tail = TailRun(definition, say=say)
        _stop_on_signals(tail.stop)
        tail.run()
        return 0
    pipeline = Run(definition, say=say, with_tail=not given.no_tail)
    _stop_on_signals(pipeline.stop)
    ended = threading.Event()
    endpoint = Endpoint(definition) if definition.health.enabled else None
    if endpoint is not None:
        pipeline.endpoint = endpoint.url
        say(f"health: {endpoint.url}/ready, /health, /metrics")
    threading.Thread(target=watch, args=(definition, say, ended), daemon=True).start()
    on_terminal = sys.stdout.isatty() and not given.json
    reporter = threading.Thread(
        target=live_screen if on_terminal else report_lines, args=(pipeline, ended, given.json), daemon=True
    )
    reporter.start()
    try:
        pipeline.run(available_now=given.available_now)
    finally:
        ended.set()
        reporter.join(5)
        if endpoint is not None:
            endpoint.close()
    return 0


def _stop_on_signals(stop: Callable[[], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _signal, _frame: stop())


def report_lines(pipeline: Run, ended: threading.Event, as_json: bool) -> None:
    """A line every few seconds while something happens, and one at the end."""
    last: dict[str, Any] = {}
    while True:
        final = ended.wait(LINE_SECONDS)
        for facts in sink_facts(pipeline):
            if final or facts["changes"] != last.get(facts["sink"]):
                last[facts["sink"]] = facts["changes"]
                print(json.dumps(facts) if as_json else line(facts), flush=True)
        if final:
            return


def sink_facts(pipeline: Run) -> list[dict[str, Any]]:
    """What there is to say about each sink."""
    tail = pipeline.journal.status()
    return [
        {
            "sink": name,
            "changes": status.changes,
            "batches": status.batches,
            "changes_per_second": round(status.rate(), 1),
            "latency_p50_ms": round(quantile(list(status.latencies), 0.5) * 1000),
            "latency_p99_ms": round(quantile(list(status.latencies), 0.99) * 1000),
            "loaded_rows": sum(status.loaded.values()),
            "behind_bytes": tail.get("behind_bytes", 0),
        }
        for name, status in list(pipeline.status.sinks.items())
    ]


def line(facts: dict[str, Any]) -> str:
    """One plain log line."""
    return (
        f"{time.strftime('%H:%M:%S')} {facts['sink']}: {facts['changes']:,} changes,"
        f" {facts['changes_per_second']:,.0f}/s, commit to visible p50 {facts['latency_p50_ms']} ms,"
        f" {facts['loaded_rows']:,} rows loaded"
    )
