"""The benchmark's own tables fit together; what it measures is no test's business."""

from __future__ import annotations

import itertools

from tests.bench.contestants import CONTESTANTS
from tests.bench.goals import LATENCIES, RATES, RATIOS


def test_every_goal_names_contestants_that_are_there_once() -> None:
    names = [contestant.name for contestant in CONTESTANTS]
    wanted = {ratio.over for ratio in RATIOS} | {goal.ours for goal in (*RATIOS, *RATES, *LATENCIES)}

    assert len(names) == len(set(names))
    assert wanted <= set(names)


def test_contestants_of_one_database_stand_together() -> None:
    """Its server is started once."""
    databases = [contestant.workload.database for contestant in CONTESTANTS]
    assert len(list(itertools.groupby(databases))) == len(set(databases))
