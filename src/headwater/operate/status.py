"""How a pipeline is: read from its state folder by whoever wants to know, while it runs and after it has died.

No server in between: the run leaves `status.json`, the tail `tail.json`, sinks their positions, and the journal
itself says what lies between them. Locks tell who is alive, because the kernel frees them with their process.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headwater.dead_letters import DeadLetters
from headwater.errors import HeadwaterError
from headwater.event import ORIGIN, Position
from headwater.journal import Journal, JournalReader
from headwater.journal.files import read_json
from headwater.journal.locks import lock_held
from headwater.pipeline.definition import Definition
from headwater.pipeline.status import FILE

# A run that has not written its status for this long hangs, or its machine does.
STALE_SECONDS = 15.0


@dataclass(frozen=True)
class TableLag:
    """One table of one sink."""

    table: str
    changes: int
    loaded_rows: int
    behind_changes: int
    behind_seconds: float
    # Why it stopped while the other tables go on.
    stopped: str = ""


@dataclass(frozen=True)
class SinkLag:
    """One sink: how far it is, and what lies before it in the journal."""

    sink: str
    # The position that is durable in it, in the database's words.
    durable: str
    behind_bytes: int
    behind_changes: int
    behind_seconds: float
    changes: int
    batches: int
    changes_per_second: float
    latency_p50_seconds: float
    latency_p99_seconds: float
    # Attempts that failed since the run began, and the last one's reason while it goes on.
    errors: int
    trouble: str
    tables: tuple[TableLag, ...]
    # Changes that it refused and that wait for a person: headwater dead-letters.
    dead_letters: int = 0


@dataclass(frozen=True)
class SourceLag:
    """The log, as the tail sees it, and what the server keeps for us."""

    state: str
    received: str
    # What the server may forget.
    confirmed: str
    behind_bytes: int
    behind_seconds: float
    changes: int
    journal_bytes: int
    retained_bytes: int | None
    # Log that may still be written before the server drops what we have not read; None: no limit.
    safe_bytes: int | None
    error: str
    # A log that is kept by time: how long, and how much of that is left to what we have not read; None: no limit.
    by_time: bool = False
    kept_seconds: float | None = None
    safe_seconds: float | None = None


def near_cliff(source: SourceLag, limit: float | None = None) -> bool:
    """Whether log that we have not read will soon be dropped: in less than `limit` seconds, or than a quarter of the
    time that it is kept."""
    if source.safe_seconds is None or source.kept_seconds is None:
        return False
    return source.safe_seconds < (source.kept_seconds / 4 if limit is None else limit)


@dataclass(frozen=True)
class Report:
    """A pipeline at one moment."""

    pipeline: str
    running: bool
    pid: int
    phase: str
    # Data flows: the tail reads, and every sink goes on. `reasons` say why not.
    ready: bool
    reasons: tuple[str, ...]
    # What a run that has ended said last.
    error: str
    exit_status: int
    uptime_seconds: float
    endpoint: str
    source: SourceLag
    sinks: tuple[SinkLag, ...]
    # The process works; restarting it would help when it does not.
    alive: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Observer:
    """Looks at one pipeline's state folder, again and again: the journal's index is kept between two looks."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._journal = Journal(definition.journal)
        self._reader = JournalReader(self._journal)

    def report(self) -> Report:
        """What can be seen now. A damaged file is a reason, not an error."""
        now = time.time()
        trouble: list[str] = []
        told, tail, positions = self._read(trouble)
        running = lock_held(self._definition.state / "run.lock")
        source = self._source(tail, told.get("retention") or {}, now)
        sinks = tuple(self._sinks(told.get("sinks") or {}, positions, now))
        late = now - float(told.get("time", 0))
        alive = running and late < STALE_SECONDS
        reasons = [*trouble, *self._reasons(told, running, late, source, sinks)]
        return Report(
            pipeline=self._definition.name,
            running=running,
            pid=int(told.get("pid", 0)) if running else 0,
            phase=str(told.get("phase", "never ran")) if running or told.get("phase") == "stopped" else "not running",
            ready=not reasons,
            reasons=tuple(reasons),
            error="" if running else str(told.get("error", "")),
            exit_status=0 if running else int(told.get("exit_status", 0)),
            uptime_seconds=max(0.0, now - float(told.get("started", now))) if running else 0.0,
            endpoint=str(told.get("endpoint", "")) if running else "",
            source=source,
            sinks=sinks,
            alive=alive,
        )

    # ----------------------------------------------------------------------------------------------

    def _read(self, trouble: list[str]) -> tuple[Mapping[str, Any], Mapping[str, Any], dict[str, Position | None]]:
        told: Mapping[str, Any] = {}
        tail: Mapping[str, Any] = {}
        positions: dict[str, Position | None] = {}
        try:
            told = read_json(self._definition.state / FILE) or {}
            tail = self._journal.status()
            positions = self._journal.consumer_positions()
            self._reader.refresh()
            held = [position or ORIGIN for position in positions.values()]
            self._reader.forget(min(held, default=ORIGIN))
        except HeadwaterError as error:
            trouble.append(error.what)
        return told, tail, positions

    def _source(self, tail: Mapping[str, Any], retention: Mapping[str, Any], now: float) -> SourceLag:
        state, writing = "dead", self._journal.storage.written_by()
        if writing is not None:
            # A tail that was started a moment ago has not spoken yet; what is written there is its predecessor's.
            spoken = writing == str(tail.get("pid"))
            state = str(tail.get("state", "none")) if spoken else "starting"
        error = str(tail.get("error", ""))
        if state == "reading" and (silent := tail.get("silent_seconds")):
            state, error = "waiting", f"the server has not answered for {silent} s"
        behind = int(tail.get("behind_bytes", 0))
        # While it does not read, nobody knows more than since when.
        since = float(tail.get("time", now)) if state != "reading" else tail.get("commit_time", 0) / 1e6 or now
        seconds = max(0.0, now - since) if behind or state != "reading" else 0.0
        kept = retention.get("kept_seconds")
        return SourceLag(
            state=state,
            received=_text(self._reader.end),
            confirmed=str(tail.get("confirmed") or retention.get("position") or ""),
            behind_bytes=behind,
            behind_seconds=round(seconds, 3),
            changes=int(tail.get("changes", 0)),
            journal_bytes=int(tail.get("journal_bytes", 0)),
            retained_bytes=retention.get("retained_bytes"),
            safe_bytes=retention.get("safe_bytes"),
            error=error,
            by_time=bool(retention.get("by_time")),
            kept_seconds=kept,
            safe_seconds=None if kept is None else round(kept - seconds, 3),
        )

    def _sinks(
        self, told: Mapping[str, Any], positions: Mapping[str, Position | None], now: float
    ) -> Iterator[SinkLag]:
        for name in self._definition.sinks:
            position, counted = positions.get(name), told.get(name) or {}
            stopped = counted.get("stopped") or {}
            # A table that has stopped holds back what is durable; the others have reached more.
            reached = Position.from_json(counted["reached"]) if stopped else position or ORIGIN
            pending = self._reader.between(position or ORIGIN, self._reader.end)
            waiting: dict[str, int] = defaultdict(int)
            since: dict[str, float] = {}
            for block in pending:
                for run in block.header.tables:
                    if run.table not in stopped and block.header.last <= reached:
                        continue
                    waiting[run.table] += run.changes
                    since.setdefault(run.table, block.header.commit_time / 1e6)
            seconds = {table: round(max(0.0, now - at), 3) for table, at in since.items()}
            tables = counted.get("tables") or {}
            yield SinkLag(
                sink=name,
                durable=_text(position),
                behind_bytes=sum(block.size for block in pending),
                behind_changes=sum(waiting.values()),
                behind_seconds=max(seconds.values(), default=0.0),
                changes=int(counted.get("changes", 0)),
                batches=int(counted.get("batches", 0)),
                changes_per_second=float(counted.get("changes_per_second", 0.0)),
                latency_p50_seconds=float(counted.get("latency_p50_seconds", 0.0)),
                latency_p99_seconds=float(counted.get("latency_p99_seconds", 0.0)),
                errors=int(counted.get("failures", 0)),
                trouble=str(counted.get("trouble", "")),
                dead_letters=DeadLetters(self._definition.state, name).count(),
                tables=tuple(
                    TableLag(
                        table=table,
                        changes=int(tables.get(table, {}).get("changes", 0)),
                        loaded_rows=int(tables.get(table, {}).get("loaded_rows", 0)),
                        behind_changes=waiting.get(table, 0),
                        behind_seconds=seconds.get(table, 0.0),
                        stopped=str(stopped.get(table, "")),
                    )
                    for table in sorted({*tables, *waiting, *stopped})
                ),
            )

    @staticmethod
    def _reasons(
        told: Mapping[str, Any], running: bool, late: float, source: SourceLag, sinks: tuple[SinkLag, ...]
    ) -> Iterator[str]:
        """Why data does not flow."""
        if not running:
            yield "the pipeline does not run" + (f": {told['error']}" if told.get("error") else "")
            return
        if late > STALE_SECONDS:
            yield f"the run has not said a word for {late:.0f} s"
            return
        if told.get("phase") != "streaming":
            yield f"not streaming yet: {told.get('phase')}"
            return
        if time.time() - float(told.get("beat", 0)) > STALE_SECONDS:
            yield "the run's own loop hangs"
        if source.state != "reading":
            yield f"the tail is {source.state}" + (f": {source.error}" if source.error else "")
        if (told.get("retention") or {}).get("lost"):
            yield "the server has dropped log that was not read yet"
        for lag in sinks:
            flow = told["sinks"].get(lag.sink) or {}
            for table, why in (flow.get("stopped") or {}).items():
                yield f"sink {lag.sink}: {table} has stopped: {why}"
            if lag.trouble:
                yield f"sink {lag.sink}: {lag.trouble}"
            elif not flow.get("active", False):
                yield f"sink {lag.sink}: its stream has stopped"


def _text(position: Position | None) -> str:
    """In the database's words where it has them; nothing for nowhere."""
    return "" if position is None or position == ORIGIN else position.resume or str(position.commit)


def read_report(definition: Definition) -> Report:
    """One look at a pipeline."""
    return Observer(definition).report()
