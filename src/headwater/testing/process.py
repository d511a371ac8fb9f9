"""A server process that does not outlive us: own session, output kept in a file, ended when we die.

Knows processes, users and signals; what is started and when it counts as ready is its caller's business.

How it dies with us: a shell (the watchdog) waits to read from a pipe whose other end only this Python
process holds. Python may end in any way, kill -9 included: the kernel closes the pipe, the shell wakes,
signals the server and removes its temporary folder. The parent-death signal (prctl PR_SET_PDEATHSIG) would
do less: it fires when the *thread* that started the child ends, it needs code between fork and exec (which
can deadlock in a threaded process), it leaves the folder behind, and it exists on Linux only.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headwater.errors import Retry

# Arguments: server pid, signal number, folder to remove or nothing. A line on stdin means "stopped in good
# order, go away"; end of file means that our owner is gone. The pid still is the server's: whoever reaps the
# server (`alive`, `end`, `crash`) sends the watchdog away before the number can be given to another process.
WATCHDOG = """
read -r line && exit 0
kill -"$2" "$1" 2>/dev/null
tries=100
while kill -0 "$1" 2>/dev/null && [ "$tries" -gt 0 ]; do sleep 0.1; tries=$((tries - 1)); done
kill -9 "$1" 2>/dev/null
[ -z "$3" ] || rm -rf -- "$3"
"""


def unprivileged() -> dict[str, Any]:
    """Popen arguments that drop root for `nobody`; empty when we are not root. Servers refuse to be root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def give_away(path: Path) -> None:
    """Make a file or folder belong to the user that servers run as."""
    user = unprivileged()
    if user:
        os.chown(path, user["user"], user["group"])


def free_port() -> int:
    """A loopback port that was free a moment ago: whoever uses it must be ready to lose the race."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Watchdog:
    """Ends process `pid` when we are gone before `dismiss`, however we went."""

    def __init__(self, pid: int, last_signal: signal.Signals, temporary: Path | None = None, **user: Any) -> None:
        self._shell = subprocess.Popen(
            ["sh", "-c", WATCHDOG, "sh", str(pid), str(int(last_signal)), str(temporary or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
            **user,
        )

    def dismiss(self) -> None:
        """The process has been reaped: its number may belong to another one soon."""
        if self._shell.stdin and not self._shell.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._shell.stdin.write(b"\n")
                self._shell.stdin.flush()
            self._shell.stdin.close()
        self._shell.wait(10)


class ServerProcess:
    """One running server. `log` gets its output; `temporary` is removed if we die before `end`.

    Databases refuse to be root; what runs from a closed cache folder keeps it (`drop_root=False`)."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str],
        temporary: Path | None = None,
        last_signal: signal.Signals = signal.SIGTERM,
        drop_root: bool = True,
    ) -> None:
        self.log = log
        # A session of its own: Ctrl-C in a terminal reaches us, and we decide what the server hears.
        user = unprivileged() if drop_root else {}
        how: dict[str, Any] = {"cwd": "/", "start_new_session": True, **user}
        with log.open("ab") as output:
            self._server = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=dict(env), **how
            )
        # As the same user: another one could not end it.
        self._watchdog = Watchdog(self.pid, last_signal, temporary, **user)

    @property
    def pid(self) -> int:
        return self._server.pid

    def alive(self) -> bool:
        """Whether the server still runs; reaps it when it does not."""
        if self._server.poll() is None:
            return True
        self._watchdog.dismiss()
        return False

    def end(self, how: signal.Signals, timeout: float) -> int:
        """Send `how`, wait, dismiss the watchdog, return the exit status. Raises Retry when it goes on running."""
        if self.alive():
            self._server.send_signal(how)
        try:
            status = self._server.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise Retry(f"process {self.pid} did not end within {timeout:g} s of {how.name}") from error
        self._watchdog.dismiss()
        return status

    def crash(self, timeout: float = 10) -> None:
        """SIGKILL to the server and all its children at one moment, as a power cut would."""
        import psutil  # a tool of the tests; the demo, which never crashes its server, does without

        children: list[Any] = []
        if self.alive():
            # Stopped first, so that it starts no more children while we list them.
            self._server.send_signal(signal.SIGSTOP)
            children = psutil.Process(self.pid).children(recursive=True)
            self._server.kill()
            for child in children:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
        self._server.wait(timeout)
        deadline = time.monotonic() + timeout
        while any(_runs(child) for child in children):
            if time.monotonic() > deadline:
                raise Retry(f"children of process {self.pid} survived SIGKILL for {timeout:g} s")
            time.sleep(0.005)
        self._watchdog.dismiss()


def _runs(process: Any) -> bool:
    """False for zombies too: in a container nobody may be there to reap them."""
    import psutil

    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def runnable(program: Path) -> bool:
    """Whether the user that servers run as can execute `program` (root's home is closed to `nobody`)."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, cwd="/", check=False, **unprivileged())
    except PermissionError:
        return False
    return done.returncode == 0


def remove_folder(folder: Path) -> None:
    """Remove a server's temporary folder; what is already gone is fine."""
    shutil.rmtree(folder, ignore_errors=True)
