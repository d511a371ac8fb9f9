"""Reading a Delta table back as it is now, for comparing it with its source. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaProtocolError
from pyarrow.dataset import Dataset

from headwater.sinks.delta.place import Folder


def read_table(folder: Folder) -> tuple[pa.Schema, Iterator[pa.RecordBatch]] | None:
    """The schema and the rows, batch by batch; None when there is no table."""
    options = dict(folder.storage_options)
    if not DeltaTable.is_deltatable(folder.uri, storage_options=options):
        return None
    table = DeltaTable(folder.uri, storage_options=options)
    try:
        dataset = table.to_pyarrow_dataset()
    except DeltaProtocolError:
        # Deletion vectors, which Spark's MERGE leaves: DataFusion's scan applies them, pyarrow's does not.
        reader = pa.RecordBatchReader.from_stream(QueryBuilder().register("t", table).execute("select * from t"))
        return reader.schema, iter(reader)
    return dataset.schema, _batches(dataset)


def _batches(dataset: Dataset) -> Iterator[pa.RecordBatch]:
    """Begins to read when somebody asks: Arrow reads ahead in threads, and a scan that nobody has read to its end
    crashes the interpreter when that ends."""
    yield from dataset.to_batches()
