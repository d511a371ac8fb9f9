"""Which tables and messages are captured: patterns in our form (`public.*`) and in Debezium's (regular expressions)."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase

from headwater.errors import Usage
from headwater.sources.postgres.options import PostgresOptions


def capture_filter(options: PostgresOptions) -> Callable[[str, str], bool]:
    """A function that says whether (schema, table) is captured."""
    include = _regexes("table.include.list", options.table_include_list)
    exclude = _regexes("table.exclude.list", options.table_exclude_list)
    schemas = _regexes("schema.include.list", options.schema_include_list)
    no_schemas = _regexes("schema.exclude.list", options.schema_exclude_list)

    def captured(schema: str, table: str) -> bool:
        name = f"{schema}.{table}"
        if not any(fnmatchcase(name, pattern) for pattern in options.tables):
            return False
        if any(fnmatchcase(name, pattern) for pattern in options.exclude):
            return False
        if include and not _matches(include, name):
            return False
        if schemas and not _matches(schemas, schema):
            return False
        return not _matches(exclude, name) and not _matches(no_schemas, schema)

    return captured


def message_filter(options: PostgresOptions) -> Callable[[str], bool]:
    """A function that says whether logical messages with a prefix are captured."""
    include = _regexes("message.prefix.include.list", options.message_prefix_include_list)
    exclude = _regexes("message.prefix.exclude.list", options.message_prefix_exclude_list)
    return lambda prefix: (not include or _matches(include, prefix)) and not _matches(exclude, prefix)


def _regexes(option: str, texts: list[str]) -> list[re.Pattern[str]]:
    try:
        return [re.compile(text, re.IGNORECASE) for text in texts]
    except re.error as error:
        raise Usage(f"source.{option}: not a regular expression: {error}") from error


def _matches(patterns: list[re.Pattern[str]], name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in patterns)
