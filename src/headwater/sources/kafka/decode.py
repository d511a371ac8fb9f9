"""Raw frames to changes: the chunk's records become one ChangeBatch per table. No I/O, no secret.

Kernels find where values are (`scan.py` for JSON, `avro_steps.py` for Avro), `values.py` says what they are, column by
column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import Stop
from headwater.event import ChangeBatch, Chunk, Position, TableSchema, change_schema
from headwater.sources.kafka import avro_kernels, kernels
from headwater.sources.kafka.avro import read_records
from headwater.sources.kafka.avro_steps import Steps, Walk, compiled, walk
from headwater.sources.kafka.frames import HEADER
from headwater.sources.kafka.kernels import AFTER, BEFORE, SOURCE
from headwater.sources.kafka.logical import PHYSICAL
from headwater.sources.kafka.position import parse_progress
from headwater.sources.kafka.scan import SOURCE_FIELDS, Scan, scan
from headwater.sources.kafka.values import (
    Bytes,
    Longs,
    Mask,
    Values,
    from_objects,
    from_physical,
    from_tokens,
    json_text,
    refusal,
    schema_of,
)

_OPERATIONS = b"rcudt"


@dataclass(frozen=True)
class Frames:
    """The heads of a chunk's frames; parallel arrays in the order of the journal."""

    commit: Longs
    offset: Longs
    time: Longs
    partition: npt.NDArray[np.int32]
    topic: npt.NDArray[np.int32]
    relation: npt.NDArray[np.int32]
    # Where the value stands.
    begin: Longs
    end: Longs

    def where(self, mask: Mask | slice) -> Frames:
        return Frames(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))


def heads(chunk: Chunk) -> tuple[Bytes, Frames]:
    """The bytes of the chunk and where its records are."""
    data = np.frombuffer(chunk.frames, dtype=np.uint8)
    ends = np.cumsum(chunk.lengths, dtype=np.int64)
    starts = ends - chunk.lengths
    kind = np.dtype([("longs", "<i8", 3), ("ints", "<i4", 4)])
    head = data[starts[:, None] + np.arange(HEADER.size)].view(kind).reshape(-1)
    commit, offset, time = (head["longs"][:, i].copy() for i in range(3))
    partition, topic, relation, key = (head["ints"][:, i].copy() for i in range(4))
    begin = starts + HEADER.size + np.maximum(key, 0)
    return data, Frames(commit, offset, time, partition, topic, relation, begin, ends)


def decode(
    chunk: Chunk, schemas: Mapping[str, TableSchema], tables: set[str] | None = None, *, events: bool = False
) -> list[ChangeBatch]:
    """See `Source.decode`; for `events`, values stay the JSON that they were."""
    runs = [run for run in chunk.tables if tables is None or run.table in tables]
    if not runs:
        return []
    data, frames = heads(chunk)
    batches = []
    for run in runs:
        own = frames.where(frames.relation == run.relation)
        if own.commit.size != run.changes:
            raise Stop(f"a chunk of the log has {own.commit.size} changes of {run.table}; its index says {run.changes}")
        table = schemas[run.schema]
        batches.append(_batch(data, own, as_json(table) if events else table, chunk))
    return batches


def decode_rows(
    chunk: Chunk, schemas: Mapping[str, TableSchema], run: int, rows: range, *, as_text: bool
) -> ChangeBatch:
    """See `Source.decode_rows`."""
    data, frames = heads(chunk)
    found = chunk.tables[run]
    own = frames.where(frames.relation == found.relation).where(slice(rows.start, rows.stop))
    table = schemas[found.schema]
    if as_text:
        text = [replace(c, arrow=pa.string(), detail={**c.detail, "cast": "string"}) for c in table.columns]
        table = replace(table, columns=tuple(text))
    return _batch(data, own, table, chunk)


def positions(chunk: Chunk, tables: set[str] | None = None) -> list[Position]:
    """See `Source.positions`."""
    wanted = {run.relation for run in chunk.tables if tables is None or run.table in tables}
    _, frames = heads(chunk)
    progress, topics = parse_progress(chunk.context["resume"]), chunk.context["topics"]
    found = []
    for commit, offset, partition, topic, relation in zip(
        frames.commit.tolist(),
        frames.offset.tolist(),
        frames.partition.tolist(),
        frames.topic.tolist(),
        frames.relation.tolist(),
        strict=True,
    ):
        offsets = progress.offsets.setdefault(topics[topic], [])
        offsets.extend([0] * (partition + 1 - len(offsets)))
        offsets[partition] = offset + 1
        if relation in wanted:
            found.append(Position(commit, 1, progress.text()))
    return found


def as_json(table: TableSchema) -> TableSchema:
    """The table with every value as the JSON that stood in the event."""
    columns = [replace(c, arrow=pa.string(), detail={**c.detail, "token": True}) for c in table.columns]
    return replace(table, columns=tuple(columns))


# --------------------------------------------------------------------------------------------------

Column = Callable[[int, int, Longs], Values]


@dataclass(frozen=True)
class Events:
    """Events of one table, whatever they were written in."""

    op: Bytes
    # Whether each has a row before, a row after.
    before: Mask
    after: Mask
    # Microseconds since the epoch; -1 where the event does not say.
    time: Longs
    transaction: pa.Array
    # (part, column, rows) → the values of those rows.
    column: Column


def _batch(data: Bytes, frames: Frames, table: TableSchema, chunk: Chunk) -> ChangeBatch:
    events = _avro(data, frames, table, chunk) if table.detail["form"] == "avro" else _json(data, frames, table, chunk)
    rows = frames.commit.size
    _refuse(~np.isin(events.op, list(_OPERATIONS)), "it has an op that is none of r, c, u, d, t", frames, chunk)
    _refuse((events.op == ord("d")) & ~events.before, "a delete that does not say which row", frames, chunk)
    _refuse(np.isin(events.op, list(b"rcu")) & ~events.after, "a row without values", frames, chunk)
    before, _ = _image(table, BEFORE, events.before, events.column)
    after, unchanged = _image(table, AFTER, events.after, events.column)
    times = np.where(events.time >= 0, events.time, frames.time * 1000)
    records = pa.RecordBatch.from_arrays(
        [
            pa.array([chr(op) for op in range(128)], pa.string()).take(pa.array(events.op)),
            pa.array(frames.commit),
            pa.array(np.ones(rows, dtype=np.int64)),
            pa.array(frames.offset),
            pa.array(times).cast(pa.timestamp("us", tz="UTC")),
            events.transaction,
            before,
            after,
            _unchanged(unchanged, rows),
        ],
        schema=change_schema(table),
    )
    return ChangeBatch(table, records)


def _json(data: Bytes, frames: Frames, table: TableSchema, chunk: Chunk) -> Events:
    found = scan(data, frames.begin, frames.end, [column.name for column in table.columns])
    bad = np.flatnonzero(found.status != kernels.FINE)
    if bad.size:
        why = "it has a column that its schema does not" if found.status[bad[0]] == kernels.UNKNOWN else "damaged JSON"
        raise _damaged(frames, int(bad[0]), chunk, why)

    def column(part: int, place: int, rows: Longs) -> Values:
        tokens = found.tokens(part, place).where(rows)
        own = table.columns[place]
        if own.detail.get("token"):
            return Values(tokens.text().to_arrow())
        return from_tokens(own, tokens, table.detail["placeholder"], table.table)

    micros, millis, transaction = (_numbers(found, name) for name in SOURCE_FIELDS)
    time = pc.fill_null(pc.coalesce(micros, pc.multiply(millis, 1000)), -1).to_numpy(zero_copy_only=False)
    present = found.present.astype(bool)
    return Events(found.op, present[BEFORE], present[AFTER], time, transaction, column)


def _numbers(found: Scan, name: str) -> pa.Array:
    """A field of `source` where it is a whole number."""
    tokens = found.tokens(SOURCE, SOURCE_FIELDS.index(name))
    short = (tokens.kind == kernels.INTEGER) & (tokens.size < 19)
    own = replace(tokens, kind=np.where(short, tokens.kind, kernels.NULL).astype(np.uint8))
    return own.text().to_arrow().cast(pa.int64())


def _avro(data: Bytes, frames: Frames, table: TableSchema, chunk: Chunk) -> Events:
    writer = table.detail["writer"]
    steps = compiled(writer, [column.name for column in table.columns])
    found = walk(steps, data, frames.begin, frames.end)
    if found.damaged >= 0:
        raise _damaged(frames, found.damaged, chunk, "damaged Avro")

    def column(part: int, place: int, rows: Longs) -> Values:
        own, slot = table.columns[place], steps.part(part) + 1 + place
        kind = PHYSICAL.get(schema_of(own).type)
        if own.detail.get("token"):
            values = _objects(found, steps, slot, rows, kind)
            return Values(pa.array([None if value is None else json_text(value) for value in values], pa.string()))
        if kind is None:
            return from_objects(own, _objects(found, steps, slot, rows, kind), table.detail["placeholder"], table.table)
        try:
            array = found.array(slot, rows, kind)
        except pa.ArrowInvalid:
            raise refusal(own, table.table, f"a value that is no {kind}") from None
        return from_physical(own, array, table.detail["placeholder"], table.table)

    everything = np.arange(frames.commit.size)
    micros, millis, transaction = (found.array(steps.source(name), everything, pa.int64()) for name in SOURCE_FIELDS)
    time = pc.fill_null(pc.coalesce(micros, pc.multiply(millis, 1000)), -1).to_numpy(zero_copy_only=False)
    before, after = (found.kind[steps.part(part)] == avro_kernels.PRESENT for part in (BEFORE, AFTER))
    op = np.where(found.size[steps.op] == 1, data[found.start[steps.op]], 0).astype(np.uint8)
    return Events(op, before, after, time, transaction, column)


def _objects(found: Walk, steps: Steps, slot: int, rows: Longs, kind: pa.DataType | None) -> list[Any]:
    """Values as Python's: those that have parts of their own, one by one."""
    if kind is not None:
        return list(found.array(slot, rows, kind).to_pylist())
    pieces = found.pieces(slot, rows)
    if slot not in steps.nested:
        return pieces
    values = read_records(steps.nested[slot], [piece for piece in pieces if piece is not None])
    return [None if piece is None else next(values) for piece in pieces]


def _image(table: TableSchema, part: int, has: Mask, column: Column) -> tuple[pa.StructArray, dict[str, Mask]]:
    """`before` or `after`: rows that have this image typed, the others null; and what they leave out."""
    present = np.flatnonzero(has)
    if not present.size or not table.columns:
        return pa.nulls(has.size, table.arrow), {}
    arrays, unchanged = [], {}
    for place, own in enumerate(table.columns):
        found = column(part, place, present)
        arrays.append(found.array)
        if found.unchanged is not None:
            mask = np.zeros(has.size, dtype=bool)
            mask[present[found.unchanged]] = True
            unchanged[own.name] = mask
    image = pa.StructArray.from_arrays(arrays, fields=list(table.arrow))
    if present.size == has.size:
        return image, unchanged
    place_of = np.zeros(has.size, dtype=np.int64)
    place_of[present] = np.arange(present.size)
    return image.take(pa.array(place_of, mask=~has)), unchanged


def _unchanged(masks: Mapping[str, Mask], rows: int) -> pa.ListArray:
    """Names of the columns that each row left out."""
    if not masks:
        return pa.nulls(rows, pa.list_(pa.string()))
    changes, columns = np.nonzero(np.array(list(masks.values())).T)
    counts = np.bincount(changes, minlength=rows)
    offsets = np.zeros(rows + 1, dtype=np.int32)
    np.cumsum(counts, out=offsets[1:])
    names = pa.array(list(masks), pa.string()).take(pa.array(columns))
    return pa.ListArray.from_arrays(pa.array(offsets), names, mask=pa.array(counts == 0))


def _refuse(rows: Mask, why: str, frames: Frames, chunk: Chunk) -> None:
    if rows.any():
        raise _damaged(frames, int(np.flatnonzero(rows)[0]), chunk, why)


def _damaged(frames: Frames, row: int, chunk: Chunk, why: str) -> Stop:
    topic = chunk.context["topics"][int(frames.topic[row])]
    return Stop(
        f"the record at {topic} [{frames.partition[row]}] offset {frames.offset[row]} cannot be read",
        "Leave the topic out: source.topics",
        cause=why,
    )
