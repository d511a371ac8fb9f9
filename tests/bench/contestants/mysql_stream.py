"""The binlog's backlog, read by everybody: thrown away, by python-mysql-replication, by Debezium, by Headwater."""

from __future__ import annotations

import importlib.util
import json
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from headwater.errors import HeadwaterError
from headwater.journal import Journal
from headwater.options import parse_options
from headwater.sources.mysql import MySql
from headwater.sources.mysql.options import MySqlOptions
from headwater.testing.debezium import Debezium, classpath

from ..contestant import Contestant, NotAvailable, Run
from ..headwater import drive, last_error
from ..mysql_workload import DATABASE, MySqlWorkload

# At 20,000 rows/s the whole backlog would take longer than everybody else together.
SLOW_SECONDS = 20
_DUMP = 0x12
# Send what there is, then an end instead of waiting for more.
_NON_BLOCKING = 1
_END = b"\x05\x00\x00"


class BinlogDump(Contestant[MySqlWorkload]):
    """The server's log as it comes, unseen: what the sender can give. Nobody who looks at a row is as fast."""

    workload = MySqlWorkload
    name = "mysql-limit"
    title = "raw binlog dump → nothing"
    group = "mysql"

    def run(self, workload: MySqlWorkload, directory: Path) -> Run:
        file, offset = workload.begin
        buffer = memoryview(bytearray(1 << 20))
        received = 0
        with workload.server.connect() as connection:
            lent: Any = connection
            begun = time.perf_counter()
            connection.query("set @master_binlog_checksum = @@global.binlog_checksum, @mariadb_slave_capability = 4")
            lent._execute_command(_DUMP, struct.pack("<IHI", offset, _NON_BLOCKING, 7001) + file.encode())
            while True:
                count = lent._sock.recv_into(buffer)
                received += count
                last = bytes(buffer[max(0, count - 9) : count])
                if last[:3] == _END and last[4:5] == b"\xfe":
                    break
                if not count:
                    raise NotAvailable(f"the server closed the connection after {received:,} bytes")
            seconds = time.perf_counter() - begun
            lent._force_close()
        return Run(seconds, workload.changes, {"bytes": received})


# In a process of its own, as everybody else; rows are looked at as its users do.
_REPLICATION = """
import json, sys, time
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import UpdateRowsEvent, WriteRowsEvent
order = json.load(sys.stdin)
stream = BinLogStreamReader(
    connection_settings=order["connection"], server_id=7002, log_file=order["file"], log_pos=order["offset"],
    resume_stream=True, blocking=False, only_events=[WriteRowsEvent, UpdateRowsEvent])
begun, rows = time.perf_counter(), 0
for event in stream:
    rows += len(event.rows)
    if time.perf_counter() - begun > order["seconds"]:
        break
print(json.dumps({"seconds": time.perf_counter() - begun, "rows": rows}))
"""


class PythonMysqlReplication(Contestant[MySqlWorkload]):
    """What Python has had for this: every row a dict. It reads for a while, not to the end."""

    workload = MySqlWorkload
    name = "mysql-replication"
    title = "python-mysql-replication"
    group = "mysql"
    most_rounds = 1

    def run(self, workload: MySqlWorkload, directory: Path) -> Run:
        if importlib.util.find_spec("pymysqlreplication") is None:
            raise NotAvailable("the package mysql-replication is not installed")
        connection = {"host": "127.0.0.1", "port": workload.server.port, "user": "root", "passwd": ""}
        place = {"file": workload.begin[0], "offset": workload.begin[1]}
        order = {"connection": connection, **place, "seconds": SLOW_SECONDS}
        log = directory / "replication.log"
        with log.open("w") as errors:
            done = subprocess.run(
                [sys.executable, "-c", _REPLICATION],
                input=json.dumps(order),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                check=False,
            )
        if done.returncode:
            raise NotAvailable(f"python-mysql-replication ended with {done.returncode}: {last_error(log)}")
        measured = json.loads(done.stdout.splitlines()[-1])
        if not measured["rows"]:
            raise NotAvailable("python-mysql-replication read nothing")
        return Run(measured["seconds"], measured["rows"])


class DebeziumBinlog(Contestant[MySqlWorkload]):
    """Debezium's engine and its MariaDB connector. In its favour: the clock starts at its first delivered batch.

    Without a stored offset it begins at the end of the log; so it runs before there is a backlog, until it has one."""

    workload = MySqlWorkload
    name = "mysql-debezium"
    title = "Debezium engine 3.5.0, MariaDB connector, JSON"
    group = "mysql"

    def __init__(self) -> None:
        self._stored: Path | None = None

    def prepare(self, workload: MySqlWorkload) -> None:
        try:
            classpath("mariadb")
        except HeadwaterError as missing:
            raise NotAvailable(missing.what) from missing
        workload.execute(f"create table {DATABASE}.debezium_start (id int primary key)")
        stored = Path(tempfile.mkdtemp(prefix="headwater-bench-offsets-"))
        with self._engine(workload, stored, record=True) as engine:
            ready = "select 1 from information_schema.processlist where command = 'Binlog Dump'"
            engine.wait_condition(lambda: bool(workload.execute(ready)), 90, "its first connection to the log")
            workload.execute(f"insert into {DATABASE}.debezium_start values (1)")
            engine.wait_until(lambda event: event.topic.endswith(".debezium_start"))
        self._stored = stored

    def run(self, workload: MySqlWorkload, directory: Path) -> Run:
        assert self._stored is not None
        shutil.copytree(self._stored, directory, dirs_exist_ok=True)
        with self._engine(workload, directory, record=False) as engine:
            started = engine.wait_for(1, timeout=90)
            done = engine.wait_for(workload.changes, timeout=900)
        return Run(done.at - started.at, done.events - started.events, {"delivered": engine.delivered})

    def _engine(self, workload: MySqlWorkload, directory: Path, *, record: bool) -> Debezium:
        properties = {
            "table.include.list": rf"{DATABASE}\.(orders|debezium_start)",
            "snapshot.mode": "no_data",
            "converter.schemas.enable": "false",
            "include.schema.changes": "false",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": str(directory / "offsets"),
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(directory / "history"),
        }
        url = workload.url.replace("mysql://", "mariadb://")
        return Debezium(url, properties, directory, record=record, heap="2g")


class MySqlStreamToNoop(Contestant[MySqlWorkload]):
    """`spark.readStream.format("headwater")`: typed rows of the table, from where the backlog begins.

    Its clock is that of the others: from the first delivered batch to the last. The query as a whole is beside it."""

    workload = MySqlWorkload
    name = "mysql-stream-noop"
    title = "Headwater, MariaDB → noop, typed columns"
    group = "mysql"

    def prepare(self, workload: MySqlWorkload) -> None:
        self._begin = self._source(workload).prepare(None)

    def run(self, workload: MySqlWorkload, directory: Path) -> Run:
        state = directory / "state"
        source = self._source(workload)
        # As if it had been here before the backlog, and down since.
        journal = Journal(state / "journal")
        journal.create(source.type, source.identity(), source.facts())
        journal.set_consumer("bench", self._begin)
        options = {
            "url": workload.url,
            "name": "bench",
            "table": f"{DATABASE}.orders",
            "snapshot": "no_data",
            "state": str(state),
        }
        order = {"do": "stream", "options": options, "checkpoint": str(directory / "checkpoint")}
        measured = drive(order, directory)
        if measured["rows"] < workload.changes:
            raise NotAvailable(f"only {measured['rows']:,} of {workload.changes:,} changes arrived")
        return Run(measured["delivered_seconds"], measured["delivered_rows"], measured)

    @staticmethod
    def _source(workload: MySqlWorkload) -> MySql:
        given = {"url": workload.url, "tables": [f"{DATABASE}.orders"]}
        return MySql(parse_options(MySqlOptions, given, where="bench", name="bench"))
