"""What keeps log on a server and for how long that goes well: the holders, how fast the log grows, what to do.

Database-neutral: a source tells what holds its log (`Source.holders`), and everything else is arithmetic.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from headwater.errors import Stop
from headwater.sources.base import Holder, Source
from headwater.wording import duration_text

# Long enough to see a busy server's rate and a reader that comes back, short enough to wait for.
OBSERVE_SECONDS = 2.0
# Below this much retained log a holder that nobody reads from is not worth a word.
QUIET_BYTES = 64 << 20


@dataclass(frozen=True)
class Outlook:
    """One holder, and what will become of it."""

    holder: Holder
    # Seconds until it is lost at the rate that was seen; None: not by this rate, or never.
    lost_in: float | None
    advice: str

    @property
    def forecast(self) -> str:
        """For people."""
        if self.holder.lost:
            return "lost"
        if self.lost_in is not None:
            return f"lost in {duration_text(self.lost_in)} at the current rate"
        return "never lost; may fill the disk" if self.holder.safe_bytes is None else "safe at the current rate"

    def to_json(self) -> dict[str, Any]:
        """Everything, flat."""
        return {
            **asdict(self.holder),
            "lost_in_seconds": self.lost_in,
            "forecast": self.forecast,
            "advice": self.advice,
        }


@dataclass(frozen=True)
class Observation:
    """The holders of a server over a short while."""

    outlooks: list[Outlook]
    bytes_per_second: float


def observe(source: Source, seconds: float = OBSERVE_SECONDS) -> Observation:
    """Look, wait, look again: the log's growth in between is the current rate."""
    began, first = time.monotonic(), source.end()
    time.sleep(seconds)
    rate = max(0, source.end() - first) / (time.monotonic() - began)
    return Observation([outlook(holder, rate) for holder in source.holders()], rate)


def outlook(holder: Holder, bytes_per_second: float) -> Outlook:
    """What a holder's numbers mean at a rate."""
    lost_in = None
    # Log that is read as fast as it is written endangers nobody: only what nobody reads runs against its limit.
    if not holder.lost and holder.safe_bytes is not None and bytes_per_second > 0 and holder.active_pid is None:
        lost_in = max(0, holder.safe_bytes) / bytes_per_second
    return Outlook(holder, lost_in, _advice(holder))


def _advice(holder: Holder) -> str:
    drop = f"headwater slots drop {holder.name} URL"
    if holder.lost:
        return f"its reader must load the tables anew; remove it: {drop}"
    if holder.active_pid is None:
        who = "start its pipeline" if holder.ours else "ask its owner"
        if holder.retained_bytes < QUIET_BYTES and holder.safe_bytes is not None:
            return f"nobody reads from it: {who}"
        return f"nobody reads from it: {who}, or remove it for good: {drop}"
    if holder.safe_bytes is not None and holder.safe_bytes < holder.retained_bytes:
        return "its reader is slow: see its lag (headwater status), or raise the server's limit"
    return ""


def require_dead(source: Source, name: str, seconds: float = OBSERVE_SECONDS) -> Holder | None:
    """The holder, once we have seen for a while that nobody reads from it. None when there is no such thing.

    A reader that lost its connection comes back within moments, so one look is not enough."""
    deadline = time.monotonic() + seconds
    first: Holder | None = None
    while True:
        found = next((holder for holder in source.holders() if holder.name == name), None)
        if found is None:
            return None
        if found.active_pid is not None or (first is not None and found.position != first.position):
            raise Stop(
                f"{name!r} is not dead: "
                + (f"PID {found.active_pid} on the server reads from it" if found.active_pid else "it has just moved"),
                "Stop its reader first, if you are sure",
            )
        first = first or found
        if time.monotonic() >= deadline:
            return found
        time.sleep(min(0.2, seconds))
