"""Small files, written so that a crash leaves the old content or the new one, and read so that damage is noticed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from headwater.errors import Stop


def write_atomically(path: Path, text: str, *, sync: bool = True) -> None:
    """The file has the old content or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: Path) -> dict[str, Any] | None:
    """A small JSON file; None when it does not exist. Damage is an error, never an empty answer."""
    try:
        return parse_json(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        return None


def parse_json(text: str, where: str) -> dict[str, Any]:
    """The text of a small JSON file."""
    try:
        read = json.loads(text)
        if not isinstance(read, dict):
            raise TypeError
    except (ValueError, TypeError) as error:
        raise Stop(
            f"{where} is damaged: it is not the JSON that was written there",
            "Restore it from a backup, or remove the state folder and the tables in the lake to load everything anew",
        ) from error
    return read
