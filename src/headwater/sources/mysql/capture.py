"""Which tables are captured: patterns in our form (`shop.*`) and in Debezium's (regular expressions)."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase

from headwater.errors import Usage
from headwater.sources.mysql.options import MySqlOptions

# The server's own tables; no pattern means them.
SYSTEM = frozenset(("mysql", "sys", "information_schema", "performance_schema"))


def capture_filter(options: MySqlOptions) -> Callable[[str, str], bool]:
    """A function that says whether (database, table) is captured."""
    include = _regexes("table.include.list", options.table_include_list)
    exclude = _regexes("table.exclude.list", options.table_exclude_list)
    databases = _regexes("database.include.list", options.database_include_list)
    no_databases = _regexes("database.exclude.list", options.database_exclude_list)

    def captured(database: str, table: str) -> bool:
        name = f"{database}.{table}"
        if database.lower() in SYSTEM or not any(fnmatchcase(name, pattern) for pattern in options.tables):
            return False
        if any(fnmatchcase(name, pattern) for pattern in options.exclude):
            return False
        if include and not _matches(include, name):
            return False
        if databases and not _matches(databases, database):
            return False
        return not _matches(exclude, name) and not _matches(no_databases, database)

    return captured


def _regexes(option: str, texts: list[str]) -> list[re.Pattern[str]]:
    try:
        return [re.compile(text, re.IGNORECASE) for text in texts]
    except re.error as error:
        raise Usage(f"source.{option}: not a regular expression: {error}") from error


def _matches(patterns: list[re.Pattern[str]], name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in patterns)
