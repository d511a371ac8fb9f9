"""What a change is: Operation, Position, TableSchema, ChangeBatch. Depends on pyarrow only."""

from headwater.event.batch import ChangeBatch, change_schema, concat
from headwater.event.chunk import Chunk, TableRun
from headwater.event.operation import Operation
from headwater.event.position import ORIGIN, Position
from headwater.event.schema import Column, TableSchema, qualified, unquoted
from headwater.event.timeline import Timeline

__all__ = [
    "ORIGIN",
    "ChangeBatch",
    "Chunk",
    "Column",
    "Operation",
    "Position",
    "TableRun",
    "TableSchema",
    "Timeline",
    "change_schema",
    "concat",
    "qualified",
    "unquoted",
]
