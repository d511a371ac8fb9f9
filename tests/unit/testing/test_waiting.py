"""`wait_until` returns what the condition gave, or says what never came."""

from __future__ import annotations

import pytest

from headwater.testing import wait_until


def test_the_condition_s_value_is_returned_as_soon_as_it_is_true() -> None:
    answers = iter([0, None, 7, 8])

    assert wait_until(lambda: next(answers), timeout=5, interval=0) == 7


def test_the_message_says_what_was_awaited_and_how_far_it_came() -> None:
    with pytest.raises(AssertionError, match=r"not within 0 s: saw 3 of 4"):
        wait_until(lambda: False, timeout=0, message=lambda: "saw 3 of 4")
