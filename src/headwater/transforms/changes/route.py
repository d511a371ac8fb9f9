"""`route`: gives tables another schema or name in the target, by regular expression."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from headwater.errors import Usage
from headwater.event import ChangeBatch, TableSchema
from headwater.options import option
from headwater.transforms.base import ChangeOptions, ChangeTransform, compiled, replacement


@dataclass(frozen=True, kw_only=True)
class RouteOptions(ChangeOptions):
    """What a user may say about a route."""

    regex: str = option(help="matched against the whole schema.table")
    replacement: str = option(help="the new schema.table; $1 and ${name} stand for groups")


class Route(ChangeTransform):
    """Another name. A table whose name does not match keeps it."""

    type: ClassVar[str] = "route"
    options_class = RouteOptions
    options: RouteOptions

    def __init__(self, options: RouteOptions) -> None:
        self.options = options
        self.pattern = compiled(options.regex, "route: regex")
        self.template = replacement(options.replacement, self.pattern, "route: replacement")

    def table(self, table: TableSchema) -> TableSchema:
        found = self.pattern.fullmatch(table.unquoted)
        if found is None:
            return table
        schema, dot, name = found.expand(self.template).partition(".")
        if not dot or not schema or not name:
            raise Usage(
                f"route: {table.table} would become {found.expand(self.template)!r}", "a name is written schema.table"
            )
        return replace(table, schema=schema, name=name)

    def apply(self, batch: ChangeBatch) -> ChangeBatch:
        return ChangeBatch(self.table(batch.table), batch.records, batch.timeline)
