"""Debezium's `column.*` options as a transform of changes: for sinks that take rows and not events."""

from __future__ import annotations

from typing import ClassVar

from headwater.errors import Usage
from headwater.event import ChangeBatch, TableSchema
from headwater.formats.column_options import ColumnRules
from headwater.formats.debezium_options import DebeziumOptions
from headwater.transforms.base import ChangeOptions, ChangeTransform
from headwater.transforms.changes.columns import keep_columns, with_columns
from headwater.transforms.rewrite import map_columns


class ColumnRulesTransform(ChangeTransform):
    """Leaves out, masks, hashes and cuts columns. Key columns stay, as they stay in an event's key."""

    type: ClassVar[str] = "column_rules"
    options_class = ChangeOptions

    def __init__(self, options: DebeziumOptions) -> None:
        self.options = ChangeOptions()
        self.rules = ColumnRules(options)

    def _kept(self, table: TableSchema) -> list[str]:
        names = [column.name for column in table.columns]
        return [name for name in names if name in table.key or self.rules.captured(table, name)]

    def table(self, table: TableSchema) -> TableSchema:
        return with_columns(table, self._kept(table))

    def apply(self, batch: ChangeBatch) -> ChangeBatch:
        table = batch.table
        maps = {}
        for column in table.columns:
            found = self.rules.rule_for(table, column)
            if found is None:
                continue
            if column.name in table.key and not found[0].kind.startswith("hash"):
                raise Usage(
                    f"{found[0].option}: {table.table}.{column.name} is part of the key: rows would become one",
                    "hash it instead: column.mask.hash.v2.SHA-256.with.salt.<salt>",
                )
            maps[column.name] = found[1]
        return keep_columns(map_columns(batch, maps), self._kept(table))
