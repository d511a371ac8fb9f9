"""What tests ask of a lake: is it equal to the source, row by row and typed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from deltalake import DeltaTable


def lake_rows(lake: Path, table: str) -> list[dict[str, Any]]:
    """All rows of a Delta table, as Python values."""
    schema, name = table.split(".")
    return DeltaTable(str(lake / schema / name)).to_pyarrow_table().to_pylist()


def source_rows(database: Any, table: str) -> list[dict[str, Any]]:
    """All rows of the source table, as psycopg reads them."""
    with database.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        cursor = connection.execute(f"select * from {table}")
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def assert_lake_equals_source(database: Any, lake: Path, tables: Iterable[str]) -> None:
    """The same rows, each once, with the same values."""
    for table in tables:
        assert_same_rows(table, lake_rows(lake, table), source_rows(database, table))


def assert_same_rows(table: str, got: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """The same rows, whatever their order."""
    theirs, ours = Counter(map(comparable, expected)), Counter(map(comparable, got))
    missing, extra = theirs - ours, ours - theirs
    told = f"{missing.total()} rows missing, {extra.total()} too many: {list(missing)[:2]} {list(extra)[:2]}"
    assert ours == theirs, f"{table}: {told}"


def comparable(row: dict[str, Any]) -> str:
    """A row as text, equal when its values are."""
    return repr([(name, _text(value)) for name, value in row.items()])


def _text(value: Any) -> str:
    match value:
        case str():
            return value
        case Decimal():
            # An unconstrained numeric is text in the lake.
            return str(value)
        case datetime():
            # The same instant, whatever class says that it is UTC.
            return value.isoformat()
    return repr(value)
