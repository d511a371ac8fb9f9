"""LSNs: text to integer and back. PostgreSQL 19 pads them with zeros: parse, never compare as text."""

from __future__ import annotations

from headwater.event import Position


def parse_lsn(text: str) -> int:
    """`16/B374D848` as one integer."""
    high, low = text.split("/")
    return (int(high, 16) << 32) | int(low, 16)


def format_lsn(lsn: int) -> str:
    """An integer as `16/B374D848`."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def at_lsn(lsn: int) -> Position:
    """The position between transactions at an LSN."""
    return Position(lsn, 0, format_lsn(lsn))


def message_position(lsn: int) -> Position:
    """The position of a logical message outside of transactions; `lsn` lies behind its record.

    A commit record may begin at `lsn`, none inside of the message's own: one byte before is nobody else's."""
    return Position(lsn - 1, 1, format_lsn(lsn))


def flush_lsn(position: Position) -> int:
    """What may be confirmed once `position` is durable.

    Only a whole transaction lets the slot move behind its end; in the middle of one, its commit record
    must stay ahead of the slot, or the rest would never be sent again."""
    return parse_lsn(position.resume) if position.resume else position.commit
