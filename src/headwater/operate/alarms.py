"""Alarms: thresholds on what a report says, told once when crossed and once when it is over, by log and webhook."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from headwater.operate.status import Observer, Report, near_cliff
from headwater.pipeline.definition import AlarmOptions, Definition
from headwater.wording import duration_text

LOOK_SECONDS = 2.0
WEBHOOK_SECONDS = 5.0


@dataclass(frozen=True)
class Alarm:
    """One threshold that is crossed."""

    # What is wrong: the option's name, and for a sink which one.
    name: str
    text: str


class Alarms:
    """Compares reports with thresholds; `say` and the webhook hear of what begins and what ends."""

    def __init__(self, pipeline: str, options: AlarmOptions, say: Callable[[str], None]) -> None:
        self._pipeline = pipeline
        self._options = options
        self._say = say
        self._raised: dict[str, Alarm] = {}
        self._unready_since: float | None = None

    def look(self, report: Report) -> list[Alarm]:
        """What is crossed now; tells of every change."""
        now = {alarm.name: alarm for alarm in self._crossed(report)}
        for name in now.keys() - self._raised.keys():
            self._tell("raised", now[name])
        for name in self._raised.keys() - now.keys():
            self._tell("over", self._raised[name])
        self._raised = now
        return list(now.values())

    def _crossed(self, report: Report) -> Iterator[Alarm]:
        limits = self._options
        source = report.source
        yield from _above("source_behind_bytes", source.behind_bytes, limits.behind_bytes, "bytes of log not read")
        yield from _above("source_behind_seconds", source.behind_seconds, limits.behind_seconds, "s behind the log")
        yield from _above("retained_bytes", source.retained_bytes, limits.retained_bytes, "bytes kept by the server")
        if limits.safe_bytes is not None and source.safe_bytes is not None and source.safe_bytes < limits.safe_bytes:
            yield Alarm("safe_bytes", f"only {source.safe_bytes:,} bytes of log until what is kept gets lost")
        if near_cliff(source, limits.safe_seconds):
            left = duration_text(max(0.0, source.safe_seconds or 0.0))
            yield Alarm("safe_seconds", f"only {left} until the server drops log that was not read")
        for sink in report.sinks:
            yield from _above(
                f"sink_behind_bytes:{sink.sink}", sink.behind_bytes, limits.behind_bytes, "bytes not delivered"
            )
            yield from _above(
                f"sink_behind_seconds:{sink.sink}", sink.behind_seconds, limits.behind_seconds, "s behind the source"
            )
        if report.ready:
            self._unready_since = None
        elif limits.not_ready_seconds is not None:
            self._unready_since = self._unready_since or time.monotonic()
            if time.monotonic() - self._unready_since >= limits.not_ready_seconds:
                yield Alarm("not_ready", "; ".join(report.reasons))

    def _tell(self, state: str, alarm: Alarm) -> None:
        self._say(f"alarm {state}: {alarm.name}: {alarm.text}")
        if not self._options.webhook:
            return
        content = {"pipeline": self._pipeline, "state": state, "time": time.time(), **asdict(alarm)}
        request = urllib.request.Request(  # noqa: S310 — http or https, by AlarmOptions
            self._options.webhook.reveal(), json.dumps(content).encode(), {"Content-Type": "application/json"}
        )
        try:
            urllib.request.urlopen(request, timeout=WEBHOOK_SECONDS).close()  # noqa: S310
        except (OSError, urllib.error.URLError) as error:
            # Not the URL: it often carries a token.
            self._say(f"the alarm could not be sent to alarms.webhook: {type(error).__name__}")


def _above(name: str, value: float | None, limit: float | None, what: str) -> Iterator[Alarm]:
    if value is not None and limit is not None and value > limit:
        yield Alarm(name, f"{value:,.0f} {what}, more than {limit:,.0f}")


def watch(definition: Definition, say: Callable[[str], None], ended: threading.Event) -> None:
    """Look every few seconds until the run ends."""
    observer, alarms = Observer(definition), Alarms(definition.name, definition.alarms, say)
    while not ended.wait(LOOK_SECONDS):
        alarms.look(observer.report())
