"""Where we are in a set of topics: the next offset of every partition, and one growing number for all of it.

The number is the sum of the offsets (and 1, so that the beginning is something): every record moves one partition
on, so whatever order records of several partitions arrive in, it grows, and it is the same for the same offsets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.errors import Stop
from headwater.event import Position


@dataclass
class Progress:
    """The next offset of each partition of each topic; those of a topic are numbered from 0 on."""

    offsets: dict[str, list[int]] = field(default_factory=dict)
    # What the cluster calls a topic: one that was deleted and made again has another.
    ids: dict[str, str] = field(default_factory=dict)

    @property
    def coordinate(self) -> int:
        return 1 + sum(sum(partitions) for partitions in self.offsets.values())

    def text(self) -> str:
        """What `parse_progress` reads back: {topic: [id, offset of partition 0, …]}."""
        whole = {topic: [self.ids.get(topic, ""), *self.offsets[topic]] for topic in sorted(self.offsets)}
        return json.dumps(whole, ensure_ascii=False, separators=(",", ":"))

    def without(self, topics: Mapping[str, object]) -> Progress:
        """What it says of all others: topics that were read once and are not any more."""
        return Progress({t: offsets for t, offsets in self.offsets.items() if t not in topics}, self.ids)


def parse_progress(text: str) -> Progress:
    """What `Progress.text` wrote: the `resume` of a position."""
    try:
        read = json.loads(text)
        progress = Progress()
        for topic, (name, *offsets) in read.items():
            progress.ids[topic] = str(name)
            progress.offsets[topic] = [int(offset) for offset in offsets]
    except (ValueError, TypeError, AttributeError) as error:
        raise Stop(
            f"a stored position cannot be resumed: {text[:80]!r}",
            "It was not written by this kind of source; remove the state folder and the tables in the lake, and run"
            " again",
        ) from error
    return progress


def at(progress: Progress) -> Position:
    """The position between records at a progress."""
    return Position(progress.coordinate, 0, progress.text())
