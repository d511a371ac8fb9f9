"""Starting, watching and ending the tail process, from whoever needs its journal."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from headwater.errors import HeadwaterError, Retry, Stop, Usage
from headwater.journal import Journal, Limits
from headwater.options import Secret

T = TypeVar("T")

# A tail on another machine that was cut off is given half a minute to show that it lives.
START_SECONDS = 60.0
STOP_SECONDS = 10.0


class TailProcess:
    """One tail that we own. It ends when we do, however we end: it watches our end of a pipe.

    It reads from where `journal.begin` says, or behind what the journal has. `folder` is on this machine: for what it
    prints, and for transactions that are still open."""

    def __init__(
        self,
        journal: Journal,
        folder: Path,
        source_type: str,
        options: Any,
        limits: Limits,
        *,
        copy_first: bool = False,
    ) -> None:
        self.journal = journal
        self.log = folder / "tail.log"
        self._orders = {
            "journal": journal.place,
            "folder": str(folder),
            "type": source_type,
            "options": options_to_wire(options),
            "limits": dataclasses.asdict(limits),
            "copy_first": copy_first,
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
            said = self._last_words(self._process)
            self._process = None
            if code > 0:
                raise ended(code, said or f"the tail ended with status {code}; see {self.log}")
        if self.journal.storage.written_by() is None:
            self.start()

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        log = self.log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headwater.tail"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
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
        assert process.stdin is not None  # noqa: S101
        process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._last_words(process)

    @staticmethod
    def _last_words(process: subprocess.Popen[bytes]) -> str:
        """Why it ended, if it did not end well."""
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018
        process.stdin.close()
        with process.stdout as words:
            return words.read().decode()


def tail_state(journal: Journal) -> Mapping[str, Any]:
    """What the tail last said of itself; raises when it has stopped for a reason."""
    status = journal.status()
    if status.get("state") == "stopped":
        raise ended(int(status.get("exit_status", 1)), str(status.get("error")))
    return status


def ended(code: int, text: str) -> HeadwaterError:
    """A tail that ended by itself, as the error it ended with."""
    what, *rest = text.strip().split("\n")
    remedies = [line.strip() for line in rest]
    kinds: dict[int, type[HeadwaterError]] = {0: Retry, Stop.exit_status: Stop, Usage.exit_status: Usage}
    return kinds.get(code, _Ended)(what, *remedies)


class _Ended(HeadwaterError):
    """The tail ended with an error that trying again will not mend."""


def wait_for_tail(journal: Journal, tail: TailProcess, timeout: float = START_SECONDS) -> None:
    """Until the tail reads, or raise why it does not."""
    deadline = time.monotonic() + timeout
    while journal.status().get("pid") != tail.pid or journal.status().get("state") in ("ended", None):
        tail.ensure()
        if time.monotonic() > deadline:
            raise Retry(f"the tail did not start within {timeout:.0f} s; see {tail.log}")
        time.sleep(journal.storage.pace / 10)


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
