"""The confirm protocol under every crash: the database forgets nothing that somebody still needs.

A state machine over the real journal, the real tail and the real decision at a start, with a database that is a
list and sinks that are lists. Steps come in any order: commits, reading, delivering, and the death of the tail at
any of its failpoints, of a sink between its data and its consumer file, of the machine with what was not synced,
of the database with what its slot had not saved. After every step:

- what the slot has confirmed is held by every sink (or, with escrow, by the journal on disk);
- every sink has a prefix of what was committed: nothing skipped, nothing twice.

In the end everything starts once more, and every sink has everything.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from obstore.store import MemoryStore

from headwater import failpoints
from headwater.errors import HeadwaterError, Retry
from headwater.event import Chunk, Position, TableRun, TableSchema
from headwater.journal import Journal, JournalReader, Limits, file_writer, files, object_writer, objects, sealing
from headwater.journal.file_writer import FileWriter
from headwater.journal.folder import FolderStorage
from headwater.journal.objects import ObjectStorage
from headwater.sources.base import Confirm, Log
from headwater.sources.postgres.agreement import beginning, skips
from headwater.sources.postgres.options import PostgresOptions
from headwater.sources.postgres.position import at_lsn, flush_lsn
from headwater.tail import loop
from headwater.tail.loop import Tail

CRASHES = [
    "journal.after_append",
    "journal.before_fsync",
    "journal.after_fsync",
    "tail.before_confirm",
    "tail.after_confirm",
]
# Thousands of small files; where there is no such place, the disk does.
MEMORY = Path("/dev/shm")  # noqa: S108
SINKS = ("one", "two")
# In `make test`; more the longer `make faults` is to last.
INTERLEAVINGS = 1000 + 10 * int(os.environ.get("HEADWATER_FAULT_SECONDS", "0"))

pytestmark = [pytest.mark.fault, pytest.mark.timeout(0)]


class Crash(BaseException):
    """A process died here; nothing may catch it."""


class Armed:
    """A failpoint that kills at its n-th hit."""

    def __init__(self, hit: int) -> None:
        self.left = hit

    def reached(self, _name: str) -> None:
        self.left -= 1
        if not self.left:
            raise Crash


class Database:
    """A log and a slot. Transactions have one change or three, and those come in three pieces."""

    def __init__(self) -> None:
        self.transactions: list[tuple[int, int]] = []
        self.end = 100
        self.confirmed = 100
        # What the slot's file has; a crash goes back to it.
        self.saved = 100
        self.broken = False

    def commit(self, changes: int) -> None:
        self.transactions.append((self.end + 10, changes))
        self.end += 20

    def changes(self) -> list[tuple[int, int]]:
        return [(commit, n) for commit, count in self.transactions for n in range(1, count + 1)]


class DatabaseLog(Log):
    """Like a walsender: starts at the slot when that is further, without a word, and then sends what follows."""

    def __init__(self, database: Database, after: Position) -> None:
        self.database = database
        database.broken = False
        start = max(flush_lsn(after), database.confirmed)
        self.handed = after
        self.todo = [piece for t in database.transactions if t[0] >= start for piece in self._pieces(*t)]

    def _pieces(self, commit: int, count: int) -> list[tuple[int, int, bool]]:
        return [(commit, n, n == count) for n in range(1, count + 1)]

    def read(self, timeout: float) -> Chunk | None:
        if self.database.broken:
            raise Retry("the connection broke")
        if not self.todo:
            if flush_lsn(self.handed) < self.database.end:
                return self._hand(Position(self.database.end, 0, at_lsn(self.database.end).resume), 0, whole=True)
            return None
        commit, n, whole = self.todo.pop(0)
        if self.handed.commit == commit and self.handed.ordinal >= n:
            # The start lay inside this transaction, and it comes again from its first change.
            self.handed = Position(commit)
        return self._hand(Position(commit, n, at_lsn(commit + 10).resume if whole else ""), 1, whole=whole)

    def _hand(self, last: Position, changes: int, *, whole: bool) -> Chunk:
        first, self.handed = self.handed, last
        lengths = np.ones(changes, np.uint32)
        tables = (TableRun(1, "public.t", "t", 1),) if changes else ()
        return Chunk(b"x" * changes, lengths, first, last, whole, tables)

    def schema(self, schema: str) -> TableSchema:
        return TABLE

    def confirm(self, position: Position) -> None:
        self.database.confirmed = max(self.database.confirmed, flush_lsn(position))

    def close(self) -> None:
        pass

    def lag(self) -> Mapping[str, Any]:
        return {}


TABLE = TableSchema("public", "t", ())


class DatabaseSource:
    """The database as a source. What is decided at a start is decided by the real one."""

    def __init__(self, database: Database, confirms: Confirm) -> None:
        self.database = database
        self.confirms = confirms
        self.options = PostgresOptions()

    def prepare(self, durable: Position, journaled: Position) -> Position:
        return beginning(self.options, self.database.confirmed, max(durable, journaled))

    def log(self, after: Position) -> Log:
        assert not skips(self.options, self.database.confirmed, after)
        return DatabaseLog(self.database, after)


class Protocol(RuleBasedStateMachine):
    """See above."""

    confirms: ClassVar[Confirm] = Confirm.DURABLE
    limits = Limits(1 << 30)

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        # Bytes of each file that would survive a power cut.
        self.on_disk: dict[str, int] = {}
        self.undo: list[tuple[Any, str, Any]] = []
        self._replace(file_writer.os, "fdatasync", self._sync)
        self._replace(files.os, "fsync", lambda _descriptor: None)
        # A few blocks a segment, and every turn keeps house and syncs now and then.
        self._replace(file_writer, "SEGMENT_BYTES", 1500)
        self._replace(FileWriter, "sync_seconds", 0.0)
        self._replace(FolderStorage, "pace", 0.0)
        self._replace(loop, "READ_SECONDS", 0.0)
        self._replace(loop, "FIRST_BACKOFF_SECONDS", 0.0)
        # What the tail says of itself decides nothing.
        self._replace(Journal, "set_status", lambda _journal, _status: None)
        self.database = Database()
        self.journal = self._journal()
        self.journal.create("postgres", "it", {})
        self.held = {name: at_lsn(100) for name in SINKS}
        self.got: dict[str, list[tuple[int, int]]] = {name: [] for name in SINKS}
        self.index: dict[str, JournalReader] = {}
        self.tail: Tail | None = None
        self.turns = 0

    def _journal(self) -> Journal:
        return Journal(self.folder / "journal")

    def _replace(self, where: Any, name: str, value: Any) -> None:
        self.undo.append((where, name, getattr(where, name)))
        setattr(where, name, value)

    def _sync(self, descriptor: int) -> None:
        self.on_disk[os.readlink(f"/proc/self/fd/{descriptor}")] = os.fstat(descriptor).st_size

    def _sync_now(self, syncs: bool) -> None:
        FileWriter.sync_seconds = 0.0 if syncs else 3600.0

    # -- the world -------------------------------------------------------------------------------------------

    @rule(changes=st.sampled_from([1, 3]))
    def commit(self, changes: int) -> None:
        self.database.commit(changes)

    @rule()
    def somebody_elses_log(self) -> None:
        self.database.end += 7

    @rule()
    def the_slot_is_saved(self) -> None:
        self.database.saved = self.database.confirmed

    # -- the pipeline ----------------------------------------------------------------------------------------

    @rule(turns=st.integers(3, 20), syncs=st.booleans())
    def read(self, turns: int, syncs: bool) -> None:
        """The tail starts if it does not run, and goes some turns; every run of these is a new connection."""
        self._sync_now(syncs)
        self._guarded(lambda: self._read(turns))

    @rule(sink=st.sampled_from(SINKS), blocks=st.integers(1, 3), told=st.sampled_from([True, True, False]))
    def deliver(self, sink: str, blocks: int, told: bool) -> None:
        """A sink takes some blocks, and the journal hears of it, unless the driver dies in between."""
        index = self.index.setdefault(sink, JournalReader(self.journal))
        index.refresh()
        if index.end <= self.held[sink]:
            return
        found = index.between(self.held[sink], index.end)[:blocks]
        upto = found[-1].header.last if len(found) == blocks else index.end
        for block in found:
            at = (block.header.last.commit, block.header.last.ordinal)
            if Position(*at) > self.held[sink]:
                self.got[sink].append(at)
        self.held[sink] = upto
        if told:
            self.journal.set_consumer(sink, upto)
        else:
            self.driver_dies()

    # -- deaths ----------------------------------------------------------------------------------------------

    @rule(at=st.sampled_from(CRASHES), hit=st.integers(1, 3), turns=st.integers(1, 8))
    def tail_dies(self, at: str, hit: int, turns: int) -> None:
        failpoints._active[at] = Armed(hit)  # type: ignore[assignment]
        try:
            self._guarded(lambda: self._read(turns))
        finally:
            failpoints._active.clear()

    @rule()
    def driver_dies(self) -> None:
        """And the tail with it, after its turn."""
        if self.tail is not None:
            with suppress(Retry):
                self.tail.close()
        self._gone()

    @rule(torn=st.integers(0, 300))
    def machine_dies(self, torn: int) -> None:
        """What was not synced is lost, up to some bytes that made it."""
        if self.tail is not None:
            self._drop(self.tail)
        self._gone()
        self._tear(torn)

    def _tear(self, torn: int) -> None:
        for path in self.journal.storage.segments.glob("*"):
            size = min(path.stat().st_size, self.on_disk.get(str(path), 0) + torn)
            os.truncate(path, size)

    @rule()
    def database_dies(self) -> None:
        """Its slot goes back to what was saved."""
        self.database.confirmed = self.database.saved
        self.database.broken = True

    # -- what holds ------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_forgotten_that_somebody_needs(self) -> None:
        if not hasattr(self, "database"):
            return
        confirmed = self.database.confirmed
        needed = [c for c in self.database.changes() if c[0] < confirmed]
        for name in SINKS:
            if self.confirms is Confirm.DURABLE:
                assert confirmed <= flush_lsn(self.held[name])
            if self.confirms is not Confirm.JOURNALED:
                assert self.got[name][: len(needed)] == needed

    @invariant()
    def every_sink_has_a_prefix(self) -> None:
        for got in getattr(self, "got", {}).values():
            assert got == self.database.changes()[: len(got)]

    def teardown(self) -> None:
        if not hasattr(self, "undo"):
            return
        try:
            self.driver_dies()
            # Once to read everything, once to hear of what was delivered.
            self._sync_now(True)
            for turns in (9 + 3 * len(self.database.changes()), 6):
                self._read(turns)
                for name in SINKS:
                    self.deliver(name, 1000, True)
            for name in SINKS:
                assert self.got[name] == self.database.changes()
            self.nothing_is_forgotten_that_somebody_needs()
        finally:
            if self.tail is not None:
                self._drop(self.tail)
            for where, name, value in self.undo:
                setattr(where, name, value)
            shutil.rmtree(self.folder)

    # -- how -------------------------------------------------------------------------------------------------

    def _read(self, turns: int) -> None:
        self.turns = turns
        if self.tail is None:
            self._start()
        assert self.tail is not None
        self.tail.run()

    def _start(self) -> None:
        """As `headwater run` does it: what the sinks hold, what the journal adds, then the tail."""
        durable = min(self.held.values())
        index = JournalReader(self.journal)
        index.refresh()
        source = DatabaseSource(self.database, self.confirms)
        begin = source.prepare(durable, index.reach(durable))
        for name in SINKS:
            self.journal.set_consumer(name, self.held[name])
        self.tail = Tail(source, self.journal, begin, self.limits, self._alive)  # type: ignore[arg-type]

    def _alive(self) -> bool:
        self.turns -= 1
        return self.turns >= 0

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Crash:
            if self.tail is not None:
                self._drop(self.tail)
            self._gone()

    def _drop(self, tail: Tail) -> None:
        """As the kernel does with a dead process: its files close, nothing is synced."""
        if tail.writer._file is not None:
            tail.writer._file.close()
        tail.writer._lock.close()

    def _gone(self) -> None:
        self.tail = None
        self.index.clear()


class Unreliable(ObjectStorage):
    """A store that loses a request, or its answer, when told so."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(), "memory")
        self.lose: str | None = None

    def create(self, number: int, data: bytes) -> None:
        lost, self.lose = self.lose, None
        if lost == "request":
            raise Retry("the store is away")
        super().create(number, data)
        if lost == "answer":
            raise Retry("the store does not answer")


class AtOnce:
    """An executor without threads: chance is Hypothesis's alone."""

    def __init__(self, *_arguments: Any) -> None:
        pass

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments))
        except HeadwaterError as error:
            done.set_exception(error)
        return done

    def shutdown(self) -> None:
        pass


class ProtocolInObjects(Protocol):
    """The same with the journal in an object store, which takes a segment or does not, and may lose the answer."""

    def _journal(self) -> Journal:
        self._replace(sealing, "ThreadPoolExecutor", AtOnce)
        self._replace(object_writer, "ThreadPoolExecutor", AtOnce)
        self._replace(objects, "POLL_SECONDS", 0.0)
        self._replace(objects, "LIST_SECONDS", 0.0)
        self._replace(ObjectStorage, "pace", 0.0)
        self.store = Unreliable()
        return Journal(self.store)

    def _sync_now(self, syncs: bool) -> None:
        self.limits = Limits(1 << 30, seal_seconds=0.0 if syncs else 3600.0, seal_bytes=700)
        if self.tail is not None:
            self.tail.writer.limits = self.limits

    @rule(what=st.sampled_from(["request", "answer"]))
    def the_store_fails(self, what: str) -> None:
        if self.tail is not None:
            self.store.lose = what

    def _drop(self, tail: Tail) -> None:
        """Nothing holds the journal but what it says."""

    def _tear(self, torn: int) -> None:
        """The store has what it has."""

    def _gone(self) -> None:
        super()._gone()
        # Whoever opens it tries until the store is there.
        self.store.lose = None


@pytest.mark.parametrize("confirms", [Confirm.DURABLE, Confirm.IDLE, Confirm.JOURNALED])
@pytest.mark.parametrize(("protocol", "share"), [(Protocol, 1.0), (ProtocolInObjects, 0.15)])
def test_no_interleaving_loses_anything(protocol: type[Protocol], share: float, confirms: Confirm):
    machine = type(f"{protocol.__name__}_{confirms}", (protocol,), {"confirms": confirms})
    case = machine.TestCase
    case.settings = settings(
        max_examples=int(share * INTERLEAVINGS) // 3 + 1,
        stateful_step_count=14,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    case("runTest").runTest()


def test_a_transaction_that_every_sink_has_a_part_of_comes_again_when_the_journal_is_lost():
    """One walk that chance seldom takes: the slot must not be moved behind a commit that is held in part."""
    walk = Protocol()
    walk.begin()
    walk.commit(3)
    walk.read(20, syncs=False)
    walk.deliver("one", 1, True)
    walk.deliver("two", 2, True)
    walk.read(6, syncs=False)
    walk.nothing_is_forgotten_that_somebody_needs()
    walk.machine_dies(0)
    walk.teardown()
