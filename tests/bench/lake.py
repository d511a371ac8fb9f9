"""Looking into Delta tables from outside, as a reader would."""

from __future__ import annotations

from pathlib import Path


def rows_of(path: Path) -> int:
    """How many rows a reader sees; 0 when there is no table."""
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(str(path)):
        return 0
    return int(DeltaTable(str(path)).count())


class Watcher:
    """Sees a row as soon as it is readable."""

    def __init__(self, path: Path, column: str) -> None:
        self._path = path
        self._column = column
        self._version = -1

    def newest(self) -> int:
        """The highest id a reader finds now; 0 before the table exists or when nothing changed since the last call."""
        from deltalake import DeltaTable

        # Listing one folder is cheap enough to be done every few milliseconds; opening the table is not.
        log = self._path / "_delta_log"
        version = max((int(name.stem) for name in log.glob("*.json") if name.stem.isdigit()), default=-1)
        if version == self._version:
            return 0
        self._version = version
        found = DeltaTable(str(self._path)).to_pyarrow_table(columns=[self._column])
        column = found.column(0)
        if column.type.num_fields:
            column = column.combine_chunks().field("id")
        return max((value for value in column.to_pylist() if value is not None), default=0)
