"""The tail of a pipeline alone: Spark runs on another machine, and the journal is all that the two share."""

from __future__ import annotations

import time
from collections.abc import Callable

from headwater.errors import Retry, Usage
from headwater.journal import Journal
from headwater.journal.remote import RemoteStorage
from headwater.pipeline.definition import Definition
from headwater.tail.process import TailProcess

WATCH_SECONDS = 0.5
# A storage or server that does not answer at the start is asked again after this long.
PATIENCE_SECONDS = 5.0


class TailRun:
    """Keeps one tail running. `stop` may be called from a signal handler."""

    def __init__(self, definition: Definition, *, say: Callable[[str], None]) -> None:
        self.definition = definition
        self.journal = Journal(definition.journal)
        self._say = say
        self._said = ""
        self._stopping = False
        if not isinstance(self.journal.storage, RemoteStorage):
            raise Usage(
                "--tail-only needs a journal that another machine can read",
                "journal: s3://bucket/prefix in the pipeline's file",
            )

    def stop(self) -> None:
        """Store what was read, then end."""
        self._stopping = True

    def run(self) -> None:
        """Until stopped, or until the tail says why it cannot go on."""
        definition, source = self.definition, self.definition.source
        if not self._wait_for_run():
            return
        tail = TailProcess(self.journal, definition.tail_folder, source.type, source.options, definition.limits)
        tail.start()
        try:
            while not self._stopping:
                tail.ensure()
                self._tell()
                time.sleep(WATCH_SECONDS)
        finally:
            tail.stop()

    def _wait_for_run(self) -> bool:
        """Until slot and journal are prepared, which takes the sinks' positions: the run with Spark knows those."""
        while not self._stopping:
            try:
                if self.journal.about() is not None and self.journal.begin() is not None:
                    source = self.definition.source
                    self.journal.create(source.type, source.identity(), source.facts())
                    source.close()
                    return True
                self._tell_once("waiting for `headwater run FILE --no-tail` to prepare slot and journal")
            except Retry as error:
                self._tell_once(error.what, str(error))
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not self._stopping and time.monotonic() < deadline:
                time.sleep(WATCH_SECONDS)
        return False

    def _tell(self) -> None:
        """When the tail's state changes."""
        status = self.journal.status()
        if status:
            self._tell_once(f"tail: {status.get('state')}" + (f": {status['error']}" if status.get("error") else ""))

    def _tell_once(self, what: str, text: str = "") -> None:
        if what != self._said:
            self._said = what
            self._say(text or what)
