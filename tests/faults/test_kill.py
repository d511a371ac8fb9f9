"""Kill -9 anywhere: after a restart the lake equals the source, and the slot was never ahead of the sink.

`make faults SECONDS=… SEED=…` runs the random part for as long as asked; `make test` a bounded one.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.lake import assert_lake_equals_source

from headwater.sinks.delta import Delta, DeltaOptions
from headwater.sources.postgres.position import flush_lsn, parse_lsn
from headwater.testing.load import TABLES, AwkwardLoad
from headwater.testing.pipeline import PipelineProcess

pytestmark = [pytest.mark.fault, pytest.mark.spark, pytest.mark.server, pytest.mark.timeout(900)]

SEED = int(os.environ.get("HEADWATER_FAULT_SEED", "20261115"))
SECONDS = float(os.environ.get("HEADWATER_FAULT_SECONDS", "0"))

# Where the driver dies; the run ends with it.
DRIVER = [
    "snapshot.before_load=kill",
    "sink.before_advance=kill@2",
    "sink.after_advance=kill",
    "consumer.after_set=kill@2",
]
# Where the tail or a Python worker dies, again and again: they are replaced, and the run goes on.
OTHERS = [
    "journal.before_fsync=kill@2,sink.before_write=kill@3",
    "journal.after_fsync=kill@2,sink.after_write=kill@2",
    "journal.after_append=kill@9,tail.before_confirm=kill@2",
    "tail.after_confirm=kill@2",
]


@pytest.fixture
def pipeline(database, tmp_path) -> Iterator[PipelineProcess]:
    process = PipelineProcess(
        tmp_path, {"source": {"type": "postgres", "url": database.url, "tables": ["public.*"], "slot": database.slot}}
    )
    yield process
    process.close()


@contextmanager
def writing(database, seed: int) -> Iterator[AwkwardLoad]:
    """The awkward load in a thread, until the block ends."""
    stopping = threading.Event()
    with database.connect() as connection:
        load = AwkwardLoad(connection, seed)

        def write() -> None:
            while not stopping.is_set():
                load.transaction()
                # Enough to have something in flight at every kill, and cores left for the pipeline.
                time.sleep(0.02)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield load
        finally:
            stopping.set()
            thread.join()


@contextmanager
def watching_the_slot(database, pipeline: PipelineProcess) -> Iterator[None]:
    """The slot's confirmed position is never ahead of the position that the sink holds."""
    sink = Delta(DeltaOptions(path=str(pipeline.lake)), pipeline="shop")
    stopping, wrong = threading.Event(), []

    def look() -> None:
        with database.connect() as connection:
            while not stopping.wait(0.02):
                row = connection.execute(
                    "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s", [database.slot]
                ).fetchone()
                # The sink is asked afterwards: it may have moved on, never back.
                held = sink.position()
                if row and row[0] and held is not None and parse_lsn(row[0]) > flush_lsn(held):
                    wrong.append((row[0], held))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
    assert not wrong, f"confirmed ahead of the sink: {wrong[:3]}"


def test_after_a_kill_at_every_named_failpoint_the_lake_equals_the_source(database, pipeline):
    with database.connect() as connection:
        load = AwkwardLoad(connection, SEED)
        load.create()
        load.run(200)
    with watching_the_slot(database, pipeline), writing(database, SEED + 1):
        for failpoints in DRIVER:
            pipeline.start(failpoints=failpoints)
            assert pipeline.wait(90) < 0, pipeline.output()[-3000:]
        for failpoints in OTHERS:
            pipeline.start(failpoints=failpoints)
            pipeline.wait_for_batch()
            pipeline.wait_for_batch()
            assert pipeline.running(), pipeline.output()[-3000:]
            pipeline.kill()
    assert pipeline.available_now() == 0, pipeline.output()[-3000:]
    assert_lake_equals_source(database, pipeline.lake, TABLES)


def test_after_kills_at_random_moments_the_lake_equals_the_source(database, pipeline):
    chance = random.Random(SEED)  # noqa: S311
    print("seed", SEED)
    with database.connect() as connection:
        load = AwkwardLoad(connection, SEED + 2)
        load.create()
        load.run(100)
    deadline = time.monotonic() + SECONDS
    with watching_the_slot(database, pipeline), writing(database, SEED + 3):
        rounds = 0
        while rounds < 2 or time.monotonic() < deadline:
            pipeline.start()
            pipeline.wait_for_batch()
            for _ in range(3):
                time.sleep(chance.uniform(0.1, 1.5))
                chance.choice([pipeline.kill_tail, pipeline.kill_workers, lambda: None])()
            assert pipeline.running(), pipeline.output()[-3000:]
            pipeline.kill()
            rounds += 1
    assert pipeline.available_now() == 0, pipeline.output()[-3000:]
    assert_lake_equals_source(database, pipeline.lake, TABLES)
