"""The kernels' twins: the same answers, one obvious line at a time. The tests hold the two together."""

from __future__ import annotations

import base64
import json
from typing import Any


def event_plain(text: bytes) -> tuple[str, dict[str, Any] | None, dict[str, Any] | None, dict[str, Any] | None]:
    """`scan_events` of one record: (op, before, after, source). Raises ValueError for what is no event."""
    event = json.loads(text)
    if not isinstance(event, dict) or not isinstance(event.get("op"), str) or len(event["op"]) != 1:
        raise ValueError("not an event of Debezium's")
    parts = [event.get(name) for name in ("before", "after", "source")]
    if any(part is not None and not isinstance(part, dict) for part in parts):
        raise ValueError("before, after and source are objects")
    return event["op"], *parts


def unescape_plain(text: bytes) -> str:
    """`unescape` of what stands between the quotes of a JSON string."""
    found: str = json.loads(b'"' + text + b'"', strict=False)
    # An unpaired surrogate is no text.
    found.encode()
    return found


def base64_plain(text: bytes) -> bytes:
    """`base64_bytes`."""
    return base64.b64decode(text, validate=True)


def decimal_plain(data: bytes) -> int:
    """`decimal_words`, as one number."""
    number = int.from_bytes(data, "big", signed=True)
    if not data or not -(1 << 127) <= number < 1 << 127:
        raise ValueError("not a number of 16 bytes")
    return number
