"""Starting, watching and ending the tail process, from whoever needs its journal."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, TypeVar

from headwater.errors import HeadwaterError, Retry, Stop, Usage
from headwater.event import Position
from headwater.journal import Journal
from headwater.journal.writer import lock_held
from headwater.options import Secret

T = TypeVar("T")

START_SECONDS = 30.0
STOP_SECONDS = 10.0


class TailProcess:
    """One tail that we own. It ends when we do, however we end: it watches our end of a pipe."""

    def __init__(
        self,
        journal: Journal,
        source_type: str,
        options: Any,
        begin: Position,
        max_bytes: int,
        *,
        copy_first: bool = False,
        keep_seconds: float = 0.0,
    ) -> None:
        self.journal = journal
        self._orders = {
            "journal": str(journal.path),
            "type": source_type,
            "options": options_to_wire(options),
            "begin": [begin.commit, begin.ordinal, begin.resume],
            "max_bytes": max_bytes,
            "copy_first": copy_first,
            "keep_seconds": keep_seconds,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def ensure(self) -> None:
        """Start the tail unless one is running, ours or another's. Raises what a stopped tail has said.

        A tail that was killed has said nothing: it is started again, and its journal cuts off what was
        half written."""
        if self._process is not None:
            code = self._process.poll()
            if code is None:
                return
            self._process = None
            if code > 0:
                raise_ended(self.journal, code)
        if not tail_running(self.journal):
            self.start()

    def start(self) -> None:
        log = (self.journal.path / "tail.log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headwater.tail"], stdin=subprocess.PIPE, stdout=log, stderr=log
        )
        log.close()
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.write(json.dumps(self._orders).encode() + b"\n")
        self._process.stdin.flush()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def stop(self) -> None:
        """Let it finish its block and end."""
        if self._process is None:
            return
        process, self._process = self._process, None
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def tail_running(journal: Journal) -> bool:
    """Whether some process holds the journal's lock."""
    return lock_held(journal.path / "tail.lock")


def tail_state(journal: Journal) -> Mapping[str, Any]:
    """What the tail last said of itself; raises when it has stopped for a reason."""
    status = journal.status()
    if status.get("state") == "stopped":
        raise_ended(journal, int(status.get("exit_status", 1)))
    return status


def raise_ended(journal: Journal, code: int) -> None:
    """A tail that ended by itself, as the error it ended with."""
    status = journal.status()
    text = str(status.get("error") or f"the tail ended with status {code}; see {journal.path / 'tail.log'}")
    what, *rest = text.split("\n")
    remedies = [line.strip() for line in rest]
    kinds: dict[int, type[HeadwaterError]] = {0: Retry, Stop.exit_status: Stop, Usage.exit_status: Usage}
    raise kinds.get(code, _Ended)(what, *remedies)


class _Ended(HeadwaterError):
    """The tail ended with an error that trying again will not mend."""


def wait_for_tail(journal: Journal, tail: TailProcess, timeout: float = START_SECONDS) -> None:
    """Until the tail reads, or raise why it does not."""
    deadline = time.monotonic() + timeout
    while journal.status().get("pid") != tail.pid or journal.status().get("state") in ("ended", None):
        tail.ensure()
        if time.monotonic() > deadline:
            raise Retry(f"the tail did not start within {timeout:.0f} s; see {journal.path / 'tail.log'}")
        time.sleep(0.02)


def options_to_wire(options: Any) -> dict[str, Any]:
    """Options as JSON values, secrets revealed: only ever written to a pipe."""
    fields = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    return {name: _revealed(value) for name, value in fields.items()}


def _revealed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _revealed(inner) for name, inner in value.items()}
    return value.reveal() if isinstance(value, Secret) else value


def options_from_wire(cls: type[T], wire: Mapping[str, Any]) -> T:
    """What `options_to_wire` wrote."""
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    return cls(**{k: Secret(v) if isinstance(defaults.get(k), Secret) else v for k, v in wire.items()})
