"""Tail and sinks on different machines: two processes that share a journal in S3, and no folder."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import Database
from tests.integration.hosts import Hosts, either_side_dies, fill, wait_for
from tests.lake import assert_lake_equals_source

from headwater.errors import Stop
from headwater.journal import Journal
from headwater.testing import wait_until
from headwater.testing.proxy import TcpProxy
from headwater.testing.s3 import BUCKET, SECRET, S3Server

pytestmark = pytest.mark.server

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def network(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[TcpProxy]:
    """What lies between the store and everybody else."""
    with TcpProxy(s3.port) as proxy:
        for name, value in s3.environment_of_clients.items():
            monkeypatch.setenv(name, value.replace(str(s3.port), str(proxy.port)))
        yield proxy


@pytest.fixture
def hosts(database: Database, network: TcpProxy, tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(database, tmp_path, f"s3://{BUCKET}/shop/{next(_numbers)}")
    yield made
    made.close()


def test_either_side_dies_and_comes_back_and_nothing_is_lost_or_doubled(hosts: Hosts):
    either_side_dies(hosts, SECRET)


def test_a_store_that_is_away_is_waited_for(database: Database, hosts: Hosts, network: TcpProxy):
    database.execute("create table t (id int primary key, body text)")
    run = hosts.host("one")
    run.start()
    run.wait_ready()
    fill(database, 1, 10)
    wait_for(run, 10)

    network.refuse = True
    network.cut()
    fill(database, 11, 20)
    wait_until(lambda: not run.report().ready, 60, "the run says so")
    network.refuse = False

    wait_for(run, 20)
    run.wait_ready()
    assert_lake_equals_source(database, run.lake, ["public.t"])
    assert run.stop() == 0, run.output()[-2000:]


@pytest.mark.spark
@pytest.mark.slow
def test_spark_reads_its_slices_from_the_store(database: Database, hosts: Hosts):
    database.execute("create table t (id int primary key, body text)")
    fill(database, 1, 100)
    tail, run = hosts.host("reader"), hosts.host("writer", spark=True)
    tail.start("--tail-only")
    run.start("--no-tail")
    run.wait_ready()
    fill(database, 101, 3000)
    database.execute("update t set body = null where id < 50; delete from t where id > 2900")
    fill(database, 5000, 5000)
    wait_for(run, 5000)
    assert run.stop() == 0, run.output()[-3000:]
    assert_lake_equals_source(database, run.lake, ["public.t"])
    assert Journal(hosts.definition["journal"]).storage.size() > 0


def test_what_a_person_has_to_mend_is_said(network: TcpProxy, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(Stop, match="could not be listed") as missing:
        Journal("s3://no-such-bucket/shop").consumer_positions()
    assert "Create the bucket" in str(missing.value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-wrong-one")
    with pytest.raises(Stop, match="could not be read") as refused:
        Journal(f"s3://{BUCKET}/closed").about()
    assert "AWS_ACCESS_KEY_ID" in str(refused.value)
    assert "a-wrong-one" not in str(refused.value)
