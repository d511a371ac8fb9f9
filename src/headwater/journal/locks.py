"""Advisory locks on files, freed by the kernel with the process that holds them."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import IO

from headwater.journal.writer import JournalBusy

# Somebody who only looks whether the lock is held holds it for an instant.
LOCK_SECONDS = 0.2


def lock_file(path: Path, what: str) -> IO[str]:
    """Hold an advisory lock on a file with our PID in it; it ends with the process, however that dies."""
    file = path.open("a+", encoding="utf-8")
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                file.seek(0)
                pid = file.read().strip() or "unknown"
                file.close()
                raise JournalBusy(f"{what} in {path.parent} is in use by process {pid}", "Stop it first") from error
        time.sleep(0.02)
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def lock_held(path: Path) -> bool:
    """Whether some process holds the lock of `lock_file` now. Makes no file that is not there."""
    try:
        with path.open("r", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
