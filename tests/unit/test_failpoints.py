"""Failpoints act at the hit they name and cost nothing otherwise."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from headwater.errors import Retry, Usage
from headwater.failpoints import VARIABLE, parse_failpoints


def hits(points: str, times: int) -> subprocess.CompletedProcess[str]:
    """Pass the failpoint `here` several times in a process of its own, which counts aloud."""
    program = (
        "from headwater.failpoints import failpoint\n"
        f"for n in range(1, {times + 1}):\n"
        "    print(n, flush=True)\n"
        "    failpoint('here')\n"
    )
    env = {**os.environ, VARIABLE: points}
    return subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("points", ["", "elsewhere=kill", "here.too=kill", "here=kill@9"])
def test_a_process_passes_a_failpoint_that_is_not_due(points: str) -> None:
    done = hits(points, times=3)

    assert done.returncode == 0
    assert done.stdout.split() == ["1", "2", "3"]


@pytest.mark.parametrize(("points", "passed"), [("here=kill", 1), ("elsewhere=raise, here=kill@3", 3)])
def test_a_process_is_killed_at_exactly_the_named_hit(points: str, passed: int) -> None:
    done = hits(points, times=5)

    assert done.returncode == -signal.SIGKILL
    assert len(done.stdout.split()) == passed


def test_raise_is_a_retry_error_once() -> None:
    point = parse_failpoints("here=raise@2")["here"]

    point.reached("here")
    with pytest.raises(Retry, match="failpoint here, hit 2"):
        point.reached("here")
    point.reached("here")


def test_sleep_waits_at_every_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("headwater.failpoints.time.sleep", slept.append)
    point = parse_failpoints("here=sleep:0.25")["here"]

    point.reached("here")
    point.reached("here")

    assert slept == [0.25, 0.25]


@pytest.mark.parametrize("text", ["here", "here=explode", "here=kill@0", "here=sleep", "here=kill:1", "=kill", "here="])
def test_a_misspelt_failpoint_is_refused(text: str) -> None:
    with pytest.raises(Usage, match="cannot read"):
        parse_failpoints(text)
