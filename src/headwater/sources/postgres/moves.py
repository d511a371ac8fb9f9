"""Did an update change the row's event key? Looks at one raw frame, and at the key's values only.

`timeline.py` asks the same of many frames at once; the tail asks here, without the kernels.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from headwater.event import TableSchema
from headwater.sources.postgres.pgoutput import XLOG_HEADER

Frame = bytes | memoryview

_LENGTH = struct.Struct("!I").unpack_from
# Behind the header: 'U', relation oid, then the tag of the first tuple.
_TUPLE = XLOG_HEADER + 5


def key_changed(frame: Frame, table: TableSchema) -> bool:
    """Of an UPDATE frame. The server sends the old key (K) only when it changed; a whole old row (O) must be read."""
    key = table.event_key
    tag = frame[_TUPLE]
    if tag == ord("N") or not key or not set(table.identity).issuperset(key):
        return False
    places = [place for place, column in enumerate(table.columns) if column.name in key]
    values = _values(frame, _TUPLE + 1)
    old = [next(values) for _ in table.columns]
    new_at = next(values)
    assert isinstance(new_at, int)  # noqa: S101  (where the old tuple ends)
    values = _values(frame, new_at + 1)
    new = [next(values) for _ in table.columns]
    # A value that the new row left out because it is long did not change.
    return any(new[place] != old[place] and new[place] != b"u" for place in places)


def _values(frame: Frame, at: int) -> Iterator[bytes | int]:
    """Tag and bytes of every value of a TupleData, then where it ends."""
    count = (frame[at] << 8) | frame[at + 1]
    at += 2
    for _ in range(count):
        tag = frame[at]
        size = 5 + _LENGTH(frame, at + 1)[0] if tag in b"tb" else 1
        yield bytes(frame[at : at + size])
        at += size
    yield at
