"""The PostgreSQL server that our tests and the demo stand on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg
import pytest

from headwater.errors import Retry, Usage
from headwater.testing import PostgresServer, wait_until
from headwater.testing.postgres import wheel_bindir

pytestmark = pytest.mark.server


def test_the_server_decodes_logically_and_brings_its_extensions(postgres: PostgresServer) -> None:
    assert postgres.execute("show wal_level") == [("logical",)]
    names = postgres.execute("select name from pg_available_extensions where name in ('hstore', 'citext') order by 1")
    assert names == [("citext",), ("hstore",)]


def test_a_database_may_have_a_hostile_name(postgres: PostgresServer) -> None:
    name = 'a "b"; /drop?x=1&y#é%20'
    postgres.create_database(name)

    assert postgres.execute("select current_database()", database=name) == [(name,)]


def test_several_statements_give_the_rows_of_the_last(postgres: PostgresServer) -> None:
    assert postgres.execute("select 1; select 2, 'three'") == [(2, "three")]
    assert postgres.execute("set application_name = 'x'") == []


def test_committed_rows_survive_a_crash_and_the_port_stays(tmp_server: PostgresServer) -> None:
    tmp_server.execute("create table kept (n int); insert into kept values (1)")
    before = tmp_server.port
    children = psutil.Process(tmp_server.pid).children()
    assert children

    tmp_server.kill()

    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
    tmp_server.start()
    assert tmp_server.port == before
    assert tmp_server.execute("select n from kept") == [(1,)]
    assert "not properly shut down" in tmp_server.log_text()


def test_changed_settings_are_read_at_restart(tmp_server: PostgresServer) -> None:
    tmp_server.settings["wal_level"] = "replica"
    tmp_server.restart()

    assert tmp_server.execute("show wal_level") == [("replica",)]


def test_a_wrong_setting_is_reported_with_the_server_s_own_words() -> None:
    with pytest.raises(Retry, match="unrecognized configuration parameter"):
        PostgresServer(settings={"no_such_setting": "1"}).start()


def test_a_folder_without_binaries_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Usage, match="no PostgreSQL server in"):
        PostgresServer(bindir=tmp_path).start()


def test_with_a_password_nobody_enters_without_it() -> None:
    with PostgresServer(password="p w/ä") as server:
        assert server.execute("select 1") == [(1,)]
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(server.url(password="guess"))


def test_binaries_in_a_closed_folder_are_copied(tmp_path: Path) -> None:
    """Root's home is closed to the user that the server runs as, and a virtualenv may lie there."""
    if os.geteuid() != 0:
        pytest.skip("only root must hand the server to another user")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "packages").symlink_to(wheel_bindir().parents[2], target_is_directory=True)

    with PostgresServer(bindir=closed / "packages" / wheel_bindir().relative_to(wheel_bindir().parents[2])) as server:
        assert server.execute("select 1") == [(1,)]
        assert (server.directory / "install").is_dir()


def test_a_killed_python_process_leaves_no_server_and_no_folder_behind() -> None:
    program = (
        "from headwater.testing import PostgresServer\n"
        "import time\n"
        "server = PostgresServer().start()\n"
        "print(server.pid, server.directory, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        pid, folder = owner.stdout.readline().split()
        owner.send_signal(signal.SIGKILL)

    wait_until(lambda: not Path(folder).exists(), 20, f"{folder} is removed")
    wait_until(lambda: not psutil.pid_exists(int(pid)) or zombie(int(pid)), 20, f"postmaster {pid} ends")


def test_a_server_that_is_forgotten_ends_with_python() -> None:
    program = (
        "from headwater.testing import PostgresServer\n"
        "server = PostgresServer().start()\n"
        "print(server.pid, server.directory, flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)

    pid, folder = done.stdout.split()
    assert done.stderr == ""
    assert not Path(folder).exists()
    assert not psutil.pid_exists(int(pid)) or zombie(int(pid))


def zombie(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_server_that_died_by_itself_is_noticed_and_can_be_started_again(tmp_server: PostgresServer) -> None:
    os.kill(tmp_server.pid, signal.SIGKILL)
    wait_until(lambda: not tmp_server.running, 10, "the postmaster's death is seen")

    tmp_server.stop()
    wait_until(lambda: not in_use(tmp_server), 10, "its children are gone")
    tmp_server.start()

    assert tmp_server.execute("select 1") == [(1,)]


def in_use(server: PostgresServer) -> bool:
    """Whether any living process still has the server's data folder as its own."""
    return any(
        process.info["cwd"] == str(server.data) and process.info["status"] != psutil.STATUS_ZOMBIE
        for process in psutil.process_iter(["cwd", "status"])
    )
