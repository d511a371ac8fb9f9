"""The Delta sink as a plug-in: its options, its checks, and which engine does the work.

Imports neither delta-rs nor Spark before it writes; the engines (`native`, `spark`) do.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.errors import Drift, Usage
from headwater.event import ChangeBatch, Position, TableSchema
from headwater.options import Secret, option
from headwater.sinks.base import Contents, Sink, SinkOptions, Written
from headwater.sinks.delta.engine import CROSSOVER_BYTES, SESSION_SETTINGS, Engine, choose_engine
from headwater.sinks.delta.keys import merge_key
from headwater.sinks.delta.place import Lake
from headwater.sinks.delta.shape import awkward, clashing
from headwater.sources.base import Finding, Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater.sinks.delta.native import Native


@dataclass(frozen=True)
class DeltaOptions(SinkOptions):
    """Options of the Delta sink."""

    path: str = option(
        help="root of the lake: a folder or an object-store URL; a table lies at <path>/<schema>/<table>"
    )
    mode: str = option(
        "upsert",
        help="upsert: the table as it is at the source; append: a changelog, one row per change",
        choices=["append", "upsert", "scd2"],
    )
    engine: str = option(
        "auto",
        help="native: Arrow and delta-rs; spark: Spark's MERGE with deletion vectors; auto: by what must be rewritten",
        choices=["auto", "native", "spark"],
    )
    keys: Mapping[str, Any] = option({}, help='key columns of tables without a primary key: {"schema.table": [column]}')
    storage_options: Mapping[str, Any] = option(
        {}, help="credentials and settings of the object store, as delta-rs names them"
    )
    target_file_mb: int = option(8, help="size at which data files are closed; an upsert rewrites whole files")

    crossover_mb: int = option(
        CROSSOVER_BYTES >> 20, help="engine auto: Spark takes over when a batch had to rewrite more than this"
    )

    def __post_init__(self) -> None:
        if self.mode == "scd2":
            raise Usage(
                "sink delta: mode scd2 does not exist yet",
                "use mode: upsert, or mode: append and build it from the changelog",
            )
        if self.engine == "spark" and self.on_error == "dead_letter":
            raise Usage("sink delta: engine spark merges whole batches: it cannot leave a record out as a dead letter")
        if self.target_file_mb < 1:
            raise Usage("sink delta: target_file_mb must be at least 1")
        secret = {str(k): v if isinstance(v, Secret) else Secret(str(v)) for k, v in self.storage_options.items()}
        object.__setattr__(self, "storage_options", secret)
        object.__setattr__(self, "keys", {str(table): _columns(table, columns) for table, columns in self.keys.items()})


def _columns(table: str, columns: Any) -> tuple[str, ...]:
    """One entry of `keys`: a list of column names, or one name."""
    names = (columns,) if isinstance(columns, str) else tuple(columns) if isinstance(columns, (list, tuple)) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise Usage(f"sink delta: keys: {table}: a list of column names is wanted, not {columns!r}")
    return names


class Delta(Sink):
    """Delta Lake tables, by delta-rs or by Spark."""

    type = "delta"
    options_class = DeltaOptions

    def __init__(self, options: DeltaOptions, *, pipeline: str) -> None:
        self.options = options
        self.pipeline = pipeline
        self.lake = Lake.at(options.path, {k: v.reveal() for k, v in options.storage_options.items()})

    def place(self) -> str:
        return self.lake.root

    def check(self, tables: Sequence[TableSchema]) -> list[Finding]:
        findings = []
        why = self.lake.writable()
        if why:
            findings.append(
                Finding(f"delta {self.options.path}", Severity.ERROR, why, "give the user of this process write access")
            )
        else:
            findings.append(Finding(f"delta {self.options.path}", Severity.OK, "writable"))
        for table in tables:
            findings.extend(self._check_table(table))
        return findings

    def _check_table(self, table: TableSchema) -> Iterable[Finding]:
        names = [column.name for column in table.columns]
        if self.options.mode == "upsert":
            key = merge_key(table, self.options.keys)
            unknown = [name for name in key if name not in names]
            if not key:
                yield Finding(
                    table.table, Severity.ERROR, "has no primary key, so upsert cannot tell its rows apart", NO_KEY
                )
            elif unknown:
                yield Finding(
                    table.table, Severity.ERROR, f"keys: has no column {unknown[0]!r}", "correct the sink's keys option"
                )
            elif table.identity and not set(key) <= set(table.identity):
                yield Finding(
                    table.table,
                    Severity.ERROR,
                    f"the log does not carry the key {key} of old rows",
                    f"alter table {table.table} replica identity full",
                )
        if awkward(names):
            yield Finding(
                table.table,
                Severity.WARNING,
                f"column {awkward(names)[0]!r}: Spark reads such a name, but refuses ALTER TABLE on the Delta table",
                "rename the column at the source if you mean to alter the Delta table yourself",
            )
        for name in clashing(names):
            yield Finding(
                table.table,
                Severity.ERROR,
                f"column {name!r} differs from another only in case, which Delta does not see",
                "rename one at the source, or exclude the table",
            )

    def position(self) -> Position | None:
        folder, name = self.lake.position_file(self.pipeline)
        content = folder.get(name)
        return None if content is None else Position.from_json(content)

    def advance(self, upto: Position) -> None:
        folder, name = self.lake.position_file(self.pipeline)
        folder.put(name, upto.to_json().encode())

    def table_position(self, table: TableSchema) -> Position | None:
        return self._native(table).position()

    def replaced(self, table: TableSchema) -> bool:
        return self._native(table).replaced(table)

    def write(self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position) -> Written:
        began = time.perf_counter()
        self._require_key(table)
        changes = self._native(table).write(table, batches, upto)
        return Written(table.table, changes, time.perf_counter() - began)

    def replay(self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position) -> Written:
        began = time.perf_counter()
        self._require_key(table)
        changes = self._native(table).replay(table, batches, upto)
        return Written(table.table, changes, time.perf_counter() - began)

    def key(self, table: TableSchema) -> Sequence[str]:
        return merge_key(table, self.options.keys)

    def write_late(self, table: TableSchema, batches: Sequence[ChangeBatch]) -> Written:
        began = time.perf_counter()
        changes = self._native(table).write_late(table, batches)
        return Written(table.table, changes, time.perf_counter() - began)

    def spark_settings(self, tables: Sequence[TableSchema]) -> Mapping[str, str]:
        """Delta's jars, when the user wants Spark's engine or a table has outgrown the native one."""
        wanted = self.options.engine == Engine.SPARK or (
            self.options.engine == "auto" and any(self.engine(table, jars=True) == Engine.SPARK for table in tables)
        )
        return SESSION_SETTINGS if wanted else {}

    def takes_frame(self, table: TableSchema, settings: Mapping[str, str]) -> bool:
        jars = SESSION_SETTINGS.items() <= settings.items()
        return self.engine(table, jars=jars) == Engine.SPARK

    def engine(self, table: TableSchema, *, jars: bool) -> Engine:
        """Who should write the next batch of a table. `jars`: the session has Delta's.

        Reads the table's newest commit, but not when the user has decided for native."""
        if self.options.engine == Engine.NATIVE:
            return Engine.NATIVE
        log = self._native(table).log
        exists = log.refresh()
        return choose_engine(
            self.options.engine,
            mode=self.options.mode,
            rewritten=log.rewritten() if exists else 0,
            deletion_vectors=exists and log.deletion_vectors,
            jars=jars,
            crossover=self.options.crossover_mb << 20,
        )

    def write_frame(self, spark: SparkSession, table: TableSchema, frame: DataFrame, upto: Position) -> Written:
        """As `write`, with one frame of decoded changes (columns of `change_schema`), on the driver, by Spark."""
        from headwater.sinks.delta.spark import write_frame

        began = time.perf_counter()
        self._require_key(table)
        changes = write_frame(self._native(table), spark, table, frame, upto)
        return Written(table.table, changes, time.perf_counter() - began)

    def target(self, table: TableSchema) -> str:
        return str(self.lake.table_uri(table))

    def load_part(self, table: TableSchema, rows: Iterable[ChangeBatch]) -> str:
        self._require_key(table)
        return self._native(table).load_part(table, rows)

    def load(self, table: TableSchema, receipts: Sequence[str], upto: Position) -> None:
        self._native(table).load(table, receipts, upto)

    def contents(self, table: TableSchema) -> Contents | None:
        from headwater.sinks.delta.read import read_table

        if self.options.mode != "upsert":
            raise Usage(f"sink delta: mode {self.options.mode} keeps a changelog, not the table as it is at the source")
        found = read_table(self.lake.folder(self.lake.table_uri(table)))
        return None if found is None else Contents(merge_key(table, self.options.keys), *found)

    def _require_key(self, table: TableSchema) -> None:
        if self.options.mode == "upsert" and not merge_key(table, self.options.keys):
            raise Drift(f"{table.table} has no primary key, so upsert cannot tell its rows apart", NO_KEY)

    def _native(self, table: TableSchema) -> Native:
        try:
            from headwater.sinks.delta.native import Native
        except ImportError as error:
            raise Usage(
                "sink delta: the package deltalake is not installed", "pip install 'headwater[delta]'"
            ) from error
        folder = self.lake.folder(self.lake.table_uri(table))
        key = merge_key(table, self.options.keys) if self.options.mode == "upsert" else ()
        return Native(folder, self.pipeline, self.options.mode, key, self.options.target_file_mb << 20)


NO_KEY = (
    "add a primary key, or name key columns in the sink's option keys,"
    " or use mode: append (PostgreSQL: with REPLICA IDENTITY FULL at the source)"
)
