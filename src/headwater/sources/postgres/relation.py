"""A Relation message and the catalog, put together: the schema that streamed rows were written under.

The message says which columns there were and in which order; only the catalog knows type names, nullability,
defaults and the primary key, and it knows them as of now. Where the two disagree the message wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headwater.event import Column, TableSchema
from headwater.sources.postgres.pgoutput import Relation, RelationColumn
from headwater.sources.postgres.types import builtin_column, lake_type


def relation_schema(relation: Relation, described: TableSchema | None, cast: Mapping[str, str]) -> TableSchema:
    """The schema of the rows that follow `relation` in the stream."""
    prefix = f"{relation.schema}.{relation.name}."
    known = {column.name: column for column in described.columns} if described else {}
    columns = tuple(
        _column(column, known.get(column.name), cast.get(prefix + column.name)) for column in relation.columns
    )
    names = {column.name for column in columns}
    identity = tuple(column.name for column in relation.columns if column.identity)
    if described and set(described.identity) == set(identity):
        # The same columns; the catalog names them in the order of the index.
        identity = described.identity
    key = described.key if described else ()
    if not key or not names.issuperset(key):
        # Under FULL every column is flagged, which says nothing about a key.
        key = identity if relation.replica_identity in "di" else ()
    detail = {**(described.detail if described else {}), "oid": relation.oid}
    detail["replica_identity"] = relation.replica_identity
    return TableSchema(relation.schema, relation.name, columns, key, identity, detail)


def _column(column: RelationColumn, known: Column | None, cast: str | None) -> Column:
    if known is not None and known.detail["oid"] == column.type_oid and known.detail["typmod"] == column.typmod:
        return known
    found = builtin_column(column.name, column.type_oid, column.typmod)
    if cast:
        return replace(found, arrow=lake_type(found.detail, cast), detail={**found.detail, "cast": cast})
    return found
