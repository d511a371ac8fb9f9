"""What happens to a pipeline in real life, whatever database it reads, as a table. `stage.py` says how each must end.

Beside it: `postgres_scenarios.py` and `mysql_scenarios.py`, what only these servers do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.faults.stage import Stage, pause

from headwater.testing import wait_until
from headwater.testing.pipeline import PipelineProcess

# A scenario of one database gets that database's stage.
Act = Callable[[Any], None]


@dataclass(frozen=True)
class Scenario:
    """One fault while the load goes on. With `says` it must end by rule E, without by rule Z."""

    name: str
    fault: Act
    says: tuple[str, ...] = ()
    status: int = 3
    remedy: Act = Stage.load_anew
    # Not in `make test`, only in `make faults`.
    slow: bool = False
    # Started by the scenario itself, not before it.
    cold: bool = False


class Scenarios(list[Scenario]):
    """A table of them; its decorator puts a function into it."""

    def add(
        self, *says: str, status: int = 3, remedy: Act = Stage.load_anew, slow: bool = False, cold: bool = False
    ) -> Callable[[Act], Act]:
        def add(fault: Act) -> Act:
            self.append(Scenario(fault.__name__, fault, says, status, remedy, slow, cold))
            return fault

        return add


EVERYWHERE = Scenarios()
scenario = EVERYWHERE.add


# -- processes that die ------------------------------------------------------------------------------


@scenario(cold=True)
def killed_at_failpoints(stage: Stage) -> None:
    """In a snapshot, between sink commit and position, between position and confirm; then the tail, again and again."""
    kill_the_driver(stage, "snapshot.before_load=kill@2", "sink.before_advance=kill@3", "consumer.after_set=kill@3")
    kill_the_tail(stage, "journal.after_append=kill@5,tail.before_confirm=kill@2")


@scenario(cold=True, slow=True)
def killed_at_the_other_failpoints(stage: Stage) -> None:
    kill_the_driver(stage, "snapshot.after_load=kill", "sink.after_write=kill@2", "sink.after_advance=kill@2")
    kill_the_tail(stage, "tail.after_confirm=kill@2,journal.after_fsync=kill@3", "journal.before_fsync=kill@2")


def kill_the_driver(stage: Stage, *failpoints: str) -> None:
    for each in failpoints:
        stage.pipeline.start(failpoints=each)
        assert stage.pipeline.wait(90) < 0, stage.pipeline.output()[-3000:]


def kill_the_tail(stage: Stage, *failpoints: str) -> None:
    """It dies again and again, and is replaced each time."""
    for each in failpoints:
        stage.pipeline.start(failpoints=each)
        stage.batches(2)
        assert stage.pipeline.running(), stage.pipeline.output()[-3000:]
        stage.pipeline.kill()


@scenario(slow=True)
def tail_and_driver_killed_at_random(stage: Stage) -> None:
    for _ in range(2):
        pause(stage.chance.uniform(0, 0.5))
        stage.pipeline.kill_tail()
        stage.batches(1)
    pause(stage.chance.uniform(0, 0.5))
    stage.pipeline.kill()


@scenario(slow=True)
def two_runs_at_once(stage: Stage) -> None:
    """The second one stops and says who has the state; the first does not notice."""
    second = PipelineProcess.__new__(PipelineProcess)
    second.__dict__ |= stage.pipeline.__dict__ | {"log": stage.directory / "second.log", "_process": None}
    assert second.available_now() == 3
    assert "is in use by process" in second.output()
    stage.batches(1)


# -- the server --------------------------------------------------------------------------------------


@scenario()
def server_killed_and_started(stage: Stage) -> None:
    stage.kill_server()
    stage.start_server()
    stage.pipeline.wait_ready()


@scenario(slow=True)
def server_killed_again_and_again(stage: Stage) -> None:
    """Power cuts: the server may go back a little and send what was confirmed again."""
    for _ in range(2):
        stage.kill_server()
        stage.start_server()
        stage.pipeline.wait_ready()
        stage.batches(1)


# -- the network -------------------------------------------------------------------------------------


@scenario()
def network_cut_and_flapping(stage: Stage) -> None:
    for _ in range(4):
        stage.proxy.cut()
        pause(stage.chance.uniform(0.05, 0.7))
    stage.pipeline.wait_ready()


@scenario(slow=True)
def network_gone_for_a_while(stage: Stage) -> None:
    """Not ready meanwhile, and ready by itself afterwards."""
    stage.proxy.refuse = True
    stage.proxy.cut()
    wait_until(lambda: not stage.pipeline.report().ready, 30, "the status says that the server is away")
    stage.proxy.refuse = False
    stage.pipeline.wait_ready()


@scenario(slow=True)
def half_open_for_thirty_seconds(stage: Stage) -> None:
    """Nothing is refused and nothing comes: the status says so before the connection is given up."""
    stage.proxy.hold()
    silent = "the server has not answered"
    wait_until(lambda: silent in str(stage.pipeline.report().reasons), 30, "the status says that the server is silent")
    pause(20)
    stage.proxy.release()


@scenario(slow=True)
def two_seconds_of_latency(stage: Stage) -> None:
    stage.proxy.latency = 2.0
    stage.batches(2)
    stage.proxy.latency = 0.0


# -- state, sinks, machine ---------------------------------------------------------------------------


@scenario("journal.json", "is damaged", "the tables in the lake", slow=True)
def state_file_zeroed(stage: Stage) -> None:
    stage.stop()
    file = stage.pipeline.state / "journal" / "journal.json"
    file.write_bytes(b"\0" * file.stat().st_size)


@scenario("is damaged", "consumers", slow=True)
def state_file_truncated(stage: Stage) -> None:
    stage.stop()
    (file,) = (stage.pipeline.state / "journal" / "consumers").glob("delta.json")
    file.write_text(file.read_text()[:20])


@scenario("belongs to another log", "state folder of its own", slow=True)
def state_of_another_pipeline(stage: Stage) -> None:
    stage.stop()
    file = stage.pipeline.state / "journal" / "journal.json"
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "identity": told["identity"] + "_other"}))


@scenario("has format 99", "Upgrade headwater", slow=True)
def state_of_a_newer_version(stage: Stage) -> None:
    stage.stop()
    file = stage.pipeline.state / "journal" / "journal.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 99}))


@scenario("position cannot be read", slow=True)
def sink_position_truncated(stage: Stage) -> None:
    stage.stop()
    (file,) = (stage.lake / "_headwater").glob("*.json")
    file.write_text(file.read_text()[:15])


@scenario()
def sink_down_then_slow(stage: Stage) -> None:
    fault = stage.pipeline.state / "sink_fault.json"
    fault.write_text('{"down": true}')
    wait_until(lambda: not stage.pipeline.report().ready, 30, "the status says that the sink is down")
    before = stage.positions()
    pause(1)
    assert stage.positions() == before
    fault.write_text('{"seconds": 0.3}')
    stage.batches(2)
    fault.unlink()


@scenario(slow=True, cold=True)
def disk_of_the_journal_full(stage: Stage) -> None:
    """The tail leaves the last of the disk to others, says so, and goes on when there is room."""
    stage.mount(stage.pipeline.state, megabytes=300)
    stage.pipeline.start()
    stage.pipeline.wait_ready()
    filler = stage.pipeline.state / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 60 << 20)
    wait_until(lambda: "less than 256 MB free" in str(stage.pipeline.report().reasons), 60, "the disk is full")
    filler.unlink()
    stage.pipeline.wait_ready()


@scenario(slow=True, cold=True)
def clock_jumps(stage: Stage) -> None:
    """An hour forwards and two back, in every Python process of the pipeline."""
    offset = stage.directory / "offset"
    offset.write_text("0")
    (stage.directory / "sitecustomize.py").write_text(
        "import pathlib, time\n"
        f"file, real, real_ns = pathlib.Path({str(offset)!r}), time.time, time.time_ns\n"
        "def jump(): return float(file.read_text() or 0)\n"
        "time.time = lambda: real() + jump()\n"
        "time.time_ns = lambda: real_ns() + int(jump() * 1e9)\n"
    )
    path = os.pathsep.join([str(stage.directory), os.environ.get("PYTHONPATH", "")])
    stage.pipeline.start(PYTHONPATH=path)
    stage.batches(1)
    for seconds in ("3600", "-3600"):
        offset.write_text(seconds)
        stage.batches(2)
    offset.write_text("0")
    stage.pipeline.kill()
