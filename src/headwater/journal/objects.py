"""A journal in an object store: objects never change once they are there, so a segment is written as a whole.

segments/N.hwj    an index (the headers of its blocks, and the last whole transaction up to here), then the blocks

Segments are numbered without gaps, and each is created only if there is none of its number. So there is one history,
whoever writes: a writer that was paused or cut off while another took its place finds its next number taken, and stops.
Credentials are the environment's (AWS_ACCESS_KEY_ID, …) on every machine; none stands in a plan or a slice.
"""

from __future__ import annotations

import json
import os
import struct
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import pairwise, takewhile
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from headwater.errors import HeadwaterError, Retry, Stop
from headwater.event import Chunk, Position
from headwater.journal.block import Damaged, decode_block, header_from_json
from headwater.journal.remote import RemoteStorage
from headwater.journal.sealing import Seal
from headwater.journal.storage import BlockRef, Cursor
from headwater.journal.writer import JournalWriter, Limits

MAGIC = b"HWS1"
PREFIX = struct.Struct("<4sII")
# What is asked for at first: the index of all but the largest segments.
INDEX_BYTES = 64 << 10
# Between two looks for a segment that was not there: two hundred thousand requests for a cent or so.
POLL_SECONDS = 0.1
# Between two listings while the next segment is not there: retention may have taken it, and more.
LIST_SECONDS = 5.0
# Segments that are looked at together while catching up.
AHEAD = 16
# One request, with what obstore tries again by itself; whoever asked tries again later, and says so meanwhile.
ATTEMPTS: Any = {"max_retries": 5, "retry_timeout": timedelta(seconds=15)}
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
CLIENT = {"timeout": "30s", "connect_timeout": "5s"}


@dataclass(frozen=True)
class Segment:
    """What a segment says about itself."""

    number: int
    # Which opening of the journal wrote it.
    writer: str
    # The last whole transaction in it or before it, and the last of those that holds anything.
    end: Position
    last_frame: Position
    blocks: tuple[BlockRef, ...]

    @property
    def last(self) -> Position:
        """Nothing behind this is in it."""
        return max([self.end, *(block.header.last for block in self.blocks)])


@dataclass(frozen=True)
class Stored:
    """A segment as a listing shows it."""

    number: int
    size: int
    time: float


class ObjectStorage(RemoteStorage):
    """Small objects beside numbered segments, under one prefix."""

    def __init__(self, store: Any, place: str) -> None:
        self.place = place
        self._store = store
        # Table definitions, which never change: every slice wants some, and mostly the same.
        self._definitions: dict[str, str] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return storage_at, (self.place,)

    # -- small files -------------------------------------------------------------------------------

    def read(self, name: str) -> str | None:
        if name in self._definitions:
            return self._definitions[name]
        found = self._get(name)
        if found is None:
            return None
        text = found.decode()
        if name.startswith("schemas/"):
            self._definitions[name] = text
        return text

    def write(self, name: str, text: str, *, durable: bool = True) -> None:
        try:
            obstore.put(self._store, name, text.encode())
        except (BaseError, FileNotFoundError) as error:
            raise self._error(f"{name} could not be written", error) from error

    def append(self, name: str, text: str) -> None:
        self.write(name, (self.read(name) or "") + text)

    def names(self, folder: str) -> list[str]:
        return sorted(str(entry["path"]) for entry in self._list(f"{folder}/") if str(entry["path"]).endswith(".json"))

    def remove(self, name: str) -> None:
        try:
            obstore.delete(self._store, name)
        except FileNotFoundError:
            pass
        except BaseError as error:
            raise self._error(f"{name} could not be removed", error) from error

    # -- segments ----------------------------------------------------------------------------------

    def cursor(self) -> Cursor:
        return ObjectCursor(self)

    def block(self, segment: str, offset: int, size: int) -> Chunk:
        data = self._get(f"segments/{segment}", offset, size)
        if data is None:
            raise self.missing(segment)
        try:
            return decode_block(data)
        except Damaged as error:
            raise self.damaged(segment, error.what) from error

    def writer(self, limits: Limits) -> JournalWriter:
        from headwater.journal.object_writer import ObjectWriter

        return ObjectWriter(self, limits)

    def size(self) -> int:
        return sum(stored.size for stored in self.stored())

    def stored(self, after: int = 0) -> list[Stored]:
        """Every segment behind number `after`, in order. Raises Damaged when one is missing in between."""
        found = [
            Stored(
                int(entry["path"][len("segments/") : -len(".hwj")]), entry["size"], entry["last_modified"].timestamp()
            )
            for entry in self._list("segments/", f"segments/{name_of(after)}")
        ]
        found.sort(key=lambda stored: stored.number)
        for one, next_one in pairwise(found):
            if next_one.number != one.number + 1:
                raise self.missing(name_of(one.number + 1))
        return found

    def segment(self, number: int) -> Segment | None:
        """The index of a segment; None when there is none of this number."""
        name = name_of(number)
        data = self._get(f"segments/{name}", 0, INDEX_BYTES)
        if data is None:
            return None
        if len(data) < PREFIX.size:
            raise self.damaged(name, "it is cut short")
        magic, size, crc = PREFIX.unpack_from(data)
        if magic != MAGIC:
            raise self.damaged(name, "it is not a segment")
        index = data[PREFIX.size : PREFIX.size + size]
        if len(index) < size and len(data) == INDEX_BYTES:
            index += self._get(f"segments/{name}", INDEX_BYTES, size - len(index)) or b""
        if zlib.crc32(index) != crc:
            raise self.damaged(name, "its index does not match its checksum")
        read = json.loads(index)
        blocks = []
        offset = PREFIX.size + size
        for length, header in read["blocks"]:
            blocks.append(BlockRef(name, offset, length, header_from_json(header)))
            offset += length
        end, frame = Position(*read["end"]), Position(*read["last_frame"])
        return Segment(number, read["writer"], end, frame, tuple(blocks))

    def create(self, number: int, data: bytes) -> None:
        """Store a segment. Raises FileExistsError when there is one of this number: by us, if we asked twice."""
        try:
            obstore.put(self._store, f"segments/{name_of(number)}", data, mode="create", use_multipart=False)
        except AlreadyExistsError as error:
            raise FileExistsError(name_of(number)) from error
        except (BaseError, FileNotFoundError) as error:
            raise self._error(f"segment {name_of(number)} could not be written", error) from error

    def remove_segment(self, number: int) -> None:
        """Remove a segment that nobody needs any more."""
        self.remove(f"segments/{name_of(number)}")

    def missing(self, segment: str) -> Damaged:
        """The error for a segment that should be there."""
        return self.damaged(segment, "it is missing, with others around it")

    def damaged(self, segment: str, why: str) -> Damaged:
        """The error for a segment that is not what was written."""
        return Damaged(
            f"the journal is damaged: segment {segment} in {self.place}: {why}",
            "If every sink has passed this point: remove everything under segments/ there; what is not confirmed comes"
            " again from the slot",
            "See who else writes or expires objects in this bucket: nothing but the tail removes segments",
        )

    # ----------------------------------------------------------------------------------------------

    def _get(self, name: str, start: int = 0, length: int = 0) -> bytes | None:
        options: Any = {"range": (start, start + length)} if length else None
        try:
            return bytes(obstore.get(self._store, name, options=options).bytes())
        except FileNotFoundError:
            return None
        except BaseError as error:
            raise self._error(f"{name} could not be read", error) from error

    def _list(self, prefix: str, after: str | None = None) -> list[Any]:
        try:
            return [entry for page in obstore.list(self._store, prefix, offset=after) for entry in page]
        except (BaseError, FileNotFoundError) as error:
            raise self._error(f"{prefix} could not be listed", error) from error

    def _error(self, what: str, error: Exception) -> HeadwaterError:
        """An error of the store: refused for good, or away for a while."""
        cause = str(error).split("\n\nDebug source", maxsplit=1)[0][:500]
        if isinstance(error, FileNotFoundError) or "<Code>NoSuchBucket</Code>" in cause:
            return Stop(f"the journal in {self.place}: {what}", "Create the bucket, or correct `journal:`", cause=cause)
        if isinstance(error, (PermissionDeniedError, UnauthenticatedError)):
            return Stop(
                f"the journal in {self.place}: {what}",
                "Give the credentials of this process (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the machine's"
                " role) the rights to get, put, delete and list there",
                cause=cause,
            )
        return Retry(f"the journal in {self.place}: {what}", cause=cause)


class ObjectCursor(Cursor):
    """Asks for the next number; when that is there, for some behind it at once."""

    def __init__(self, storage: ObjectStorage) -> None:
        self._storage = storage
        self._number: int | None = None
        self._looked = self._listed = 0.0

    def new_blocks(self) -> list[BlockRef]:
        now = time.monotonic()
        if now - self._looked < POLL_SECONDS:
            return []
        self._looked = now
        before = self._number
        try:
            return self._read_on()
        except HeadwaterError:
            # What was read so far is read again.
            self._number = before
            raise

    def _read_on(self) -> list[BlockRef]:
        if self._number is None and not self._find(0):
            return []
        segments = self._following(1)
        if not segments and self._find(self._number or 0):
            # Those in between were removed, because every consumer has them.
            segments = self._following(1)
        found: list[BlockRef] = []
        ahead = 1
        while segments:
            found += (block for segment in segments for block in segment.blocks)
            self._number = segments[-1].number
            segments = self._following(AHEAD) if len(segments) == ahead else []
            ahead = AHEAD
        return found

    def _following(self, count: int) -> list[Segment]:
        """Those of the next `count` segments that are there."""
        first = 1 + (self._number or 0)
        if count == 1:
            found = [self._storage.segment(first)]
        else:
            with ThreadPoolExecutor(count) as pool:
                found = list(pool.map(self._storage.segment, range(first, first + count)))
        return list(takewhile(lambda segment: segment is not None, found))  # type: ignore[arg-type]

    def _find(self, after: int) -> bool:
        """Stand before the oldest segment behind number `after`; False when there is none, or we have just looked."""
        now = time.monotonic()
        if now - self._listed < LIST_SECONDS and self._number is not None:
            return False
        self._listed = now
        stored = self._storage.stored(after)
        if stored:
            self._number = stored[0].number - 1
        return bool(stored)


def name_of(number: int) -> str:
    """Names are in the order of numbers."""
    return f"{number:015d}.hwj"


def encode_segment(writer: str, seal: Seal) -> bytes:
    """A segment as it is stored."""
    about = {"writer": writer, "end": _fields(seal.end), "last_frame": _fields(seal.last_frame)}
    headers = b",".join(b"[%d,%b]" % (len(block), header) for header, block in seal.blocks)
    index = json.dumps(about)[:-1].encode() + b', "blocks": [' + headers + b"]}"
    blocks = (block for _header, block in seal.blocks)
    return b"".join([PREFIX.pack(MAGIC, len(index), zlib.crc32(index)), index, *blocks])


def _fields(position: Position) -> list[Any]:
    return [position.commit, position.ordinal, position.resume]


@cache
def storage_at(url: str) -> ObjectStorage:
    """The storage at `s3://bucket/prefix`, one for all of a process: connections are kept. Does no I/O."""
    # obstore reads the rest of the environment by itself; an endpoint of plain HTTP is somebody's decision.
    plain = any(os.environ.get(name, "").startswith("http://") for name in ENDPOINTS)
    options: Any = {**CLIENT, "allow_http": plain}
    return ObjectStorage(S3Store.from_url(url, client_options=options, retry_config=ATTEMPTS), url)
