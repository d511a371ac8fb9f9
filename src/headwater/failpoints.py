"""Named places in production code where a test can make the process die, raise or wait.

`failpoint("journal.before_fsync")` does nothing unless the environment variable HEADWATER_FAILPOINTS names
that place: a comma-separated list of `name=action`, where the action is

    kill       SIGKILL to this process, at the first hit;  kill@3 at the third
    raise      a Retry error, at the first hit;            raise@3 at the third, and only then
    sleep:0.5  wait half a second at every hit;            sleep:0.5@3 at the third only

The variable is read once, at import, and reaches every process we start. Not named: one call and one
look at an empty dict, about 0.1 µs; place failpoints once per batch, not once per row.
"""

from __future__ import annotations

import os
import re
import signal
import time
from dataclasses import dataclass

from headwater.errors import Retry, Usage

VARIABLE = "HEADWATER_FAILPOINTS"
FORM = re.compile(
    r"(?P<name>[\w.]+)=(?P<action>kill|raise|sleep):?(?P<seconds>(?<=sleep:)\d+(\.\d+)?)?(@(?P<hit>[1-9]\d*))?"
)


@dataclass
class Failpoint:
    """What one named place does, and how often it was passed."""

    action: str
    seconds: float = 0.0
    # The one hit that acts; None: the first for kill and raise, every one for sleep.
    hit: int | None = None
    passed: int = 0

    def reached(self, name: str) -> None:
        """Count the hit and act when it is the one."""
        self.passed += 1
        if self.hit is not None and self.passed != self.hit:
            return
        match self.action:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "sleep":
                time.sleep(self.seconds)
            case "raise":
                raise Retry(f"failpoint {name}, hit {self.passed}")


def parse_failpoints(text: str) -> dict[str, Failpoint]:
    """The value of HEADWATER_FAILPOINTS; a misspelt one raises Usage instead of testing nothing."""
    found: dict[str, Failpoint] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = FORM.fullmatch(part)
        if match is None or (match["action"] == "sleep") != bool(match["seconds"]):
            raise Usage(f"{VARIABLE}: cannot read {part!r}", "write name=kill, name=raise@3 or name=sleep:0.5")
        hit = int(match["hit"]) if match["hit"] else None
        if hit is None and match["action"] != "sleep":
            hit = 1
        found[match["name"]] = Failpoint(match["action"], float(match["seconds"] or 0), hit)
    return found


_active = parse_failpoints(os.environ.get(VARIABLE, ""))


def failpoint(name: str) -> None:
    """Here the process may die, if a test wants it so."""
    if _active and name in _active:
        _active[name].reached(name)
