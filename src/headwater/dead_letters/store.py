"""Where dead letters lie: `<state>/dead-letters/<sink>/<table>/COMMIT-ORDINAL-KEY….json`, one file each.

A file's name says position and keys, so that a batch is divided by a folder's listing alone. A letter comes into being
whole (written aside, then renamed), and a second time under the same name: a replayed batch adds nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from headwater.dead_letters.letter import Letter, key_hash
from headwater.errors import Stop
from headwater.event import Position
from headwater.journal.files import sync_folder, write_atomically

FOLDER = "dead-letters"
# A sink with more than this many has another trouble than an odd record, and files by the million help nobody.
MAX_LETTERS = 10_000
_VOID = ".void.json"


@dataclass
class Parked:
    """What waits of one table: its letters' places, and for each key the first of them."""

    places: set[tuple[int, int]] = field(default_factory=set)
    heads: dict[str, Position] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.places)

    def head(self, keys: Iterable[str], position: Position) -> Position | None:
        """The letter that a change of these rows has to wait for."""
        found = [self.heads[name] for name in map(key_hash, keys) if name in self.heads]
        before = [head for head in found if head < position]
        return min(before) if before else None

    def add(self, keys: Iterable[str], position: Position) -> None:
        self.places.add((position.commit, position.ordinal))
        for name in map(key_hash, keys):
            self.heads[name] = min(position, self.heads.get(name, position))

    def forget(self, upto: Position) -> None:
        """Nothing waits for letters before this any more."""
        self.heads = {name: head for name, head in self.heads.items() if head > upto}


class DeadLetters:
    """The letters of one sink. Plain paths: sent to executors with the sink."""

    def __init__(self, state: str | os.PathLike[str], sink: str) -> None:
        self.sink = sink
        self.folder = Path(state) / FOLDER / quote(sink, safe="")

    def parked(self, table: str) -> Parked:
        """What waits of a table."""
        found = Parked()
        for name in self._names(self._table(table)):
            position, keys, void = _parsed(name)
            found.places.add((position.commit, position.ordinal))
            if not void:
                for key in keys:
                    found.heads.setdefault(key, position)
        return found

    def add(self, letters: Iterable[Letter]) -> None:
        """Keep letters, durably when this returns. One that is there already stays as it is."""
        folders = set()
        for letter in letters:
            folder = self._table(letter.table)
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = folder / _name(letter)
            if not path.exists() and not path.with_name(path.name.removesuffix(".json") + _VOID).exists():
                write_atomically(path, letter.to_file())
                path.chmod(0o600)
                folders.add(folder)
        for folder in folders:
            sync_folder(folder)
        if folders and self.count() > MAX_LETTERS:
            raise Stop(
                f"sink {self.sink!r} has more than {MAX_LETTERS:,} dead letters",
                "see what they have in common: headwater dead-letters list",
                cause="so many are no odd records any more: the target, or the table's shape, is what is wrong",
            )

    def void(self, table: str, upto: Position) -> None:
        """The table was truncated: what waited of it before is about rows that are gone."""
        folder = self._table(table)
        for name in self._names(folder):
            position, _keys, void = _parsed(name)
            if not void and position < upto:
                (folder / name).rename(folder / (name.removesuffix(".json") + _VOID))

    def count(self) -> int:
        """How many there are; those that are void too, as somebody has to look at them."""
        return sum(len(self._names(folder)) for folder in self._folders())

    def letters(self) -> Iterator[Letter]:
        """All of them; those of a table in their order."""
        for folder in self._folders():
            for name in self._names(folder):
                text = (folder / name).read_text(encoding="utf-8")
                yield Letter.from_file(text, where=str(folder / name), void=name.endswith(_VOID))

    def remove(self, letter: Letter) -> None:
        """It was delivered, or given up."""
        name = _name(letter)
        for path in (name, name.removesuffix(".json") + _VOID):
            (self._table(letter.table) / path).unlink(missing_ok=True)

    def _table(self, table: str) -> Path:
        return self.folder / quote(table, safe="")

    def _folders(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if path.is_dir()) if self.folder.is_dir() else []

    @staticmethod
    def _names(folder: Path) -> list[str]:
        try:
            return sorted(name for name in os.listdir(folder) if name.endswith(".json") and name[0] != ".")
        except FileNotFoundError:
            return []


def _name(letter: Letter) -> str:
    place = f"{letter.position.commit:020d}-{letter.position.ordinal:012d}"
    return "-".join([place, *map(key_hash, letter.keys)]) + ".json"


def _parsed(name: str) -> tuple[Position, list[str], bool]:
    try:
        commit, ordinal, *keys = name.partition(".")[0].split("-")
        return Position(int(commit), int(ordinal)), keys, name.endswith(_VOID)
    except ValueError as error:
        raise Stop(f"{name} among the dead letters is not one of ours", "move it away") from error
