"""Which tables and messages are captured."""

from __future__ import annotations

from collections.abc import Callable

from headwater.sources.capture import Patterns, capture_filter
from headwater.sources.postgres.options import PostgresOptions


def captured_tables(options: PostgresOptions) -> Callable[[str, str], bool]:
    """A function that says whether (schema, table) is captured."""
    schemas = Patterns.of("schema", options.schema_include_list, options.schema_exclude_list)
    tables = Patterns.of("table", options.table_include_list, options.table_exclude_list)
    return capture_filter(options.tables, options.exclude, schemas, tables)


def captured_messages(options: PostgresOptions) -> Callable[[str], bool]:
    """A function that says whether logical messages with a prefix are captured."""
    return Patterns.of("message.prefix", options.message_prefix_include_list, options.message_prefix_exclude_list)
