"""Changes of a block as groups of Debezium events, before any transform: the envelope as a tree of columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from headwater.event import ChangeBatch
from headwater.formats import envelope, kernels
from headwater.formats.connect import INT64, STRING, quote
from headwater.formats.connector import Moment, Run
from headwater.formats.debezium_json import Plan, context_values
from headwater.formats.order import Orders
from headwater.formats.split import Records
from headwater.formats.text import Bytes, Longs, Mask, Slot, Template, Text, null_state
from headwater.formats.writers import long_text
from headwater.transforms.events_model import Context, Events, Leaf, Node, Struct, constant, row_struct

_EITHER = Template((Slot("", "", ""), Slot("", "", "")), "")
_LETTERS = Template((Slot('"'),), '"')


def draft(
    plan: Plan, run: Run, batch: ChangeBatch, moment: Moment, orders: Orders | None
) -> tuple[list[Events], Longs]:
    """(groups, the row of the batch that each change of them comes from): skipped operations are left out."""
    rows = np.arange(len(batch), dtype=np.int64)
    keep = plan.wanted(batch)
    if not keep.all():
        batch, rows = batch.filter(pa.array(keep)), rows[keep]
    moment = envelope.beside(moment, batch)
    after_key, before_key = plan.keys(batch)
    records = plan.records(batch, after_key, before_key)
    letters = records.record_letters()
    change = records.change
    count = len(change)
    keys = _key_nodes(plan, batch)
    key = None if keys is None else choose(letters == ord("d"), keys[0].take(change), keys[1].take(change))
    events = Events(
        context=_context(plan, batch, moment),
        topic=plan.topic,
        key=key,
        value=_envelope(plan, batch, moment, records, orders, letters),
        headers=tuple((name, constant(quote(text), count)) for name, text in context_values(plan.options, run).items()),
        change=change,
        order=np.arange(count, dtype=np.int64),
        letters=letters,
    )
    return _groups(events, records, keys), rows


def _context(plan: Plan, batch: ChangeBatch, moment: Moment) -> Context:
    columns = {form.column: form.name for form in plan.row.columns}
    return Context(batch, plan.options, plan.connector.database_of(batch.table), moment.now // 1_000_000, columns)


def _groups(events: Events, records: Records, keys: tuple[Node, Node] | None) -> list[Events]:
    """Tombstones, halves of updates that changed the key, and truncates (which have no key) are groups of their own."""
    count = len(events)
    halves = records.halves if records.has_split else np.zeros(count, dtype=np.uint8)
    tombstone = records.tombstone if records.tombstone is not None else np.zeros(count, dtype=bool)
    label = halves.astype(np.int64) * 4 + tombstone * 2 + (events.letters == ord("t"))
    found = []
    for code in np.unique(label).tolist():
        group = events.where(label == code)
        if code & 1:
            group = replace(group, key=None)
        if code & 2:
            group = replace(group, value=None, envelope=False)
        if code >= 4 and keys is not None:
            group = _with_other_key(group, chr(code // 4), keys)
        found.append(group)
    return found


def _with_other_key(group: Events, half: str, keys: tuple[Node, Node]) -> Events:
    """Each half of a split update names the other half's key."""
    name, node = ("__debezium.newkey", keys[0]) if half == "d" else ("__debezium.oldkey", keys[1])
    return replace(group, headers=((name, node.take(group.change)), *group.headers))


def _key_nodes(plan: Plan, batch: ChangeBatch) -> tuple[Struct, Struct] | None:
    """The keys of the rows after and before."""
    if plan.key is None:
        return None
    name = plan.schema_name("Key")
    after, before = (
        replace(row_struct(plan.key, side, None, name), optional=False) for side in (batch.after, batch.before)
    )
    nothing = np.empty(0, dtype=np.uint8)
    return replace(after, state=nothing), replace(before, state=nothing)


def _envelope(
    plan: Plan, batch: ChangeBatch, moment: Moment, records: Records, orders: Orders | None, letters: Bytes
) -> Struct:
    change, count = records.change, len(records.change)
    unchanged, after_rows = batch.unchanged_masks, batch.after
    if unchanged:
        after_rows, unchanged = envelope.from_before(batch, unchanged)
    before = row_struct(plan.row, batch.before, None, plan.schema_name("Value")).take(change)
    after = row_struct(plan.row, after_rows, unchanged, plan.schema_name("Value")).take(change)
    if records.has_split:
        before, after = nulled(before, letters == ord("c")), nulled(after, letters == ord("d"))
    some, now = INT64.as_optional(), moment.now
    places = np.arange(count, dtype=np.int64)
    fields: tuple[tuple[str, Node], ...] = (
        ("before", before),
        ("after", after),
        ("source", _source(plan, batch, moment).take(change)),
        ("transaction", _transaction(plan, batch, records, orders)),
        ("op", Leaf(STRING, _LETTERS.fill([Text(letters, places, places + 1)], count))),
        ("ts_ms", constant(str(now // 1_000_000), count, some)),
        ("ts_us", constant(str(now // 1000), count, some)),
        ("ts_ns", constant(str(now), count, some)),
    )
    return Struct(plan.schema_name("Envelope"), fields, count, version=2)


def _source(plan: Plan, batch: ChangeBatch, moment: Moment) -> Struct:
    """`source` field by field."""
    block, rows = plan.source, len(batch)
    texts = iter(block.texts(batch.records, moment))
    schemas = {part.name: part.schema for part in block.schema.fields}
    constants = {
        "version": quote(plan.options.version),
        "connector": quote(plan.connector.name),
        "name": quote(plan.options.topic_prefix),
        "db": quote(plan.connector.database_of(batch.table)),
        **{part.name: part.write for part in block.suffix if isinstance(part.write, str)},
    }
    fields: list[tuple[str, Node]] = []
    for name, schema in schemas.items():
        if name in constants:
            fields.append((name, constant(constants[name], rows, schema)))
        else:
            fields.append((name, Leaf(schema, next(texts))))
    return Struct(str(block.schema.name), tuple(fields), rows, version=block.schema.version)


def _transaction(plan: Plan, batch: ChangeBatch, records: Records, orders: Orders | None) -> Struct:
    count = len(records.change)
    if orders is None:
        nothing = Text.nulls(count)
        id_text = total_text = own_text = nothing
        state = np.full(count, kernels.NULL, dtype=np.uint8)
    else:
        total, own = orders.numbers(batch.records, records)
        # Orders count events; a tombstone has the number of the delete before it.
        event = np.cumsum(~records.tombstone) - 1 if records.tombstone is not None else np.arange(count)
        total_text, own_text = long_text(total[event]), long_text(own[event])
        id_text = plan.connector.transaction_id(batch.records).take(records.change)
        outside = null_state(batch.records.column("transaction_id"))
        state = outside[records.change] if outside.size else outside
    orders_of = {"total_order": Leaf(INT64, total_text), "data_collection_order": Leaf(INT64, own_text)}
    fields = (("id", Leaf(STRING, id_text)), *orders_of.items())
    return Struct("event.block", fields, count, optional=True, version=1, state=state)


def nulled(node: Struct, mask: Mask) -> Struct:
    """The struct with some rows null."""
    state = node.state.copy() if node.state.size else np.zeros(node.rows, dtype=np.uint8)
    state[mask] = kernels.NULL
    return replace(node, state=state)


def choose(mask: Mask, left: Node, right: Node) -> Node:
    """Row by row `right` where the mask is true, `left` elsewhere; both of one schema."""
    if not mask.any():
        return left
    if mask.all():
        return right
    if isinstance(left, Struct) and isinstance(right, Struct):
        fields = tuple(
            (name, choose(mask, node, other))
            for (name, node), (_, other) in zip(left.fields, right.fields, strict=True)
        )
        state = np.where(mask, _full(right.state, left.rows), _full(left.state, left.rows)).astype(np.uint8)
        return replace(left, fields=fields, state=state if state.any() else np.empty(0, dtype=np.uint8))
    if not isinstance(left, Leaf) or not isinstance(right, Leaf):
        raise TypeError("two shapes in one column")
    rows = len(mask)
    state = np.where(mask, _full(right.values.state, rows), _full(left.values.state, rows)).astype(np.uint8)
    texts = [left.values.marked(mask, kernels.NULL), right.values.marked(~mask, kernels.NULL)]
    return replace(left, values=_EITHER.fill(texts, rows).with_state(state if state.any() else np.empty(0, np.uint8)))


def _full(state: Bytes, rows: int) -> Bytes:
    return state if state.size else np.zeros(rows, dtype=np.uint8)
