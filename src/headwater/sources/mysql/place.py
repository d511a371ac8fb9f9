"""Where in the log's files its reader is."""

from __future__ import annotations

from headwater.sources.mysql import binlog
from headwater.sources.mysql.binlog import Event, Header
from headwater.sources.mysql.position import file_address

# Events that are sent and not written.
_SILENT = (Event.HEARTBEAT, Event.HEARTBEAT_V2)


class Place:
    """A file and the offset in it where the last event ended."""

    def __init__(self) -> None:
        self.file = ""
        self.offset = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"

    @property
    def address(self) -> int:
        """File and offset as one number."""
        return file_address(self.file, self.offset) if self.file else 0

    def begin_of(self, header: Header) -> int:
        """The address where the event at hand begins."""
        # The header has 32 bits of it. The server may have passed over others before this one.
        return file_address(self.file, self.offset + ((header.end - header.size - self.offset) & 0xFFFFFFFF))

    def pass_over(self, header: Header) -> None:
        """The event at hand was read; artificial ones do not say where they end."""
        if header.end and not header.flags & binlog.ARTIFICIAL and header.type not in _SILENT:
            self.offset += (header.end - self.offset) & 0xFFFFFFFF

    def rotate(self, file: str, offset: int) -> None:
        """The log goes on in this file."""
        if file != self.file or offset < self.offset:
            self.offset = offset
        self.file = file
