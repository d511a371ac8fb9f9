"""What the server's catalog says of tables, as TableSchema: one query, whatever the number of tables.

Reads pg_catalog only, which every role may. What a type means is decided in `types.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from headwater.event import Column, TableSchema
from headwater.sources.postgres.types import PgType, lake_type, type_facts, with_cast

# `kind` closes over domains' base types and arrays' element types. A true array is one that its element
# type names as its array type; int2vector, point and others have a typelem without being one.
# One row comes back: the tables and the types they need, each as JSON (1,000 tables of 6 columns: see
# docs/decisions/0002-decoding-values.md).
_QUERY = """
with recursive
relation as (
  select c.oid, c.relname, n.nspname, c.relkind, c.relpersistence, c.relreplident, c.relispartition
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p')
    and case when %(tables)s::oid[] is not null then c.oid = any (%(tables)s::oid[])
        else c.relpersistence <> 't' and n.nspname !~ '^pg_' and n.nspname <> 'information_schema' end
),
attribute as (
  select a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attndims, a.attnotnull, a.attgenerated,
         a.attidentity, pg_catalog.format_type(a.atttypid, a.atttypmod) as spelled,
         pg_catalog.pg_get_expr(d.adbin, d.adrelid) as expression
  from relation r
  join pg_catalog.pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
  left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
),
used as (
  select distinct atttypid as oid from attribute
  union
  select case when t.typtype = 'd' then t.typbasetype else t.typelem end
  from used u join pg_catalog.pg_type t on t.oid = u.oid
  where t.typtype = 'd' or t.typelem <> 0
),
kind as (
  select t.oid, t.typname, n.nspname, t.typtype, t.typbasetype, t.typtypmod, t.typndims, t.typdelim,
         case when e.typarray = t.oid then t.typelem::bigint else 0 end as element,
         (select pg_catalog.json_agg(l.enumlabel order by l.enumsortorder)
          from pg_catalog.pg_enum l where l.enumtypid = t.oid) as labels
  from used u
  join pg_catalog.pg_type t on t.oid = u.oid
  join pg_catalog.pg_namespace n on n.oid = t.typnamespace
  left join pg_catalog.pg_type e on e.oid = t.typelem
),
index as (
  select i.indrelid, i.indisprimary, i.indisreplident,
         (select pg_catalog.json_agg(k.attnum order by k.place)
          from pg_catalog.unnest(i.indkey::smallint[]) with ordinality k (attnum, place)
          where k.place <= i.indnkeyatts) as attnums
  from relation r
  join pg_catalog.pg_index i on i.indrelid = r.oid
  where i.indisprimary or i.indisreplident
),
-- The unique index that stands for a missing primary key in events; several: as JDBC lists them, clustered first,
-- then by name. One that does not hold for every row (partial) or is made of expressions identifies nothing.
substitute as (
  select distinct on (i.indrelid) i.indrelid,
         (select pg_catalog.json_agg(k.attnum order by k.place)
          from pg_catalog.unnest(i.indkey::smallint[]) with ordinality k (attnum, place)
          where k.place <= i.indnkeyatts) as attnums
  from relation r
  join pg_catalog.pg_index i on i.indrelid = r.oid
  join pg_catalog.pg_class x on x.oid = i.indexrelid
  where i.indisunique and not i.indisprimary and i.indisvalid and i.indpred is null and i.indexprs is null
  order by i.indrelid, not i.indisclustered, x.relname
)
select
  (select pg_catalog.json_agg(pg_catalog.json_build_object(
     'oid', r.oid::bigint, 'schema', r.nspname, 'name', r.relname, 'kind', r.relkind,
     'persistence', r.relpersistence, 'replica_identity', r.relreplident,
     'key', p.attnums, 'index', i.attnums, 'unique', u.attnums,
     'parent', case when r.relispartition then
        (select h.inhparent::bigint from pg_catalog.pg_inherits h where h.inhrelid = r.oid limit 1) end,
     'root', case when r.relispartition then pg_catalog.pg_partition_root(r.oid)::oid::bigint end,
     'columns', c.columns
   ) order by r.nspname, r.relname)
   from relation r
   left join (
     select a.attrelid, pg_catalog.json_agg(pg_catalog.json_build_object(
       'attnum', a.attnum, 'name', a.attname, 'oid', a.atttypid::bigint, 'typmod', a.atttypmod,
       'dimensions', a.attndims, 'notnull', a.attnotnull, 'generated', a.attgenerated,
       'identity', a.attidentity, 'spelled', a.spelled, 'expression', a.expression) order by a.attnum) as columns
     from attribute a group by a.attrelid
   ) c on c.attrelid = r.oid
   left join index p on p.indrelid = r.oid and p.indisprimary
   left join index i on i.indrelid = r.oid and i.indisreplident
   left join substitute u on u.indrelid = r.oid),
  (select pg_catalog.json_agg(pg_catalog.json_build_object(
     'oid', k.oid::bigint, 'name', k.typname, 'schema', k.nspname, 'kind', k.typtype,
     'base', k.typbasetype::bigint, 'base_typmod', k.typtypmod, 'dimensions', k.typndims,
     'delimiter', k.typdelim, 'element', k.element, 'labels', k.labels))
   from kind k)
"""


def describe(
    connection: psycopg.Connection[Any],
    tables: Sequence[int] | None = None,
    cast: Mapping[str, str] | None = None,
) -> list[TableSchema]:
    """Every ordinary and partitioned table outside system schemas, or those with these relation oids.

    In the order of schema and name. An oid that is gone is left out. `cast` maps schema.table.column to
    `string`. Runs in the connection's own transaction, so under its snapshot if it has one."""
    oids = None if tables is None else list(tables)
    with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
        relations, types = cursor.execute(_QUERY, {"tables": oids}).fetchone() or (None, None)
    known = {row["oid"]: _pg_type(row) for row in types or ()}
    return [with_cast(_table(relation, known), cast or {}) for relation in relations or ()]


def _pg_type(row: Mapping[str, Any]) -> PgType:
    return PgType(**{**row, "labels": tuple(row["labels"] or ())})


def _table(relation: Mapping[str, Any], known: Mapping[int, PgType]) -> TableSchema:
    columns = relation["columns"] or []
    names = {column["attnum"]: column["name"] for column in columns}
    detail = {name: relation[name] for name in ("oid", "replica_identity", "kind", "persistence")}
    detail |= {name: relation[name] for name in ("parent", "root") if relation[name] is not None}
    key = tuple(names[attnum] for attnum in relation["key"] or ())
    if not key and relation["unique"]:
        detail["unique_key"] = [names[attnum] for attnum in relation["unique"]]
    return TableSchema(
        schema=relation["schema"],
        name=relation["name"],
        columns=tuple(_column(column, known) for column in columns),
        key=key,
        identity=_identity(relation, names, key),
        detail=detail,
    )


def _identity(relation: Mapping[str, Any], names: Mapping[int, str], key: tuple[str, ...]) -> tuple[str, ...]:
    """The columns by which the log names an old row."""
    match relation["replica_identity"]:
        case "d":
            return key
        case "f":
            # Generated columns are computed, not logged.
            return tuple(column["name"] for column in relation["columns"] or () if not column["generated"])
        case "i":
            # The index may have been dropped since: then the log carries nothing, as with 'n'.
            return tuple(names[attnum] for attnum in relation["index"] or ())
    return ()


def _column(column: Mapping[str, Any], known: Mapping[int, PgType]) -> Column:
    facts = type_facts(column["oid"], column["typmod"], column["dimensions"], known)
    detail: dict[str, Any] = {"attnum": column["attnum"], **facts}
    if column["generated"]:
        detail["generated"] = column["generated"]  # s stored, v virtual (never in the log)
    if column["identity"]:
        detail["identity"] = column["identity"]  # a always, d by default
    return Column(
        name=column["name"],
        type=column["spelled"],
        arrow=lake_type(facts),
        nullable=not column["notnull"],
        default=None if column["generated"] else column["expression"],
        generated=bool(column["generated"]),
        detail=detail,
    )
