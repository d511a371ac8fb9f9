"""The Spark engine: one table's changes by Spark's own MERGE with deletion vectors, called on the driver.

The same reduction as in the native engine, on the driver, so that a row followed across a key change stays in one
hand; Spark does what grows with the table. The position decides what is applied, never Spark's batch number, and
it lies in the commit's user metadata: Spark's own `txnVersion` silently skips a second commit of one version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headwater.errors import Retry, Stop
from headwater.event import ChangeBatch, Position, TableSchema, change_schema
from headwater.sinks.delta.log import Moved, Rewrite, read_metadata, write_metadata
from headwater.sinks.delta.native import Native
from headwater.sinks.delta.reduce import LastState, conform, last_state
from headwater.sinks.delta.shape import awkward, changelog_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Our columns beside the table's in a MERGE's source.
GONE, OWED = "_headwater_gone", "_headwater_owed"

# Few partitions and one for the log matter most for a small MERGE (3.6 s with the defaults, 0.85 s with these).
SETTINGS = {
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.ansi.enabled": "true",
}


def has_delta(spark: SparkSession) -> bool:
    """True when the session has Delta's jars and extension."""
    return "io.delta.sql.DeltaSparkSessionExtension" in (spark.conf.get("spark.sql.extensions", "") or "")


def write_frame(native: Native, spark: SparkSession, table: TableSchema, frame: DataFrame, upto: Position) -> int:
    """Apply the changes in `frame` that lie behind the table's position; the number of changes that did."""
    log = native.log
    position = native.position()
    if position is not None and position >= upto:
        return 0
    left = conform(changes_of(table, frame), table).between(position, None)
    if not len(left):
        return 0
    schema = native.follow(table)
    if not log.exists:
        log.replace(schema, [], position or Position(0, 0), name=table.table, mode=native.mode, origin=table.origin)
    version = log.version
    session = _session(spark, write_metadata(log.pipeline, upto))
    target = f"delta.{quote(log.folder.uri)}"
    if native.mode == "append":
        _frame(session, changelog_rows(left), schema).write.format("delta").mode("append").save(log.folder.uri)
    else:
        _upsert(session, native, target, last_state([left], native.key), schema)
    if not _require_alone(native, table, version):
        # Spark commits nothing where nothing changes (TRUNCATE of an empty table): the position moves all the same.
        try:
            log.commit(upto, Rewrite())
        except Moved as error:
            raise Retry(f"{table.table}: the Delta table was changed by someone else meanwhile") from error
    return len(left)


def changes_of(table: TableSchema, frame: DataFrame) -> ChangeBatch:
    """A frame of decoded changes as one batch in commit order."""
    read = frame.toArrow().sort_by([("commit", "ascending"), ("ordinal", "ascending")])
    schema = change_schema(table)
    read = read.select(schema.names).cast(schema).combine_chunks()
    batches = read.to_batches() or [pa.RecordBatch.from_pylist([], schema=schema)]
    return ChangeBatch(table, batches[0])


def _session(spark: SparkSession, metadata: str) -> SparkSession:
    """A session of its own, because tables are written in parallel and a commit's metadata is a session setting."""
    session = spark.newSession()
    for name, value in {**SETTINGS, "spark.databricks.delta.commitInfo.userMetadata": metadata}.items():
        session.conf.set(name, value)
    return session


def _frame(session: SparkSession, rows: pa.Table, schema: pa.Schema) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    return session.createDataFrame(rows, from_arrow_schema(schema, prefer_timestamp_ntz=True))


def _upsert(session: SparkSession, native: Native, target: str, state: LastState, schema: pa.Schema) -> None:
    state = _pay_moved(session, native, state, schema)
    if state.truncated:
        whole = _frame(session, state.rows.select(schema.names), schema)
        whole.write.format("delta").mode("overwrite").save(native.folder.uri)
        return
    # Spark refuses to alter a table with an awkward column name; its MERGE then copies files, which is as exact.
    if not native.log.deletion_vectors and not awkward(schema.names):
        _without_metadata(session, f"alter table {target} set tblproperties ('delta.enableDeletionVectors' = 'true')")
    source = source_rows(state, schema, native.key)
    _frame(session, source, source.schema).createOrReplaceTempView("headwater_source")
    session.sql(merge_statement(target, "headwater_source", schema.names, native.key, list(state.owed)))


def _without_metadata(session: SparkSession, statement: str) -> None:
    """A statement whose commit must not carry the position: the data is not there yet."""
    name = "spark.databricks.delta.commitInfo.userMetadata"
    metadata = session.conf.get(name)
    session.conf.unset(name)
    session.sql(statement)
    session.conf.set(name, metadata or "")


def source_rows(state: LastState, schema: pa.Schema, key: Sequence[str]) -> pa.Table:
    """A MERGE's source: a row per key, with what is left out and what is gone."""
    rows = state.rows.select(schema.names)
    owed = pa.array(_owed_names(state), pa.list_(pa.string()))
    alive = rows.append_column(GONE, pa.array(np.zeros(rows.num_rows, dtype=bool))).append_column(OWED, owed)
    gone = np.flatnonzero(state.row_of_key < 0)
    if state.index is None or not len(gone):
        return alive
    columns = []
    for field in alive.schema:
        if field.name in key:
            columns.append(state.index.columns[list(key).index(field.name)].take(pa.array(gone)))
        elif field.name == GONE:
            columns.append(pa.array(np.ones(len(gone), dtype=bool)))
        else:
            columns.append(pa.nulls(len(gone), field.type))
    return pa.concat_tables([alive, pa.Table.from_arrays(columns, schema=alive.schema)])


def _owed_names(state: LastState) -> list[list[str] | None]:
    """Per row the columns it leaves out; most batches have none, and then no loop runs."""
    names: list[list[str] | None] = [None] * state.rows.num_rows
    for name, owed in state.owed.items():
        for at in np.flatnonzero(owed >= 0).tolist():
            names[at] = [*(names[at] or []), name]
    return names


def _pay_moved(session: SparkSession, native: Native, state: LastState, schema: pa.Schema) -> LastState:
    """Fill in what rows that changed their key left out, from the target's rows under the old keys."""
    moved = {name: (owed >= 0) & (owed != state.key_of_row) for name, owed in state.owed.items()}
    if state.index is None or not any(mask.any() for mask in moved.values()):
        return state
    needed = np.unique(np.concatenate([state.owed[name][mask] for name, mask in moved.items()]))
    keys = pa.schema([schema.field(name) for name in native.key])
    old = _frame(
        session, pa.Table.from_arrays([c.take(pa.array(needed)) for c in state.index.columns], schema=keys), keys
    )
    read = session.read.format("delta").load(native.folder.uri)
    names = list(dict.fromkeys([*native.key, *moved]))
    match = [read[quote(name)].eqNullSafe(old[quote(name)]) for name in native.key]
    found = read.join(old, match, "left_semi").select([quote(name) for name in names]).toArrow()
    only = pa.schema([schema.field(name) for name in names])
    return fill(state, found.cast(only).combine_chunks(), native.key, moved)


def fill(state: LastState, found: pa.Table, key: Sequence[str], moved: dict[str, Any]) -> LastState:
    """The state with the moved rows' values taken from `found` (key columns and left-out columns)."""
    assert state.index is not None  # noqa: S101  (the caller has looked)
    at_key = np.full(len(state.row_of_key), -1, dtype=np.int64)
    if found.num_rows:
        ids = state.index.find([pa.concat_arrays(found.column(name).chunks) for name in key])
        at_key[ids] = np.arange(found.num_rows)
    rows, owed = state.rows, dict(state.owed)
    for name, mask in moved.items():
        source = np.where(mask, at_key[owed[name]], -1)
        if (mask & (source < 0)).any():
            raise Stop(
                f"an update moved a row to another key and left {name!r} out, and the table has no such row",
                "load the table anew (headwater snapshot), or set REPLICA IDENTITY FULL at the source",
            )
        kind = rows.schema.field(name).type
        both = pa.concat_arrays([*rows.column(name).chunks, *(found.column(name).cast(kind).chunks)])
        pick = np.where(mask, rows.num_rows + source, np.arange(rows.num_rows))
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), both.take(pa.array(pick)))
        owed[name] = np.where(mask, -1, owed[name])
    owed = {name: left for name, left in owed.items() if (left >= 0).any()}
    return replace(state, rows=rows, owed=owed)


def quote(name: str) -> str:
    """An identifier for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def merge_statement(target: str, source: str, columns: Sequence[str], key: Sequence[str], owed: Sequence[str]) -> str:
    """Spark's MERGE of reduced changes. A left-out column keeps the target's value; without a target row it fails."""
    match = " and ".join(f"t.{quote(name)} <=> s.{quote(name)}" for name in key)
    sets, values = [], []
    for name in columns:
        left_out = f"array_contains(s.{OWED}, {_literal(name)})"
        kept, missing = f"t.{quote(name)}", f"raise_error({_literal(f'headwater: no row to keep {name} from')})"
        plain = f"s.{quote(name)}"
        sets.append(
            f"{kept} = case when {left_out} then {kept} else {plain} end" if name in owed else f"{kept} = {plain}"
        )
        values.append(f"case when {left_out} then {missing} else {plain} end" if name in owed else plain)
    # Identifiers are quoted above; values never enter the statement.
    return " ".join(
        [
            f"merge into {target} t using {source} s on {match}",
            f"when matched and s.{GONE} then delete",
            f"when matched then update set {', '.join(sets)}",
            f"when not matched and not s.{GONE}",
            f"then insert ({', '.join(map(quote, columns))}) values ({', '.join(values)})",  # noqa: S608
        ]
    )


def _require_alone(native: Native, table: TableSchema, version: int) -> bool:
    """Spark lets two blind inserts of a key pass side by side: see that the commits since `version` are one of ours.

    False when none is.
    """
    native.log.refresh()
    new = native.log.table.history(native.log.version - version) if native.log.version > version else []
    ours = [entry for entry in new if read_metadata(entry.get("userMetadata"), native.log.pipeline) is not None]
    if len(ours) > 1:
        raise Stop(
            f"{table.table}: {len(ours)} commits of pipeline {native.log.pipeline!r} were made at once: two writers",
            "stop the other pipeline of this name, then load the table anew: headwater snapshot",
        )
    return bool(ours)
