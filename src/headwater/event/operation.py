"""What happened to a row, in Debezium's letters."""

from __future__ import annotations

from enum import StrEnum


class Operation(StrEnum):
    """`op` of an event."""

    READ = "r"
    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    TRUNCATE = "t"
    MESSAGE = "m"
