"""A pipeline's stream: one row per task and micro-batch, saying which slice of the journal to work on.

Rows of data never pass through this stream; `work.py` decodes a slice where the sink is written.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from headwater.event import Position
from headwater.journal import Journal
from headwater.spark.collector import freeze_modules
from headwater.spark.reader import JournalStreamReader, Offset, SlicePartition, from_offset
from headwater.spark.slices import idle_slice, plan_by_table


class SliceSource(DataSource):
    """`format("headwater_slices")`: internal, registered by the pipeline; knows a journal and no secret."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options

    @classmethod
    def name(cls) -> str:
        return "headwater_slices"

    def schema(self) -> StructType:
        return StructType([StructField("slice", StringType())])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return SliceStreamReader(
            Journal(self.options["journal"]),
            after=Position.from_json(self.options["after"]),
            target=int(self.options["target"]) if "target" in self.options else None,
            tasks=int(self.options["tasks"]),
            max_bytes=int(self.options["max_bytes"]),
        )


class SliceStreamReader(JournalStreamReader):
    """Starts at the sink's own position, whatever Spark's checkpoint says."""

    def __init__(self, journal: Journal, *, after: Position, target: int | None, tasks: int, max_bytes: int) -> None:
        super().__init__(journal, max_bytes=max_bytes)
        self._after = after
        self._given_target = target
        self._tasks = tasks

    def begin(self) -> Position:
        return self._after

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = self._given_target

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        after, upto = from_offset(start), from_offset(end)
        if after >= upto:
            return []
        blocks = self.blocks(start, end)
        if not blocks:
            return [SlicePartition(idle_slice(self.journal, after, upto).to_json())]
        return [
            SlicePartition(part.to_json()) for part in plan_by_table(self.journal, blocks, after, upto, self._tasks)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([pa.array([partition.value], pa.string())], names=["slice"])
        freeze_modules()
