"""Flat rows as records of a topic: the row as value, its key columns as key, a tombstone behind every delete."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headwater.event import ChangeBatch
from headwater.formats import names
from headwater.formats.connector import Connector, Moment
from headwater.formats.debezium_json import event_key, op_letters
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.flat import Flat, key_text
from headwater.formats.record import HEADERS, SCHEMA, Encoded
from headwater.formats.split import split
from headwater.formats.text import Text


class FlatRecords:
    """Changes → records of flat JSON. An update that changes the key buries the old key first."""

    def __init__(self, options: DebeziumOptions, connector: Connector) -> None:
        self.options = options
        self.connector = connector
        self._flat = Flat()
        self._skipped = np.array([ord(letter) for letter in options.skipped_operations if letter != "none"], np.uint8)

    def encode(self, batch: ChangeBatch, moment: Moment) -> Encoded:
        """All records of the batch, in the order in which they have to be sent."""
        if batch.table.message:
            # No row of a table: it has no flat form.
            return Encoded(())
        rows = np.flatnonzero(~np.isin(op_letters(batch), self._skipped))
        kept = batch if len(rows) == len(batch) else batch.take(pa.array(rows))
        if not len(kept):
            return Encoded(())
        after, before = self._keys(kept)
        records = split(op_letters(kept), after, before, tombstones=True)
        # Of a split update the first of its three records (a delete) is left out: its row has not gone.
        halves = records.halves if records.has_split else np.zeros(len(records.change), np.uint8)
        tombstone = records.tombstone if records.tombstone is not None else np.zeros(len(records.change), bool)
        wanted = np.flatnonzero(~((halves == ord("d")) & ~tombstone))
        lines = self._flat.json_lines(kept).combine_chunks()
        values = lines.take(pa.array(records.change[wanted], mask=tombstone[wanted]))
        keys = pa.nulls(len(wanted), pa.string())
        if after is not None:
            keys = records.key(after, before).to_arrow().take(pa.array(wanted))
        topic = names.topic_name(self.options, *self.connector.topic_parts(batch.table))
        arrays = [
            pa.repeat(pa.scalar(topic, pa.string()), len(wanted)),
            keys,
            values,
            pa.nulls(len(wanted), HEADERS),
            pa.array(rows[records.change[wanted]]),
        ]
        return Encoded((pa.RecordBatch.from_arrays(arrays, schema=SCHEMA),))

    def orders(self, batch: ChangeBatch) -> None:
        """Flat rows carry their transaction's number; where it begins and ends is not told."""

    def _keys(self, batch: ChangeBatch) -> tuple[Text | None, Text | None]:
        columns = tuple(event_key(self.options, batch.table))
        if not columns:
            return None, None
        before = key_text(batch.table, batch.before, columns) if batch.before.null_count < len(batch) else None
        return key_text(batch.table, batch.after, columns), before
