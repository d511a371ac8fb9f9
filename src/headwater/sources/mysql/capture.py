"""Which tables are captured."""

from __future__ import annotations

from collections.abc import Callable

from headwater.sources.capture import Patterns, capture_filter
from headwater.sources.mysql.options import MySqlOptions

# The server's own tables; no pattern means them.
SYSTEM = frozenset(("mysql", "sys", "information_schema", "performance_schema"))


def captured_tables(options: MySqlOptions) -> Callable[[str, str], bool]:
    """A function that says whether (database, table) is captured."""
    databases = Patterns.of("database", options.database_include_list, options.database_exclude_list)
    tables = Patterns.of("table", options.table_include_list, options.table_exclude_list)
    chosen = capture_filter(options.tables, options.exclude, databases, tables)
    return lambda database, table: database.lower() not in SYSTEM and chosen(database, table)
