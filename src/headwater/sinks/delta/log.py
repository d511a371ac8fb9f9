"""The Delta log of one table, by delta-rs: what is in the table, where it ends, one commit after another.

Every commit carries the position it ends at, twice: as readable user metadata, and as two `txn` actions
(commit, ordinal), which checkpoints keep when old log files are cleaned up. Leaves rows and files' content
to `merge` and `parquet`.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from headwater.errors import Retry, Stop
from headwater.event import Position
from headwater.sinks.delta.parquet import DataFile
from headwater.sinks.delta.place import Folder

# delta-rs writes a checkpoint every so many commits; opening a table then reads one checkpoint and at most so
# many small files. 10 costs 15 ms every tenth commit of a small table and grows with its number of files.
CHECKPOINT_EVERY = 20

# What a rewrite replaced stays for readers that began before it, and the log for a day's time travel. Delta's own
# defaults (a week, 30 days) would keep a hundred thousand copies of a hot file.
TABLE_PROPERTIES = {
    "delta.checkpointInterval": str(CHECKPOINT_EVERY),
    "delta.deletedFileRetentionDuration": "interval 4 hours",
    "delta.logRetentionDuration": "interval 1 days",
}

# How often old files are looked for: a listing and two commits, so rarely.
TIDY_SECONDS = 600

# Opened tables kept per process, so that a small write does not read the log again.
OPEN_TABLES = 256


class Moved(Exception):
    """Someone committed to the table after we read it: look again, then decide."""


@dataclass
class Rewrite:
    """What one commit adds and removes."""

    add: list[DataFile] = field(default_factory=list)
    remove: list[str] = field(default_factory=list)
    # Small files put together: the same rows in fewer files.
    together: list[DataFile] = field(default_factory=list)
    apart: list[str] = field(default_factory=list)

    @property
    def written(self) -> list[DataFile]:
        return self.add + self.together


@dataclass(frozen=True)
class Files:
    """The table's files at one version, as columns."""

    paths: list[str]
    sizes: np.ndarray[Any, np.dtype[np.int64]]
    # Per column statistics, NULL where the file has none.
    minima: pa.StructArray | None
    maxima: pa.StructArray | None

    def __len__(self) -> int:
        return len(self.paths)

    def bounds(self, column: str, kind: pa.DataType) -> tuple[pa.Array, pa.Array]:
        """The files' minima and maxima of one column; NULL where they are not known."""
        found = []
        for side in (self.minima, self.maxima):
            at = -1 if side is None else side.type.get_field_index(column)
            values = pa.nulls(len(self), kind) if side is None or at < 0 else side.field(at)
            found.append(values if values.type == kind else _as(values, kind))
        return found[0], found[1]


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(values), kind)


class TableLog:
    """One table's log as this process knows it. `refresh` reads what others committed."""

    def __init__(self, folder: Folder, pipeline: str) -> None:
        self.folder = folder
        self.pipeline = pipeline
        self._table: DeltaTable | None = None
        self._stamp: tuple[int, int] | None = None
        self._tidy_at = time.monotonic() + TIDY_SECONDS
        self._files: tuple[int, Files] | None = None
        self._position: tuple[int, Position | None] | None = None

    # -- reading

    def refresh(self) -> bool:
        """Read the newest version; False when there is no table."""
        if self._table is not None and self._stamp != self._stamp_now():
            # The folder was removed, and perhaps another table made in its place.
            self._table = self._files = self._position = None
        if self._table is None:
            try:
                self._table = DeltaTable(self.folder.uri, storage_options=dict(self.folder.storage_options))
            except TableNotFoundError:
                return False
        else:
            self._table.update_incremental()
        self._stamp = self._stamp_now()
        return True

    def _stamp_now(self) -> tuple[int, int] | None:
        """What makes the newest log file that we know this very file, on a local disk."""
        if not self.folder.local:
            return None
        try:
            found = os.stat(f"{self.folder.uri}/_delta_log/{self.version:020}.json")
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    @property
    def table(self) -> DeltaTable:
        """The Delta table at the version last read; `refresh` was true before."""
        if self._table is None:
            raise AssertionError(f"{self.folder.uri} is not open")
        return self._table

    @property
    def exists(self) -> bool:
        return self._table is not None

    @property
    def version(self) -> int:
        return int(self.table.version())

    def schema(self) -> pa.Schema:
        return pa.schema(self.table.schema().to_arrow())

    def position(self) -> Position | None:
        """Where the table ends, by the newest commit of ours; None for a table that we never wrote."""
        if self._position is None or self._position[0] != self.version:
            self._position = (self.version, self._read_position())
        return self._position[1]

    def _read_position(self) -> Position | None:
        commit = self.table.transaction_version(self._app("commit"))
        ordinal = self.table.transaction_version(self._app("ordinal"))
        stored = None if commit is None or ordinal is None else Position(commit, ordinal)
        # Commits of Spark's engine carry the metadata alone, so the newest metadata decides; it also has `resume`.
        # Usually it is in the last commit; an OPTIMIZE or a user's own commits may lie above it.
        for limit in (1, 2 * CHECKPOINT_EVERY, None):
            history = self.table.history(limit)
            for entry in history:
                found = read_metadata(entry.get("userMetadata"), self.pipeline)
                if found is not None:
                    return found
            if limit is None or len(history) < limit:
                break
        return stored

    def files(self) -> Files:
        """The table's files; none when there is no table yet."""
        if not self.exists:
            return Files([], np.empty(0, dtype=np.int64), None, None)
        if self._files is None or self._files[0] != self.version:
            actions = pa.table(self.table.get_add_actions(flatten=False)).combine_chunks()
            self._files = (self.version, _files_of(actions))
        return self._files[1]

    @property
    def deletion_vectors(self) -> bool:
        """True when rows may be marked deleted beside the files: only Spark's engine understands them here."""
        return "deletionVectors" in (self.table.protocol().writer_features or [])

    def rewritten(self) -> int:
        """How many bytes the last commit of ours replaced; 0 when it did not say."""
        for entry in self.table.history(1):
            try:
                return int(json.loads(entry["userMetadata"]).get("rewritten", 0))
            except (ValueError, KeyError, TypeError, AttributeError):
                return 0
        return 0

    def owner(self) -> Mapping[str, Any]:
        """What the table's description says of who writes it and how, and of which table; empty for one of others."""
        try:
            said = json.loads(self.table.metadata().description or "")
        except ValueError:
            return {}
        return said if isinstance(said, dict) and "headwater" in said else {}

    # -- writing

    def replace(
        self,
        schema: pa.Schema,
        files: Sequence[DataFile],
        upto: Position,
        *,
        name: str,
        mode: str,
        origin: int | None = None,
    ) -> None:
        """Make these files the table's whole content, creating it when it is missing."""
        said = {"headwater": self.pipeline, "mode": mode, **({} if origin is None else {"origin": origin})}
        with self._conflicts():
            create_table_with_add_actions(
                self.folder.uri,
                Schema.from_arrow(schema),
                [_add(file) for file in files],
                mode="overwrite" if self.exists else "error",
                name=name,
                description=json.dumps(said),
                configuration=TABLE_PROPERTIES,
                storage_options=dict(self.folder.storage_options),
                commit_properties=self._properties(write_metadata(self.pipeline, upto), upto),
            )
        self._sync_log(0 if not self.exists else self.version + 1)
        self._table = None
        self.refresh()

    def commit(self, upto: Position, rewrite: Rewrite) -> None:
        """One commit on top of the version that was read. Raises Moved when it is no longer the newest."""
        now = int(time.time() * 1000)
        sizes = dict(zip(self.files().paths, self.files().sizes.tolist(), strict=True))
        actions: list[AddAction | RemoveAction] = [_add(file) for file in rewrite.add]
        actions += [_add(file, data_change=False) for file in rewrite.together]
        actions += [RemoveAction(path, True, now, sizes.get(path), {}) for path in rewrite.remove]
        actions += [RemoveAction(path, False, now, sizes.get(path), {}) for path in rewrite.apart]
        expected = self.version + 1
        metadata = write_metadata(self.pipeline, upto, rewritten=sum(sizes.get(path, 0) for path in rewrite.remove))
        with self._conflicts():
            self.table.create_write_transaction(
                actions, "append", self.table.schema(), commit_properties=self._properties(metadata, upto)
            )
        self._sync_log(expected)
        self.refresh()
        if self.version == expected:
            self._position = (expected, upto)

    def tidy(self) -> None:
        """Now and then delete files that rewrites replaced longer ago than readers may need them."""
        if time.monotonic() < self._tidy_at:
            return
        self._tidy_at = time.monotonic() + TIDY_SECONDS
        # Not `full`: files of a load that is under way belong to no commit yet and must stay.
        self.table.vacuum(dry_run=False, full=False)
        self.refresh()

    def add_columns(self, schema: pa.Schema) -> None:
        """Add what `schema` has and the table has not, inside structs too. Moves no position."""
        with self._conflicts():
            write_deltalake(
                self.table,
                schema.empty_table(),
                mode="append",
                schema_mode="merge",
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        self.refresh()

    def _properties(self, metadata: str, upto: Position) -> CommitProperties:
        return CommitProperties(
            custom_metadata={"userMetadata": metadata},
            # No retry inside delta-rs: an append never conflicts there, so a second writer would go unseen.
            max_commit_retries=0,
            app_transactions=[
                Transaction(self._app("commit"), upto.commit),
                Transaction(self._app("ordinal"), upto.ordinal),
            ],
        )

    def _app(self, part: str) -> str:
        return f"headwater/{self.pipeline}/{part}"

    def _sync_log(self, version: int) -> None:
        self.folder.sync(f"_delta_log/{version:020}.json", "_delta_log", ".")

    @contextmanager
    def _conflicts(self) -> Iterator[None]:
        try:
            yield
        except CommitFailedError as error:
            raise Moved from error
        except OSError as error:
            raise Retry(f"{self.folder.uri}: the Delta log could not be written", cause=str(error)) from error
        except DeltaError as error:
            raise Stop(f"{self.folder.uri}: delta-rs refused the commit", cause=str(error)) from error


def write_metadata(pipeline: str, upto: Position, *, rewritten: int = 0) -> str:
    """A commit's user metadata: whose commit it is, where it ends, and how many bytes of files it replaced."""
    said = {"headwater": pipeline, "position": json.loads(upto.to_json())}
    return json.dumps({**said, "rewritten": rewritten} if rewritten else said)


def read_metadata(text: Any, pipeline: str) -> Position | None:
    """The position in a commit's user metadata; None when it is not a commit of this pipeline."""
    try:
        said = json.loads(text)
        if said["headwater"] != pipeline:
            return None
    except (ValueError, KeyError, TypeError):
        return None
    return Position.from_json(json.dumps(said["position"]))


def _add(file: DataFile, *, data_change: bool = True) -> AddAction:
    return AddAction(file.path, file.size, {}, file.written, data_change, file.statistics)


def _files_of(actions: pa.Table) -> Files:
    def struct(name: str) -> pa.StructArray | None:
        if name not in actions.column_names or not actions.num_rows:
            return None
        column = actions.column(name).combine_chunks()
        column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
        return column if pa.types.is_struct(column.type) else None

    return Files(
        paths=actions.column("path").to_pylist(),
        sizes=actions.column("size_bytes").to_numpy().astype(np.int64),
        minima=struct("min"),
        maxima=struct("max"),
    )


_open: OrderedDict[tuple[str, str], TableLog] = OrderedDict()
_lock = threading.Lock()


def open_log(folder: Folder, pipeline: str) -> TableLog:
    """The log of a table, from this process's memory when it was open before. Not yet refreshed."""
    with _lock:
        log = _open.pop((folder.uri, pipeline), None)
        if log is None or log.folder != folder:
            log = TableLog(folder, pipeline)
        _open[(folder.uri, pipeline)] = log
        while len(_open) > OPEN_TABLES:
            _open.popitem(last=False)
        return log


def forget(log: TableLog) -> None:
    """Drop a table from this process's memory, after an error that may have left it half-read."""
    with _lock:
        _open.pop((log.folder.uri, log.pipeline), None)
