"""A sink on its way to its stream: asked until it answers, then opened; in a thread of its own, so that one sink that
is away or has much to load holds up no other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from headwater.errors import HeadwaterError, Retry
from headwater.event import Position
from headwater.sinks.base import Sink

MAX_PATIENCE_SECONDS = 15.0
JOIN_SECONDS = 15.0


class Stopped(Exception):
    """Somebody stopped us before the streams ran."""


class Opening:
    """One sink. `position` is what it said, or before that what the journal `known` of it."""

    def __init__(self, name: str, sink: Sink, known: Position | None) -> None:
        self.name = name
        self.sink = sink
        self.position = known
        self.answered = False
        # Why it does not answer, and how often it was asked in vain.
        self.trouble = ""
        self.failures = 0
        # It streams, or has said why not.
        self.settled = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def ask(self, say: Callable[[str], None]) -> bool:
        """Whether the sink has said how far it is. Once is enough: from then on nobody else may write."""
        if self.answered:
            return True
        try:
            self.position = self.sink.position()
        except Retry as error:
            self.failures += 1
            if str(error) != self.trouble:
                say(f"{self.name}: {error}")
            self.trouble = str(error)
            return False
        self.answered, self.trouble = True, ""
        return True

    def patience(self) -> float:
        """How long to wait before it is asked again."""
        return min(0.5 * 2.0 ** min(self.failures, 10), MAX_PATIENCE_SECONDS)

    def start(self, work: Callable[[], None]) -> None:
        """Do `work` in the background; what it raises is for `raise_error`."""

        def run() -> None:
            try:
                work()
            except Stopped:
                pass
            except HeadwaterError as error:
                self._error = error
            except Exception as error:
                self._error = HeadwaterError(f"sink {self.name!r} could not be opened", cause=repr(error)[:2000])
            finally:
                self.settled.set()

        self._thread = threading.Thread(target=run, name=f"opening {self.name}", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def join(self) -> None:
        """Until the work has ended: it notices by itself that the run does. A sink that does not answer is not waited
        for."""
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)

    def raise_error(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
