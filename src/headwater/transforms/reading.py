"""Transforms for those who read without a pipeline: Spark's `.option()` and `headwater tail --option`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headwater.errors import Usage
from headwater.formats.debezium_options import DebeziumOptions
from headwater.transforms.chain import Chain, build_chain


def reader_chain(sections: Sequence[Any], debezium: DebeziumOptions, *, rows: bool) -> Chain:
    """The chain of a reader: of rows, column options are transforms of changes; of events, the encoder's business."""
    chain = build_chain(sections)
    if not rows:
        return chain
    if chain.events:
        raise Usage(
            f"the transform {chain.events[0].type!r} works on Debezium's events, but rows are read",
            "leave out `table` to read events (tail: --format debezium-json), or use filter, columns, mask, route",
        )
    if not debezium.names_columns:
        return chain
    # Here, not above: it loads kernels, and the planner of a stream has no use for them.
    from headwater.transforms.column_rules import ColumnRulesTransform

    rules = ColumnRulesTransform(debezium)
    return Chain((rules, *chain.changes)) if rules.rules else chain


def with_properties(given: Mapping[str, str]) -> dict[str, Any]:
    """Spark's options with the lines of `properties` among them: Spark lower-cases names, lines keep their case."""
    options: dict[str, Any] = dict(given)
    for key in options:
        if key.startswith("column.mask.hash."):
            raise Usage(
                "Spark lower-cases the names of options, which would change the salt of column.mask.hash…",
                "put it into option('properties', 'column.mask.hash.v2.SHA-256.with.salt.<salt>=schema.table.column')",
            )
    for line in str(options.pop("properties", "")).splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if not equals:
            raise Usage(f"properties: {line.strip()[:40]!r} is no key=value")
        options[key.strip()] = value.strip()
    return options
