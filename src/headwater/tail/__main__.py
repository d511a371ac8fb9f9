"""`python -m headwater.tail`: reads its orders as one JSON line on standard input, so that no secret
stands in its arguments or environment; the end of standard input means that its owner is gone."""

from __future__ import annotations

import json
import os
import select
import signal
import sys

from headwater.errors import HeadwaterError
from headwater.event import Position
from headwater.journal import Journal
from headwater.registry import source_class
from headwater.tail.loop import Tail, report_end
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
    source.folder = journal.source
    try:
        tail = Tail(
            source,
            journal,
            Position(*orders["begin"]),
            orders["max_bytes"],
            alive,
            copy_first=orders["copy_first"],
            keep_seconds=orders["keep_seconds"],
        )
        try:
            tail.run()
        finally:
            tail.close()
    except HeadwaterError as error:
        report_end(journal, error)
        return error.exit_status
    report_end(journal, None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
