"""One dead letter: a change with its position, its table's shape and the reason, as one JSON file.

The change is there twice: for people as values, and exactly as it was decoded, as an Arrow stream of one row.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headwater.errors import HeadwaterError, Stop
from headwater.event import ChangeBatch, Position, TableSchema

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Letter:
    """A change that was kept aside. `follows`: not refused itself, but a change of its row before it was."""

    sink: str
    table: str
    position: Position
    # The rows that it is about: one, or two when the key changed; none without a key.
    keys: tuple[str, ...]
    reason: dict[str, Any]
    follows: Position | None
    change: ChangeBatch
    # The table was truncated or loaded anew since: there is nothing left that this change could be applied to.
    void: bool = False

    @property
    def id(self) -> str:
        """How people name it: unique in its pipeline."""
        return f"{self.sink}/{place_text(self.position)}"

    def to_json(self) -> dict[str, Any]:
        """Everything, for people and scripts."""
        [row] = self.change.records.to_pylist()
        return {
            "format": FORMAT_VERSION,
            "id": self.id,
            "sink": self.sink,
            "table": self.table,
            "position": json.loads(self.position.to_json()),
            "keys": list(self.keys),
            "reason": self.reason,
            "follows": None if self.follows is None else json.loads(self.follows.to_json()),
            "void": self.void,
            "op": row["op"],
            "committed": plain(row["commit_time"]),
            "event": {name: plain(row[name]) for name in ("before", "after", "unchanged")},
        }

    def to_file(self) -> str:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.change.records.schema) as writer:
            writer.write_batch(self.change.records)
        exact = {
            "schema": json.loads(self.change.table.to_json()),
            "change": base64.b64encode(sink.getvalue().to_pybytes()).decode(),
        }
        return json.dumps({**self.to_json(), **exact}, ensure_ascii=False, indent=1)

    @staticmethod
    def from_file(text: str, *, where: str, void: bool) -> Letter:
        """What `to_file` wrote; damage is an error that names the file."""
        try:
            read = json.loads(text)
            if read["format"] != FORMAT_VERSION:
                raise ValueError
            with pa.ipc.open_stream(base64.b64decode(read["change"])) as stream:
                records = stream.read_next_batch()
            table = TableSchema.from_json(json.dumps(read["schema"]))
            follows = read["follows"]
            return Letter(
                sink=read["sink"],
                table=read["table"],
                position=Position.from_json(json.dumps(read["position"])),
                keys=tuple(read["keys"]),
                reason=read["reason"],
                follows=None if follows is None else Position.from_json(json.dumps(follows)),
                change=ChangeBatch(table, records),
                void=void,
            )
        except (ValueError, KeyError, TypeError, pa.ArrowInvalid, StopIteration) as error:
            raise Stop(
                f"the dead letter {where} cannot be read",
                "restore the file from a backup; or remove it, which gives its change up",
            ) from error


def letters_of(
    sink: str, batch: ChangeBatch, rows: Sequence[int], key: Sequence[str], error: HeadwaterError
) -> list[Letter]:
    """Rows of a batch that are refused, as letters."""
    keys = row_keys(batch, key)
    return [letter_of(sink, batch, row, keys[row], reason_of(error)) for row in rows]


def letter_of(
    sink: str,
    batch: ChangeBatch,
    row: int,
    keys: tuple[str, ...],
    reason: dict[str, Any],
    follows: Position | None = None,
) -> Letter:
    """One row of a batch as a letter."""
    change = ChangeBatch(batch.table, batch.records.take(pa.array([row])))
    return Letter(sink, batch.table.table, change.first, keys, reason, follows, change)


def reason_of(error: HeadwaterError) -> dict[str, Any]:
    """Why, as a letter keeps it."""
    return {
        "error": type(error).__name__,
        "what": error.what,
        "cause": error.cause,
        "remedies": list(error.remedies),
    }


def row_keys(batch: ChangeBatch, key: Sequence[str]) -> list[tuple[str, ...]]:
    """For every change the rows it is about, as texts; the old one before the new one."""
    if not key:
        return [()] * len(batch)
    sides = [_key_texts(image, key) for image in (batch.before, batch.after)]
    return [tuple(dict.fromkeys(text for text in pair if text)) for pair in zip(*sides, strict=True)]


def placed_by_key(batch: ChangeBatch, key: Sequence[str]) -> ChangeBatch:
    """Rows of a snapshot, which all have its position, each with a place of its own behind it: made of its key, so
    that it is the same however often and in whatever parts the table is copied."""
    ordinals = [int(key_hash("".join(keys)), 16) >> 1 for keys in row_keys(batch, key)]
    number = batch.records.schema.get_field_index("ordinal")
    field = batch.records.schema.field(number)
    return ChangeBatch(batch.table, batch.records.set_column(number, field, pa.array(ordinals, pa.int64())))


def _key_texts(image: pa.StructArray, key: Sequence[str]) -> list[str]:
    columns = [image.field(image.type.get_field_index(name)).to_pylist() for name in key]
    there = image.is_valid().to_pylist()
    return [
        json.dumps({name: str(plain(value)) for name, value in zip(key, values, strict=True)}, ensure_ascii=False)
        if valid and None not in values
        else ""
        for valid, values in zip(there, zip(*columns, strict=True), strict=True)
    ]


def key_hash(text: str) -> str:
    """A key in a file's name: two keys with one hash would only wait for each other."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def place_text(position: Position) -> str:
    """`COMMIT:ORDINAL`, as people write it."""
    return f"{position.commit}:{position.ordinal}"


def plain(value: Any) -> Any:
    """A value as JSON can show it."""
    match value:
        case dict():
            return {name: plain(part) for name, part in value.items()}
        case list() | tuple():
            return [plain(part) for part in value]
        case bytes():
            return "\\x" + value.hex()
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)
