"""One chunk as bytes on disk: a fixed prefix, a JSON header that is the index entry, the frames.

    magic  header size  payload size  header crc  payload crc | header | lengths | frames
      4        4             8            4            4

The header's checksum covers the sizes too: a damaged size is damage, not an unfinished block.
Only forms and checks bytes; `writer.py` and `reader.py` know files.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.errors import Stop
from headwater.event import Chunk, Position, TableRun

MAGIC = b"HWB1"
PREFIX = struct.Struct("<4sIQII")
_SIZES = struct.Struct("<IQ")


class Damaged(Stop):
    """Bytes of a journal that are not what was written."""


@dataclass(frozen=True)
class Header:
    """What a block says about itself."""

    first: Position
    last: Position
    whole: bool
    tables: tuple[TableRun, ...]
    frames: int
    context: dict[str, Any]
    commit_time: int
    # Which opening of the journal wrote it: frames of an unfinished transaction are void in the next one.
    session: str

    @property
    def changes(self) -> int:
        return sum(run.changes for run in self.tables)

    @property
    def gap(self) -> str:
        """Why what lies between `first` and `last` was left out; empty when nothing was."""
        return str(self.context.get("gap", ""))


def encode_block(chunk: Chunk, session: str) -> list[bytes | memoryview]:
    """The block's parts, to be written one after the other."""
    lengths = chunk.lengths.astype("<u4").tobytes()
    header = json.dumps(
        {
            "first": _position(chunk.first),
            "last": _position(chunk.last),
            "whole": chunk.whole,
            "tables": [[run.relation, run.table, run.schema, run.changes] for run in chunk.tables],
            "frames": len(chunk.lengths),
            "context": dict(chunk.context),
            "commit_time": chunk.commit_time,
            "session": session,
        },
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode()
    size = len(lengths) + len(chunk.frames)
    crc = zlib.crc32(chunk.frames, zlib.crc32(lengths))
    return [PREFIX.pack(MAGIC, len(header), size, _header_crc(header, size), crc), header, lengths, chunk.frames]


def decode_prefix(data: bytes) -> tuple[int, int, int, int]:
    """(header size, payload size, header crc, payload crc). Raises Damaged when it is not a block."""
    if len(data) < PREFIX.size:
        raise Damaged("the journal ends inside a block")
    magic, header_size, payload_size, header_crc, payload_crc = PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise Damaged("the journal has bytes that are not a block")
    return header_size, payload_size, header_crc, payload_crc


def decode_header(data: bytes, payload_size: int, crc: int) -> Header:
    """The header, once its checksum has been seen to hold."""
    if _header_crc(data, payload_size) != crc:
        raise Damaged("a block's header does not match its checksum")
    return header_from_json(json.loads(data))


def header_from_json(read: Mapping[str, Any]) -> Header:
    """The header of which somebody else keeps a copy."""
    return Header(
        first=Position(*read["first"]),
        last=Position(*read["last"]),
        whole=read["whole"],
        tables=tuple(TableRun(*run) for run in read["tables"]),
        frames=read["frames"],
        context=read["context"],
        commit_time=read["commit_time"],
        session=read["session"],
    )


def decode_payload(header: Header, payload: bytearray, crc: int) -> Chunk:
    """The chunk that `encode_block` was given."""
    if zlib.crc32(payload) != crc:
        raise Damaged("a block's frames do not match their checksum")
    return Chunk(
        frames=memoryview(payload)[header.frames * 4 :],
        lengths=np.frombuffer(payload, dtype="<u4", count=header.frames),
        first=header.first,
        last=header.last,
        whole=header.whole,
        tables=header.tables,
        context=header.context,
        commit_time=header.commit_time,
    )


def decode_block(data: bytes) -> Chunk:
    """A whole block, as `encode_block` has made it."""
    header_size, payload_size, header_crc, payload_crc = decode_prefix(data)
    start = PREFIX.size + header_size
    if len(data) != start + payload_size:
        raise Damaged("the journal ends inside a block")
    header = decode_header(data[PREFIX.size : start], payload_size, header_crc)
    # A bytearray, because the decoder's kernels want memory they could write to.
    return decode_payload(header, bytearray(memoryview(data)[start:]), payload_crc)


def _header_crc(header: bytes, payload_size: int) -> int:
    return zlib.crc32(header, zlib.crc32(_SIZES.pack(len(header), payload_size)))


def _position(position: Position) -> list[Any]:
    return [position.commit, position.ordinal, position.resume]
