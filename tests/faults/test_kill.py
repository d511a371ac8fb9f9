"""Kill -9 of a pipeline on Spark: after a restart the lake equals the source, and the slot was never ahead of a sink.

`make faults SECONDS=… SEED=…` runs the random part for as long as asked; `make test` the other one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from tests.faults.postgres_stage import PostgresStage
from tests.faults.stage import ROLE, Stage

from headwater.testing import wait_until
from headwater.testing.proxy import TcpProxy

pytestmark = [pytest.mark.fault, pytest.mark.spark, pytest.mark.server, pytest.mark.timeout(900)]

SEED = int(os.environ.get("HEADWATER_FAULT_SEED", "20261115"))
SECONDS = float(os.environ.get("HEADWATER_FAULT_SECONDS", "0"))

# Where a Python worker dies, again and again: Spark replaces it, and the run goes on. What needs no Spark to die, the
# driver around a sink's position too, is played by `scenarios.py`.
WORKERS = "snapshot.after_part=sleep:2,sink.before_write=kill@3,sink.after_write=kill@2"


@pytest.fixture
def stage(database, tmp_path) -> Iterator[Stage]:
    database.execute(f"do $$ begin create role {ROLE}; exception when duplicate_object then null; end $$")
    with TcpProxy(database.server.port) as proxy:
        made = PostgresStage(database, proxy, tmp_path, SEED, spark=True)
        yield made
        made.close()


def test_after_kills_of_workers_and_of_the_jvm_the_lake_equals_the_source(stage):
    stage.set_up()
    with stage.watching(), stage.writing():
        stage.pipeline.start(failpoints=WORKERS)
        wait_until(lambda: any(stage.lake.rglob("*.parquet")), 120, "a task of the snapshot has written its part")
        assert stage.pipeline.kill_workers()
        stage.batches(2)
        assert stage.pipeline.running(), stage.pipeline.output()[-3000:]
        assert stage.pipeline.kill_jvm()
        assert stage.pipeline.wait(60) == 1, stage.pipeline.output()[-3000:]
        assert "headwater: Spark's JVM has ended" in stage.pipeline.output()
    stage.require_equal()


@pytest.mark.slow
def test_after_kills_at_random_moments_the_lake_equals_the_source(stage):
    print("seed", SEED)
    stage.set_up()
    deadline = time.monotonic() + SECONDS
    with stage.watching(), stage.writing():
        rounds = 0
        while rounds < 2 or time.monotonic() < deadline:
            stage.pipeline.start()
            stage.batches(1)
            for _ in range(3):
                time.sleep(stage.chance.uniform(0.1, 1.5))
                stage.chance.choice([stage.pipeline.kill_tail, stage.pipeline.kill_workers, lambda: None])()
            assert stage.pipeline.running(), stage.pipeline.output()[-3000:]
            stage.pipeline.kill()
            rounds += 1
    stage.require_equal()
