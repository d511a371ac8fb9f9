"""What a logged statement is, by its first words. No I/O.

Rows come as rows; what comes as a statement is the frame of a transaction, a definition, or a change that somebody
logged as a statement. Only the last must never be mistaken for another.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from headwater.errors import Stop


class Kind(Enum):
    """What `frames.py` has to do about a statement."""

    BEGIN = auto()
    COMMIT = auto()
    ROLLBACK = auto()
    ROLLBACK_TO = auto()
    SAVEPOINT = auto()
    TRUNCATE = auto()
    # Changes rows, in a way that cannot be read from the text.
    CHANGE = auto()
    # Changes no rows: DDL, grants, maintenance.
    DEFINITION = auto()
    DEFINITION_WITH_ROWS = auto()


# Comments, and the marks that servers put around what only some versions understand.
_NOISE = re.compile(r"(?:\s+|/\*(?!!|M!).*?\*/|/\*M?!\d*|\*/|--[^\n]*(?:\n|$)|#[^\n]*(?:\n|$))+", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]+")
_NAME = r"(?:`(?:[^`]|``)+`|[^\s`.,;/*]+)"
_TRUNCATE = re.compile(rf"TRUNCATE\s+(?:TABLE\s+)?({_NAME})(?:\s*\.\s*({_NAME}))?", re.IGNORECASE)
_DROP = re.compile(r"DROP\s+TABLE\s+(?:IF\s+EXISTS\s+)?", re.IGNORECASE)
_DROP_DATABASE = re.compile(rf"DROP\s+(?:DATABASE|SCHEMA)\s+(?:IF\s+EXISTS\s+)?({_NAME})", re.IGNORECASE)
_DROPPED = re.compile(rf"({_NAME})(?:\s*\.\s*({_NAME}))?\s*(,?)\s*")

_CHANGES = frozenset(("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH", "CALL", "DO", "SELECT"))

_DEFINES = frozenset(("CREATE", "ALTER", "DROP", "RENAME"))
_OBJECTS = frozenset(("TABLE", "TABLES", "DATABASE", "SCHEMA"))


def classify(text: str) -> Kind:
    """The kind of a statement."""
    words = _words(text, 3)
    match words:
        case ["BEGIN", *_] | ["START", "TRANSACTION", *_] | ["XA", "START" | "BEGIN", *_]:
            return Kind.BEGIN
        case ["COMMIT", *_] | ["XA", "COMMIT" | "ROLLBACK", *_]:
            # The second part of an XA transaction has no rows; the first has been looked at when it was prepared.
            return Kind.COMMIT
        case ["ROLLBACK", "TO", *_] | ["ROLLBACK", "WORK", "TO"]:
            return Kind.ROLLBACK_TO
        case ["ROLLBACK", *_]:
            return Kind.ROLLBACK
        case ["SAVEPOINT", *_] | ["RELEASE", *_] | ["XA", *_]:
            return Kind.SAVEPOINT
        case ["TRUNCATE", *_]:
            return Kind.TRUNCATE
        case [verb, *_] if verb in _CHANGES:
            return Kind.CHANGE
        case ["CREATE", *_] if text.rstrip().upper().endswith("START TRANSACTION"):
            return Kind.DEFINITION_WITH_ROWS
    return Kind.DEFINITION


def defines_tables(text: str) -> bool:
    """Whether a statement may change the definition of a table or database. One that only names them further back, in a
    routine's body, does not."""
    words = _words(text, 6)
    return bool(words) and words[0] in _DEFINES and not _OBJECTS.isdisjoint(words[1:])


def truncated(text: str, database: str) -> tuple[str, str]:
    """(database, table) of a TRUNCATE that was run in `database`."""
    found = _TRUNCATE.match(_start(text))
    if found is None:
        raise Stop(f"the log has a TRUNCATE that is not understood: {text[:200]!r}")
    names = [_unquoted(name) for name in found.groups() if name]
    return (names[0], names[1]) if len(names) == 2 else (database, names[0])


def dropped(text: str, database: str) -> list[tuple[str, str]]:
    """(database, table) of everything that a DROP TABLE drops, (database, "") of a DROP DATABASE; nothing for another
    statement, or temporary tables."""
    rest = _start(text)
    if (whole := _DROP_DATABASE.match(rest)) is not None:
        return [(_unquoted(whole[1]), "")]
    begin = _DROP.match(rest)
    found: list[tuple[str, str]] = []
    while begin is not None and (name := _DROPPED.match(rest, begin.end())) is not None:
        first, second, more = name.groups()
        found.append((_unquoted(first), _unquoted(second)) if second else (database, _unquoted(first)))
        begin = name if more else None
    return found


def _start(text: str) -> str:
    noise = _NOISE.match(text)
    return text[noise.end() :] if noise else text


def _words(text: str, count: int) -> list[str]:
    words: list[str] = []
    text = _start(text)
    while len(words) < count and (found := _WORD.match(text)):
        words.append(found[0].upper())
        text = _start(text[found.end() :])
    return words


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
