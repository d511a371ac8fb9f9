"""A journal that several machines reach: no kernel frees a lock there, so who writes is told by what the tail says.

Only politeness: that a tail which was replaced cannot write any more is for each storage to see to.
"""

from __future__ import annotations

import json
import os
import platform
import time
from abc import abstractmethod

from headwater.errors import Retry
from headwater.journal.storage import Storage
from headwater.journal.writer import JournalBusy

# A tail on another machine that has been silent for so long has died, or is cut off.
LEASE_SECONDS = 30.0
# Between two looks at a tail that may be dead.
WATCH_SECONDS = 1.0


class RemoteStorage(Storage):
    """What object stores and brokers have in common."""

    # A look costs a request.
    pace = 1.0

    @abstractmethod
    def __reduce__(self) -> str | tuple[object, ...]:
        """By its URL alone: it travels to executors, and a client knows credentials."""

    def written_by(self) -> str | None:
        try:
            text = self.read("tail.json")
        except Retry:
            return None
        status = json.loads(text) if text else {}
        if status.get("state") in (None, "ended", "stopped"):
            return None
        if status.get("host") == platform.node():
            lives = _lives(int(status["pid"]))
        else:
            lives = time.time() - float(status.get("beat", 0)) < LEASE_SECONDS
        return str(status["pid"]) if lives else None

    def refuse_two(self) -> None:
        """Raise JournalBusy when another tail goes on speaking; return once it is known, or taken, to be dead."""
        said = self.read("tail.json")
        deadline = time.monotonic() + LEASE_SECONDS
        while self.written_by() is not None and time.monotonic() < deadline:
            if self.read("tail.json") != said:
                raise self.busy()
            time.sleep(WATCH_SECONDS)

    def busy(self) -> JournalBusy:
        """The error for the one who has to go."""
        return JournalBusy(
            f"another tail writes the journal in {self.place}",
            "Stop it first, or give this pipeline a journal of its own (`journal:` in its file)",
        )


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
