"""`python -m headwater.tail`: reads its orders as one JSON line on standard input, so that no secret
stands in its arguments or environment; the end of standard input means that its owner is gone."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from headwater.errors import HeadwaterError, Retry
from headwater.event import ORIGIN
from headwater.journal import Journal, Limits
from headwater.journal.writer import JournalBusy
from headwater.registry import source_class
from headwater.sources.base import Source
from headwater.tail.loop import FIRST_BACKOFF_SECONDS, Tail, report_end
from headwater.tail.process import options_from_wire


def main() -> int:
    """Run one tail; the exit status is the error's."""
    orders = json.loads(sys.stdin.buffer.readline())
    # Ctrl-C goes to the whole process group; the owner decides when this tail ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stopping = False

    def stop(_signal: int, _frame: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)

    def alive() -> bool:
        if stopping:
            return False
        ready, _, _ = select.select([sys.stdin], [], [], 0)
        return not (ready and os.read(sys.stdin.fileno(), 1) == b"")

    journal = Journal(orders["journal"])
    cls = source_class(orders["type"])
    source = cls(options_from_wire(cls.options_class, orders["options"]))
    source.files, source.scratch = journal.source, Path(orders["folder"]) / "source"
    try:
        _run(source, journal, orders, alive)
    except HeadwaterError as error:
        # For our owner; what stands in the journal is for everybody, and not ours while another tail writes there.
        with suppress(BrokenPipeError):
            print(error, flush=True)  # noqa: T201
        if not isinstance(error, JournalBusy):
            report_end(journal, error)
        return error.exit_status
    report_end(journal, None)
    return 0


def _run(source: Source, journal: Journal, orders: dict[str, Any], alive: Callable[[], bool]) -> None:
    """Open the journal, however long its storage is away, and read until told to stop."""
    limits = Limits(**orders["limits"])
    tail = None
    while tail is None:
        try:
            tail = Tail(source, journal, journal.begin() or ORIGIN, limits, alive, copy_first=orders["copy_first"])
        except Retry:
            if not alive():
                raise
            time.sleep(FIRST_BACKOFF_SECONDS)
    try:
        tail.run()
    finally:
        tail.close()


if __name__ == "__main__":
    sys.exit(main())
