"""What a holder's numbers mean: when it will be lost, and what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.operate.slots import outlook
from headwater.sources.base import Holder
from headwater.wording import duration_text

IDLE = Holder(
    name="headwater_shop",
    owner="headwater",
    ours=True,
    current=True,
    active_pid=None,
    status="extended",
    lost=False,
    position="0/1",
    retained_bytes=5 << 30,
    safe_bytes=12_000_000,
)


def test_a_slot_nobody_reads_is_lost_when_the_rate_has_used_up_its_limit():
    found = outlook(IDLE, bytes_per_second=1000)

    assert found.lost_in == 12_000
    assert found.forecast == "lost in 3 h 20 min at the current rate"
    assert "headwater slots drop headwater_shop" in found.advice


@pytest.mark.parametrize(
    ("holder", "rate", "forecast", "advice"),
    [
        (replace(IDLE, active_pid=7, safe_bytes=50 << 30), 1000, "safe at the current rate", ""),
        (replace(IDLE, active_pid=7), 1000, "safe at the current rate", "its reader is slow"),
        (replace(IDLE, safe_bytes=None), 1000, "never lost; may fill the disk", "nobody reads from it: start"),
        (replace(IDLE, ours=False, retained_bytes=0), 0, "safe at the current rate", "nobody reads from it: ask"),
        (replace(IDLE, lost=True), 1000, "lost", "must load the tables anew"),
    ],
)
def test_forecast_and_advice(holder, rate, forecast, advice):
    found = outlook(holder, rate)

    assert found.forecast == forecast
    assert found.advice.startswith(advice) if not advice else advice in found.advice


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3_600 * 26 + 120, "1 d 2 h"), (12_000, "3 h 20 min")],
)
def test_durations_name_their_two_largest_units(seconds, text):
    assert duration_text(seconds) == text
