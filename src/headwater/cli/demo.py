"""`headwater demo`: a shop on an embedded PostgreSQL, its tables live in Delta, compared at the end.

Puts the parts on the stage in order; `demo_stage.py` is what stands on it, `demo_screen.py` what is seen.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from headwater.cli.demo_screen import Screen, farewell
from headwater.cli.demo_stage import Stage
from headwater.cli.verify import verdict_lines
from headwater.errors import HeadwaterError, Stop, Usage
from headwater.operate.verify import Verification
from headwater.pipeline.definition import read_definition

# Between two looks at everything. The source counts its rows each time, so not too often.
LOOK_SECONDS = 1.0
# How long the pipeline may take to deliver what is left when the writer has ended.
DRAIN_SECONDS = 120.0


def add(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "demo",
        help="see it work: a shop on PostgreSQL, live in Delta (about a minute)",
        description="Start an embedded PostgreSQL with a small shop, keep it busy, stream it into Delta tables, show"
        " what flows, and compare every table with the source at the end. Exit status 3 when they differ."
        " Everything lies in one temporary folder.",
    )
    parser.add_argument("--seconds", type=float, default=45, help="how long the shop is busy (default: %(default)g)")
    parser.add_argument("--rate", type=float, default=300, help="transactions a second at most (default: %(default)g)")
    parser.add_argument(
        "--keep", action="store_true", help="leave the server up until Ctrl-C, and the folder for good, to try things"
    )
    parser.set_defaults(verb=demo)


def demo(given: argparse.Namespace) -> int:
    """Ctrl-C or SIGTERM: the shop closes now, the rest goes its way."""
    if given.seconds <= 0 or given.rate <= 0:
        raise Usage("--seconds and --rate must be more than 0")
    closing = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _signal, _frame: closing.set())
    # /tmp and not $TMPDIR: as root, the server runs as `nobody` and must be able to walk there.
    folder = Path(tempfile.mkdtemp(prefix="headwater-demo-", dir="/tmp"))
    folder.chmod(0o755)
    with ExitStack() as stack:
        if not given.keep:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stage = stack.enter_context(Stage(folder))
        screen = Screen(sys.stdout, stage)
        equal = play(stage, screen, closing, given.seconds, given.rate)
        for text in farewell(stage, kept=given.keep):
            screen.say(text)
        if given.keep:
            closing.clear()
            screen.say("The server is up until Ctrl-C.")
            closing.wait()
    return 0 if equal else Stop.exit_status


def play(stage: Stage, screen: Screen, closing: threading.Event, seconds: float, rate: float) -> bool:
    """The whole piece; whether lake and source are equal at the end."""
    screen.say(f"starting PostgreSQL in {stage.folder}")
    stage.open_shop()
    screen.say(
        f"the shop is open: {stage.url}, {sum(stage.source_rows().values()):,} rows in {len(stage.tables)} tables"
    )
    screen.say(f"starting the pipeline {stage.file}")
    stage.start_pipeline()
    with screen:
        while not stage.streaming and not closing.wait(LOOK_SECONDS):
            stage.look()
            screen.show()
        stage.start_pulse()
        while not stage.flowing and not closing.wait(LOOK_SECONDS):
            screen.show()
        stage.start_traffic(rate)
        until = time.monotonic() + seconds
        while time.monotonic() < until and not closing.wait(LOOK_SECONDS):
            stage.look()
            screen.show()
        stage.close_shop()
        drain(stage, screen)
        stage.stop_pipeline()
        screen.show()
    return compare(stage, screen)


def drain(stage: Stage, screen: Screen) -> None:
    """Until everything the shop has committed is in the lake."""
    target = stage.end()
    deadline = time.monotonic() + DRAIN_SECONDS
    while not stage.delivered(target):
        if time.monotonic() > deadline:
            raise HeadwaterError(f"the pipeline did not deliver everything within {DRAIN_SECONDS:.0f} s")
        stage.look()
        screen.show()
        time.sleep(0.2)
    stage.look()


def compare(stage: Stage, screen: Screen) -> bool:
    """Every table, row by row; says the verdict."""
    began = time.monotonic()
    verdicts = []
    for verdict in Verification(read_definition(stage.file)).verdicts():
        verdicts.append(verdict)
        for line in verdict_lines(verdict):
            screen.say(f"  {line}")
    rows = sum(verdict.difference.source_rows for verdict in verdicts)
    equal = all(verdict.equal for verdict in verdicts)
    took = time.monotonic() - began
    screen.say(
        f"VERDICT: {'equal' if equal else 'NOT EQUAL'}. {rows:,} rows in {len(verdicts)} tables,"
        f" every value compared by its type, in {took:.1f} s",
        style="bold green" if equal else "bold red",
    )
    return equal
