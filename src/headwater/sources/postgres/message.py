"""Logical messages (`pg_logical_emit_message`) as changes of a table that does not exist.

So they have positions like any change, keep their place in the log's order and pass through the journal.
`TableSchema.message` tells them from tables: a sink that mirrors tables never sees them.
"""

from __future__ import annotations

import pyarrow as pa

from headwater.event import Column, TableSchema

# The relation oid that no table has.
RELATION = 0
MESSAGES = TableSchema(
    schema="",
    name="LOGICAL_DECODING_MESSAGE",
    columns=(Column("prefix", "text", pa.string(), nullable=False), Column("content", "bytea", pa.binary())),
    detail={"message": True},
)
