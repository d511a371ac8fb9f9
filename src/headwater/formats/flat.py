"""The flat envelope: a change as one row, its facts in `_ns_` columns beside the table's own columns.

As JSON lines and as Arrow records. A column that the log left out (unchanged TOAST) is not in the JSON object at
all; in Arrow, where every row has every column, `_ns_unchanged` names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.event import ChangeBatch, TableSchema
from headwater.formats import kernels, writers
from headwater.formats.connect import quote
from headwater.formats.envelope import from_before
from headwater.formats.text import Mask, Slot, Template, Text, blocks, bytes_of, null_state
from headwater.formats.writers import Writer

_WORDS = {"r": "INSERT", "c": "INSERT", "u": "UPDATE", "d": "DELETE", "t": "TRUNCATE"}
_EITHER = Template((Slot("", "", ""), Slot("", "", "")), "")


def writer_for(arrow: pa.DataType) -> Writer:
    """The JSON form of a lake type: nothing is rounded; what JSON has no number for is a string."""
    kinds = pa.types
    if kinds.is_list(arrow):
        return writers.list_text(writer_for(arrow.value_type))
    if kinds.is_timestamp(arrow):
        return writers.timestamp_text(6, zone=arrow.tz is not None)
    for test, writer in (
        (kinds.is_boolean, writers.bool_text),
        (kinds.is_signed_integer, writers.int_text),
        (kinds.is_floating, writers.float_text),
        # A string, because most JSON readers would make a double of the number.
        (kinds.is_decimal128, writers.decimal_text),
        (kinds.is_date32, writers.calendar_text),
        (kinds.is_binary, writers.base64_text),
        (kinds.is_map, writers.map_text),
    ):
        if test(arrow):
            return writer
    return writers.string_text


@dataclass(frozen=True)
class Flat:
    """Changes → flat rows. `lsn` writes a log address the way the database's people write it."""

    lsn: Writer = writers.lsn_text

    def json_lines(self, batch: ChangeBatch) -> pa.ChunkedArray:
        """One JSON object per change, in order."""
        parts = [self._block(ChangeBatch(batch.table, records)) for _, records in blocks(batch.records)]
        return pa.chunked_array(parts, pa.string())

    def _block(self, batch: ChangeBatch) -> pa.StringArray:
        records, table = batch.records, batch.table
        columns = [
            _operation_text(batch.op),
            self.lsn(records.column("lsn")),
            writers.timestamp_text(6)(records.column("commit_time")),
            writers.int_text(records.column("transaction_id")),
            _body(batch),
        ]
        slots = [
            Slot('{"_ns_op":"'),
            Slot(f'","_ns_table":{quote(table.unquoted)},"_ns_lsn":'),
            Slot(',"_ns_committed_at":'),
            Slot(',"_ns_tx_id":'),
            Slot(""),
        ]
        if is_full(table):
            columns.append(_object(table, batch.before))
            slots.append(Slot(',"_ns_before":'))
        return Template(tuple(slots), "}").fill(columns, len(batch)).to_arrow()

    def records(self, batch: ChangeBatch) -> pa.RecordBatch:
        """The same as typed columns."""
        table, records = batch.table, batch.records
        after, unchanged = _after(batch)
        deleted = pc.equal(batch.op, "d")
        image = [pc.if_else(deleted, _child(batch.before, i), _child(after, i)) for i in range(len(table.columns))]
        words = _operation_text(batch.op).to_arrow()
        lsn = self.lsn(records.column("lsn")).to_arrow()
        arrays = [
            words,
            pa.repeat(pa.scalar(table.unquoted, pa.string()), len(batch)),
            # Without the quotes that its JSON form has.
            pc.utf8_slice_codeunits(lsn, 1, -1),
            records.column("commit_time"),
            records.column("transaction_id"),
            *image,
        ]
        if is_full(table):
            arrays.append(batch.before)
        arrays.append(_names(unchanged, len(batch)))
        return pa.RecordBatch.from_arrays(arrays, schema=flat_schema(table))


def flat_schema(table: TableSchema) -> pa.Schema:
    """The Arrow schema of `Flat.records`."""
    fields = [
        pa.field("_ns_op", pa.string()),
        pa.field("_ns_table", pa.string()),
        pa.field("_ns_lsn", pa.string()),
        pa.field("_ns_committed_at", pa.timestamp("us", tz="UTC")),
        pa.field("_ns_tx_id", pa.int64()),
        *table.arrow,
    ]
    if is_full(table):
        fields.append(pa.field("_ns_before", table.arrow))
    return pa.schema([*fields, pa.field("_ns_unchanged", pa.list_(pa.string()))])


def is_full(table: TableSchema) -> bool:
    """Whether the log carries whole old rows."""
    letter = table.detail.get("replica_identity")
    if letter is not None:
        return bool(letter == "f")
    return set(table.identity) >= {column.name for column in table.columns if not column.generated}


def _operation_text(op: pa.Array) -> Text:
    words = list(_WORDS)
    table = np.zeros(256, dtype=np.int64)
    table[[ord(word) for word in words]] = range(len(words))
    texts = Text.from_arrow(pa.array(_WORDS.values(), pa.string()))
    data, offsets = bytes_of(op)
    return texts.take(table[data[offsets[0] : offsets[-1]]])


def _after(batch: ChangeBatch) -> tuple[pa.StructArray, dict[str, Mask]]:
    if not batch.unchanged_masks:
        return batch.after, {}
    return from_before(batch, batch.unchanged_masks)


def _child(rows: pa.StructArray, place: int) -> pa.Array:
    """A field of a struct, null where the struct is."""
    return pc.struct_field(rows, place)


def _body(batch: ChangeBatch) -> Text:
    """`,"column":value` for every column of the row after; of the row before, or its key, for a delete."""
    table = batch.table
    after, unchanged = _after(batch)
    body = _members(table, after, tuple(column.name for column in table.columns), unchanged)
    deleted = pc.equal(batch.op, "d").to_numpy(zero_copy_only=False)
    if deleted.any():
        body = body.marked(deleted, kernels.NULL)
    if batch.before.null_count == len(batch):
        return _blank(body)
    names = table.identity or tuple(column.name for column in table.columns)
    before = _members(table, batch.before, names, {}).marked(~deleted, kernels.NULL)
    return _EITHER.fill([body, before], len(batch))


def _blank(body: Text) -> Text:
    """Rows without an image have no columns."""
    return _EITHER.fill([body, Text.nulls(len(body))], len(body)) if body.state.size else body


def _members(table: TableSchema, rows: pa.StructArray, names: tuple[str, ...], unchanged: dict[str, Mask]) -> Text:
    texts = []
    wanted = [(i, column) for i, column in enumerate(table.columns) if column.name in names]
    for i, column in wanted:
        text = writer_for(column.arrow)(rows.field(i))
        mask = unchanged.get(column.name)
        if mask is not None:
            named = Template((Slot(_prefix(column.name)),), "").fill([text], len(text))
            text = named.marked(mask, kernels.UNAVAILABLE)
        texts.append(text)
    template = _template(tuple(column.name for _, column in wanted), frozenset(unchanged))
    return template.fill(texts, len(rows)).with_state(null_state(rows))


def _prefix(name: str) -> str:
    return f",{quote(name)}:"


@lru_cache(maxsize=1024)
def _template(names: tuple[str, ...], omitted: frozenset[str]) -> Template:
    """Columns that some row leaves out bring their own name with them, so that it can be left out too."""
    return Template(tuple(Slot("", "", "") if name in omitted else Slot(_prefix(name)) for name in names), "")


def key_text(table: TableSchema, rows: pa.StructArray, names: tuple[str, ...]) -> Text:
    """The key columns of every row as a JSON object, in key order."""
    order = {column.name: i for i, column in enumerate(table.columns)}
    slots = tuple(Slot(("{" if i == 0 else ",") + quote(name) + ":") for i, name in enumerate(names))
    texts = [writer_for(table.column(name).arrow)(rows.field(order[name])) for name in names]
    return Template(slots, "}").fill(texts, len(rows)).with_state(null_state(rows))


def _object(table: TableSchema, rows: pa.StructArray) -> Text:
    """A whole row as a JSON object."""
    if not len(table.columns) or rows.null_count == len(rows):
        return Text.nulls(len(rows))
    members = _members(table, rows, tuple(column.name for column in table.columns), {})
    # The first comma gives way to the brace.
    inner = Text(members.data, members.begins + 1, members.ends)
    return Template((Slot("{"),), "}").fill([inner], len(rows)).with_state(members.state)


def _names(unchanged: dict[str, Mask], rows: int) -> pa.ListArray:
    """Per row the names of the columns that are left out; null when there are none."""
    if not unchanged:
        return pa.nulls(rows, pa.list_(pa.string()))
    masks = np.stack(list(unchanged.values()), axis=1)
    counts = masks.sum(axis=1)
    offsets = np.zeros(rows + 1, dtype=np.int32)
    np.cumsum(counts, out=offsets[1:])
    names = pa.array(list(unchanged), pa.string()).take(pa.array(np.nonzero(masks)[1]))
    return pa.ListArray.from_arrays(pa.array(offsets), names, mask=pa.array(counts == 0))
