"""The native engine: one table's changes into Delta by Arrow and delta-rs, without a JVM.

Runs wherever a task runs. Puts the parts together: position check, evolution, reduction, merge, commit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import Drift, Retry, Stop, Usage
from headwater.event import ChangeBatch, Position, TableSchema
from headwater.sinks.delta.defaults import fill_values
from headwater.sinks.delta.log import Moved, Rewrite, forget, open_log
from headwater.sinks.delta.merge import compact, merge
from headwater.sinks.delta.parquet import DataFile, discard, read_file, write_files
from headwater.sinks.delta.place import Folder
from headwater.sinks.delta.reduce import conform, in_place, keyed_state, last_state
from headwater.sinks.delta.shape import (
    CHANGE,
    added,
    changelog_rows,
    changelog_schema,
    clashing,
    mirror_rows,
    mirror_schema,
)

# How often a write begins again because someone else (an OPTIMIZE, a user) committed in between.
ATTEMPTS = 5


class Native:
    """One table of a lake, written by this process."""

    def __init__(self, folder: Folder, pipeline: str, mode: str, key: Sequence[str], file_bytes: int) -> None:
        self.folder = folder
        self.mode = mode
        self.key = tuple(key)
        self.file_bytes = file_bytes
        self.log = open_log(folder, pipeline)

    def position(self) -> Position | None:
        return self.log.position() if self.log.refresh() else None

    def replaced(self, table: TableSchema) -> bool:
        """Whether these are the rows of another table that had this name. A changelog is of the name."""
        if self.mode != "upsert" or table.origin is None or not (self.log.exists or self.log.refresh()):
            return False
        known: int = self.log.owner().get("origin", table.origin)
        return known != table.origin

    def schema(self, table: TableSchema) -> pa.Schema:
        clash = clashing([column.name for column in table.columns])
        if clash:
            raise Drift(
                f"{table.table}: columns {', '.join(map(repr, clash))} differ only in case, which Delta does not see",
                "rename one of them at the source, or leave the table out (exclude)",
            )
        return mirror_schema(table) if self.mode == "upsert" else changelog_schema(table)

    def write(self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position) -> int:
        """Apply what lies behind the table's position; the number of changes that did."""
        seen: Position | None = None
        for attempt in range(ATTEMPTS):
            exists = self.log.refresh()
            position = self.log.position() if exists else None
            if attempt and position != seen:
                if position is not None and position >= upto:
                    # Another attempt at this very batch was faster; all of it is in.
                    return 0
                raise self._two_writers(table, seen, position)
            seen = position
            left = [batch for batch in (batch.between(position, None) for batch in batches) if len(batch)]
            if not left or (position is not None and position >= upto):
                return 0
            try:
                self._apply(table, left, upto)
            except Moved:
                continue
            return sum(len(batch) for batch in left)
        raise Retry(f"{table.table}: the Delta table was changed by someone else {ATTEMPTS} times while we wrote")

    def replay(self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position) -> int:
        """Apply again what lies at or before the table's position, in one commit that leaves the position as it is."""
        position = self.log.position() if self.log.refresh() else None
        if position is None:
            raise Usage(f"{table.table} was never loaded into {self.folder.uri}: there is nothing to repeat")
        if self.mode == "upsert" and upto < position:
            raise Usage(
                f"{table.table} holds the state of {position.resume or position.commit}; repeating less than that"
                " would take its rows back in time",
                "Leave --to away: an upsert table is replayed to its end",
            )
        loaded = self._loaded() if self.mode == "append" else None
        left = [batch for batch in (batch.between(loaded, position) for batch in batches) if len(batch)]
        if not left:
            return 0
        try:
            self._apply(table, left, position, again=True)
        except Moved as error:
            raise Retry(f"{table.table}: the Delta table was changed by someone else meanwhile") from error
        return sum(len(batch) for batch in left)

    def write_late(self, table: TableSchema, batches: Sequence[ChangeBatch]) -> int:
        """Apply changes that were kept aside, in one commit that leaves the position as it is."""
        position = self.log.position() if self.log.refresh() else None
        if position is None:
            raise Usage(f"{table.table} was never loaded into {self.folder.uri}: its snapshot will hold these changes")
        try:
            # A changelog knows its rows by their position; in a mirror these rows have waited as they were.
            self._apply(table, batches, position, again=self.mode == "append")
        except Moved as error:
            raise Retry(f"{table.table}: the Delta table was changed by someone else meanwhile") from error
        return sum(len(batch) for batch in batches)

    def _loaded(self) -> Position | None:
        """The position of the snapshot that a changelog begins with; what lies before it is none of its changes."""
        columns = pa.schema([pa.field("_headwater_op", pa.string()), *(pa.field(name, pa.int64()) for name in CHANGE)])
        found = []
        for path in self.log.files().paths:
            rows = read_file(self.folder, path, columns)
            rows = rows.filter(pc.equal(rows.column("_headwater_op"), "r"))
            found += [Position(*pair) for pair in zip(*(rows.column(name).to_pylist() for name in CHANGE), strict=True)]
        return max(found, default=None)

    def _apply(
        self, table: TableSchema, batches: Sequence[ChangeBatch], upto: Position, *, again: bool = False
    ) -> None:
        """One commit. `again`: the table holds these changes already."""
        stored = self.follow(table)
        if self.mode == "upsert" and self.log.exists and self.log.deletion_vectors:
            raise Stop(
                f"{table.table}: the Delta table has deletion vectors, which the native engine cannot write",
                "set engine: spark (or auto) for this sink, or rewrite the table: reorg table … apply (purge)",
            )
        rewrite = Rewrite()
        try:
            whole = [conform(batch, table, self._fill(batch, table)) for batch in batches]
            if self.mode == "upsert":
                state = last_state(whole, self.key)
                state = in_place(state) if again else state
                rewrite = merge(self.log, table, state, stored, self.key, file_bytes=self.file_bytes)
            elif again:
                state = keyed_state(pa.concat_tables(changelog_rows(batch) for batch in whole), CHANGE)
                rewrite = merge(self.log, table, state, stored, CHANGE, file_bytes=self.file_bytes)
            else:
                rows = (changelog_rows(batch) for batch in whole)
                rewrite.add += write_files(self.folder, stored, rows, file_bytes=self.file_bytes)
            if self.log.exists:
                if not self.log.deletion_vectors:
                    compact(self.log, rewrite, stored, self.key, file_bytes=self.file_bytes)
                self.log.commit(upto, rewrite)
            else:
                self._replace(table, stored, rewrite.add, upto)
        except BaseException:
            discard(self.folder, rewrite.written)
            forget(self.log)
            raise
        self.log.tidy()

    def _fill(self, batch: ChangeBatch, table: TableSchema) -> Mapping[str, pa.Scalar]:
        """What the rows of a batch have in the columns that were added after it."""
        new = [column.name for column in table.columns if batch.table.arrow.get_field_index(column.name) < 0]
        return fill_values(table, new) if new and self.mode == "upsert" else {}

    def follow(self, table: TableSchema) -> pa.Schema:
        """Let the Delta table follow the source's columns; its schema then, in its own order."""
        schema = self.schema(table)
        if not self.log.exists:
            return schema
        self._require_ours(table)
        if self.replaced(table):
            raise Drift(
                f"{table.table} is not the table that was loaded into {self.folder.uri}",
                f"load it anew: headwater snapshot FILE {table.table}",
                cause="it was dropped and made anew, or another table was renamed to its name",
            )
        existing = self.log.schema()
        if added(table, existing, schema):
            new = [name for name in schema.names if name not in existing.names]
            values = fill_values(table, new) if self.mode == "upsert" and len(self.log.files()) else {}
            if any(value.is_valid for value in values.values()):
                self._backfill(table, schema, values)
            else:
                self.log.add_columns(schema)
        return pa.schema([schema.field(name) for name in self.log.schema().names])

    def _backfill(self, table: TableSchema, schema: pa.Schema, values: Mapping[str, pa.Scalar]) -> None:
        """Add columns whose constant default the rows already there have: one commit, at the position we are at.

        Rewrites the table once, as rows must have the value from the moment the column exists."""
        at = self.log.position()
        if at is None or self.log.deletion_vectors:
            raise Drift(
                f"{table.table}: columns {', '.join(map(repr, values))} were added with a default",
                "load the table anew: headwater snapshot, which replaces the Delta table",
            )
        rows = (self._filled(path, schema, values) for path in self.log.files().paths)
        files = write_files(self.folder, schema, rows, file_bytes=self.file_bytes, key=self.key)
        self._replace(table, schema, files, at)

    def _filled(self, path: str, schema: pa.Schema, values: Mapping[str, pa.Scalar]) -> pa.Table:
        rows = read_file(self.folder, path, schema)
        for name, value in values.items():
            at = schema.get_field_index(name)
            rows = rows.set_column(at, schema.field(at), pa.repeat(value, rows.num_rows))
        return rows

    def load_part(self, table: TableSchema, rows: Iterable[ChangeBatch]) -> str:
        """Write a part of a snapshot beside the table; the receipt names the files."""
        schema = self.schema(table)
        files = write_files(self.folder, schema, self._flat(table, rows), file_bytes=self.file_bytes, key=self.key)
        return json.dumps([asdict(file) for file in files])

    def _flat(self, table: TableSchema, rows: Iterable[ChangeBatch]) -> Iterator[pa.Table]:
        """Snapshot batches as tables of about a row group: a source may hand out small ones."""
        flatten = mirror_rows if self.mode == "upsert" else changelog_rows
        for batch in rows:
            yield flatten(conform(batch, table))

    def load(self, table: TableSchema, receipts: Sequence[str], upto: Position) -> None:
        """Make the parts the table, in one commit."""
        files = [DataFile(**file) for receipt in receipts for file in json.loads(receipt)]
        if self.log.refresh():
            self._require_ours(table)
            if self.log.position() == upto and {file.path for file in files} <= set(self.log.files().paths):
                return
        try:
            self._replace(table, self.schema(table), files, upto)
        except Moved as error:
            raise Retry(f"{table.table}: the Delta table was changed by someone else during its load") from error

    def _replace(self, table: TableSchema, schema: pa.Schema, files: Sequence[DataFile], upto: Position) -> None:
        self.log.replace(schema, files, upto, name=table.table, mode=self.mode, origin=table.origin)

    def _require_ours(self, table: TableSchema) -> None:
        owner = self.log.owner()
        if owner.get("headwater") == self.log.pipeline and owner.get("mode") == self.mode:
            return
        by = f"pipeline {owner['headwater']!r} in mode {owner.get('mode')!r}" if owner else "someone else"
        raise Stop(
            f"{table.table}: the Delta table at {self.folder.uri} is written by {by},"
            f" not by pipeline {self.log.pipeline!r} in mode {self.mode!r}",
            "give this pipeline another path, or move that table away",
        )

    @staticmethod
    def _two_writers(table: TableSchema, seen: Position | None, now: Position | None) -> Stop:
        return Stop(
            f"{table.table}: the Delta table moved from {seen} to {now} while we wrote: two writers",
            "stop the other pipeline of this name, then start again: nothing was written twice",
        )
