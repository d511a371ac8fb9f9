"""Slot and stored position: where to go on when they agree, and what to do when they do not.

The rules of `offset.mismatch.strategy`; docs/positions.md has them as a table. Decides, and leaves acting to `slot.py`.
"""

from __future__ import annotations

import logging

from headwater.errors import Stop
from headwater.event import Position
from headwater.sources.postgres.options import PostgresOptions
from headwater.sources.postgres.position import at_lsn, flush_lsn, format_lsn
from headwater.wording import size_text

LOG = logging.getLogger("headwater.postgres")

# Under these a slot that is ahead wins: what it skipped is left out.
_ACCEPTS = ("trust_slot", "trust_greater_lsn", "no_validation")
# Under these a slot that is behind is moved at the start.
_ADVANCES = ("trust_offset", "trust_greater_lsn")


class SlotAhead(Stop):
    """The slot was moved past changes that neither sinks nor journal have."""

    def __init__(self, slot: str, held: int, confirmed: int) -> None:
        super().__init__(
            f'the slot "{slot}" is {size_text(confirmed - held)} ahead of the last durable position'
            f" ({format_lsn(held)} < {format_lsn(confirmed)})",
            "To accept the gap:       set offset.mismatch.strategy: trust_slot under `source`",
            "To load the tables anew: remove the state folder and the tables in the lake, and run again",
            cause="Someone advanced or recreated it; what was committed in between cannot be read any more",
        )


def beginning(options: PostgresOptions, confirmed: int, held: Position) -> Position:
    """Where to go on. Sinks and journal together hold everything up to `held`."""
    if skips(options, confirmed, held):
        # The log itself says what it leaves out, from here on.
        return held
    # The end of a transaction and the place behind it are one; ours says which transaction.
    return held if confirmed > held.commit else at_lsn(confirmed)


def skips(options: PostgresOptions, confirmed: int, held: Position) -> bool:
    """Whether going on leaves something out, and that was asked for. Raises SlotAhead when it was not."""
    lsn, strategy = flush_lsn(held), options.offset_mismatch_strategy
    if confirmed <= lsn:
        return False
    if strategy not in _ACCEPTS:
        raise SlotAhead(options.slot, lsn, confirmed)
    LOG.warning(
        "offset.mismatch.strategy: %s: what was committed between %s and %s (%s) is left out",
        strategy,
        format_lsn(lsn),
        format_lsn(confirmed),
        size_text(confirmed - lsn),
    )
    return True


def advances(options: PostgresOptions, confirmed: int, durable: Position) -> bool:
    """Whether the slot is to be moved up to what every sink holds before anything is read."""
    return confirmed < flush_lsn(durable) and options.offset_mismatch_strategy in _ADVANCES
