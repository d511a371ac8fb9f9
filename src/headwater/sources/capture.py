"""Which tables are captured: patterns in our form (`public.*`) and in Debezium's (regular expressions)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from headwater.errors import Usage


@dataclass(frozen=True)
class Patterns:
    """Names that match one of `include`, unless they match one of `exclude`; no `include`: all names."""

    include: Sequence[re.Pattern[str]]
    exclude: Sequence[re.Pattern[str]]

    @staticmethod
    def of(option: str, include: Sequence[str], exclude: Sequence[str]) -> Patterns:
        """The two lists of `<option>.include.list` and `<option>.exclude.list`."""
        return Patterns(_compiled(f"{option}.include.list", include), _compiled(f"{option}.exclude.list", exclude))

    def __call__(self, name: str) -> bool:
        wanted = not self.include or any(pattern.fullmatch(name) for pattern in self.include)
        return wanted and not any(pattern.fullmatch(name) for pattern in self.exclude)


def capture_filter(
    ours: Sequence[str], exclude: Sequence[str], schemas: Patterns, tables: Patterns
) -> Callable[[str, str], bool]:
    """A function that says whether (schema, table) is captured."""

    def captured(schema: str, table: str) -> bool:
        name = f"{schema}.{table}"
        if not any(fnmatchcase(name, pattern) for pattern in ours):
            return False
        return not any(fnmatchcase(name, pattern) for pattern in exclude) and tables(name) and schemas(schema)

    return captured


def _compiled(option: str, texts: Sequence[str]) -> list[re.Pattern[str]]:
    try:
        return [re.compile(text, re.IGNORECASE) for text in texts]
    except re.error as error:
        raise Usage(f"source.{option}: not a regular expression: {error}") from error
