"""Numbers as people say them."""

from __future__ import annotations


def size_text(count: float) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} TB"


def duration_text(seconds: float) -> str:
    """`3 h 20 min`: the two largest units."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [f"{count} {unit}" for count, unit in ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")) if count]
    return " ".join(parts[:2]) or "0 s"
