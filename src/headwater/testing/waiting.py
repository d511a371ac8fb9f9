"""Wait on a condition, never on a clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T], timeout: float = 30.0, message: str | Callable[[], str] = "", interval: float = 0.02
) -> T:
    """Call `condition` until it is true and return what it gave; AssertionError after `timeout` seconds.

    `message` says what was awaited; give a function to describe how far it came, asked only on failure.
    A condition that takes long is asked less often: most of the time is for what is waited for."""
    deadline = time.monotonic() + timeout
    while True:
        asked = time.monotonic()
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            said = message() if callable(message) else message
            raise AssertionError(f"not within {timeout:g} s: {said or getattr(condition, '__qualname__', condition)}")
        time.sleep(max(interval, min(1.0, 4 * (time.monotonic() - asked))))
