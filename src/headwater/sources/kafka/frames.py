"""Records gathered into chunks. No I/O.

A frame is one record as it came: where it stood, its key and its value, without the schema that stands in front of
every JSON payload, which is kept once with the table. A record that changes no row (a tombstone, a heartbeat, the
broker's own marks of transactions) is a frame of relation -1 and nothing more: so a chunk knows every step of every
partition, and any place inside of it can be resumed from.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from headwater.errors import Stop
from headwater.event import Chunk, Position, TableRun, TableSchema
from headwater.sources.kafka import kernels
from headwater.sources.kafka.inference import Inference
from headwater.sources.kafka.position import Progress, at
from headwater.sources.kafka.relation import Foreign
from headwater.sources.kafka.shapes import Shape, Shapes
from headwater.sources.kafka.versions import Versions

LOG = logging.getLogger(__name__)

# The number of all that came before, the record's offset and time (ms), partition, topic and relation, key's length.
HEADER = struct.Struct("<qqqiiii")
NO_TABLE = -1
# A chunk is closed at this size: large enough to decode by columns, small enough to wait for.
CHUNK_BYTES = 4 << 20


@dataclass
class _Run:
    """One table's part of the chunk that is being gathered."""

    relation: int
    # None until its columns are known.
    table: TableSchema | None
    inference: Inference | None
    frames: list[int] = field(default_factory=list)


class ChunkBuilder:
    """Takes records one by one, gives chunks. `remember` is told of every table that a chunk names."""

    def __init__(
        self,
        start: Position,
        progress: Progress,
        shapes: Shapes,
        versions: Versions,
        failure: str,
        remember: Callable[[TableSchema], None],
    ) -> None:
        self.progress = progress
        self.coordinate = progress.coordinate
        self.handed = start
        # Changes gathered.
        self.pending = 0
        self.commit_time = 0
        self._shapes = shapes
        self._versions = versions
        self._failure = failure
        self._remember = remember
        self._frames: list[bytes] = []
        self._size = 0
        self._runs: dict[str, _Run] = {}
        self._numbers: dict[str, int] = {}
        self._topics: list[str] = []
        self._resume = progress.text()
        self._ready: list[Chunk] = []

    @property
    def full(self) -> bool:
        return self._size >= CHUNK_BYTES or bool(self._ready)

    @property
    def moved(self) -> bool:
        """Whether anything came, be it no change."""
        return bool(self._frames)

    def begin(self, topic: str, id: str, partition: int, offset: int) -> None:
        """A partition that is read from now on."""
        offsets = self.progress.offsets.setdefault(topic, [])
        if partition != len(offsets):
            raise Stop(f"the topic {topic} has a partition {partition}, and {len(offsets)} before it are known")
        self.progress.ids[topic] = id
        offsets.append(0)
        if offset:
            self.skip(topic, partition, offset)

    def skip(self, topic: str, partition: int, offset: int) -> None:
        """Nothing of ours comes before `offset` any more."""
        if offset > self.progress.offsets[topic][partition]:
            self._put(topic, partition, offset - 1, NO_TABLE, 0, None, b"")

    def add(self, topic: str, partition: int, offset: int, key: bytes | None, value: bytes | None, time: int) -> None:
        """One record."""
        known = self.progress.offsets[topic][partition]
        if offset < known:
            return
        shape = self._shape(topic, partition, offset, key, value) if value is not None else None
        if shape is None or value is None or (shape.table is None and shape.inference is None):
            self._put(topic, partition, offset, NO_TABLE, time, None, b"")
            return
        table = shape.table and self._versions.table(topic, partition, offset, shape.table)
        run = self._run(topic, table, shape.inference)
        run.frames.append(len(self._frames))
        payload = value[shape.begin : len(value) - shape.end]
        own = None if key is None else key[shape.key_begin : len(key) - shape.key_end]
        self._put(topic, partition, offset, run.relation, time, own, payload)
        self.pending += 1
        self.commit_time = max(self.commit_time, time * 1000)

    def take(self) -> Chunk | None:
        """What was gathered; None when nothing has moved."""
        self._cut()
        return self._ready.pop(0) if self._ready else None

    # ----------------------------------------------------------------------------------------------

    def _put(
        self, topic: str, partition: int, offset: int, relation: int, time: int, key: bytes | None, value: bytes
    ) -> None:
        number = self._numbers.get(topic)
        if number is None:
            number = self._numbers[topic] = len(self._topics)
            self._topics.append(topic)
        size = -1 if key is None else len(key)
        head = HEADER.pack(self.coordinate, offset, time, partition, number, relation, size)
        frame = b"".join((head, key or b"", value))
        self._frames.append(frame)
        self._size += len(frame)
        offsets = self.progress.offsets[topic]
        self.coordinate += offset + 1 - offsets[partition]
        offsets[partition] = offset + 1

    def _shape(self, topic: str, partition: int, offset: int, key: bytes | None, value: bytes) -> Shape | None:
        try:
            return self._shapes.find(topic, key, value)
        except Foreign as error:
            self._refuse(error, topic, partition, offset)
            return None

    def _refuse(self, error: Foreign, topic: str, partition: int, offset: int) -> None:
        """A record that is no event: stop there, or leave it out."""
        text = f"the record at {topic} [{partition}] offset {offset} is no event of Debezium's"
        if self._failure == "fail":
            more = "To leave such records out: event.processing.failure.handling.mode: warn"
            raise Stop(text, *error.remedies, more, cause=error.what)
        if self._failure == "warn":
            LOG.warning("%s; it is left out: %s", text, error.what)

    def _run(self, topic: str, table: TableSchema | None, inference: Inference | None) -> _Run:
        """The run of the record's table. Within a chunk a table has one schema."""
        run = self._runs.get(topic)
        if run is not None and (run.table is not table or run.inference is not inference):
            if run.table is None or table is None or run.table.id != table.id:
                self._cut()
                run = None
            else:
                run.table = table
        if run is None:
            run = self._runs[topic] = _Run(len(self._runs), table, inference)
        return run

    def _cut(self) -> None:
        if not self._frames:
            return
        runs = []
        for run in self._runs.values():
            if run.inference is not None:
                self._learn(run, run.inference)
            if run.table is not None and run.frames:
                self._remember(run.table)
                runs.append(TableRun(run.relation, run.table.table, run.table.id, len(run.frames)))
        last = at(self.progress)
        self._ready.append(
            Chunk(
                frames=b"".join(self._frames),
                lengths=np.fromiter(map(len, self._frames), dtype=np.uint32, count=len(self._frames)),
                first=self.handed,
                last=last,
                whole=True,
                tables=tuple(runs),
                context={"resume": self._resume, "topics": self._topics},
                commit_time=self.commit_time,
            )
        )
        self.handed, self._resume = last, last.resume
        self._frames, self._size, self.pending = [], 0, 0
        self._runs, self._numbers, self._topics = {}, {}, []

    def _learn(self, run: _Run, inference: Inference) -> None:
        """The columns of events without a schema; those that turn out to be none are refused."""
        texts = []
        for place in run.frames:
            frame = self._frames[place]
            texts.append(frame[HEADER.size + max(0, HEADER.unpack_from(frame)[-1]) :])
        ends = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in texts], out=ends[1:])
        data = np.frombuffer(b"".join(texts), dtype=np.uint8)
        status = inference.widen(data, ends[:-1].copy(), ends[1:].copy())
        for row in reversed(np.flatnonzero(status != kernels.FINE).tolist()):
            place = run.frames.pop(row)
            _coordinate, offset, _time, partition, number, *_ = HEADER.unpack_from(self._frames[place])
            error = Foreign("it is no JSON object with before, after and op", "Leave the topic out: source.topics")
            self._refuse(error, self._topics[number], partition, offset)
            self._empty(place)
        run.table = inference.table
        if not run.table.columns:
            # A TRUNCATE before the first row: there is nothing to empty.
            for place in run.frames:
                self._empty(place)
            run.frames.clear()

    def _empty(self, place: int) -> None:
        """A frame that is no change after all."""
        coordinate, offset, time, partition, number, *_ = HEADER.unpack_from(self._frames[place])
        self._frames[place] = HEADER.pack(coordinate, offset, time, partition, number, NO_TABLE, -1)
