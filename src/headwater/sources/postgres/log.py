"""The log: reads the slot over the replication protocol, tells the server what is durable.

I/O only; `frames.py` makes chunks of what it reads, `slot.py` looks after the slot.
Protocol: "Streaming Replication Protocol" in the PostgreSQL manual.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGresult

from headwater.errors import HeadwaterError, Retry, Stop
from headwater.event import ORIGIN, Chunk, Position, TableSchema
from headwater.sources.base import Log
from headwater.sources.postgres import pgoutput
from headwater.sources.postgres.capture import captured_messages
from headwater.sources.postgres.connection import (
    NOT_UTF8,
    ServerError,
    command,
    connect_replication,
    not_utf8,
    now_microseconds,
    wait_readable,
)
from headwater.sources.postgres.frames import ChunkBuilder, Frame
from headwater.sources.postgres.heartbeat import Heartbeat
from headwater.sources.postgres.message import MESSAGES
from headwater.sources.postgres.options import PostgresOptions
from headwater.sources.postgres.pgoutput import XLOG_HEADER
from headwater.sources.postgres.position import flush_lsn, format_lsn
from headwater.sources.postgres.slot import SlotInUse, create_in_session, pgconn_quote
from headwater.sources.postgres.spill import Spill

# A chunk is closed at this size: 30,000 rows of 130 bytes keep the decoder's fixed cost per chunk (about
# 2 ms) under 0.1 µs a row, and a giant transaction passes through the tail in pieces of this size.
CHUNK_BYTES = 4 << 20
# While changes keep coming, a chunk stays open this long: a saturated walsender then gives 10,000 rows a
# chunk. The first change after silence is handed on at once.
GATHER_SECONDS = 0.05
# An idle log reports its position when it moved this far, or after this long when it moved at all: half a
# WAL segment keeps the slot within two segments; a tick costs every sink one empty batch.
TICK_BYTES = 8 << 20
TICK_SECONDS = 30.0
# With `lsn.flush.mode: connector_and_driver` the slot is to follow the server's announcements.
_AND_DRIVER = "connector_and_driver"
IDLE_TICK_SECONDS = 10.0
# How often an idle reader asks the server where it is.
PING_SECONDS = 1.0
# A server that has not answered this many of our questions is gone, though TCP does not know it: a dead router, a
# frozen machine. As long as PostgreSQL's own wal_receiver_timeout.
SILENCE_SECONDS = 60.0
# It answers every second: from here on, people are told that it does not.
QUIET_SECONDS = 5.0
# How often it is made sure that the log still carries what it should: a connection and a query, of a server that
# answers.
VERIFY_SECONDS = 10.0
# So many keepalives that want an answer, with no news between them, mean that the server waits for us to be done.
# In ordinary times it asks once in half a wal_sender_timeout, and our own status every second spares it that.
SHUTDOWN_QUESTIONS = 20

_KEEPALIVE = struct.Struct("!cQqB")
_STATUS = struct.Struct("!cQQQqB")


class PostgresLog(Log):
    """One START_REPLICATION session."""

    def __init__(
        self,
        options: PostgresOptions,
        after: Position,
        describe: Callable[[pgoutput.Relation], TableSchema | None],
        *,
        confirmed: int = 0,
        temporary: bool = False,
        gap: Chunk | None = None,
        spill: Path | None = None,
        verify: Callable[[], None] = lambda: None,
    ) -> None:
        self._options = options
        self._schemas: dict[str, TableSchema] = {MESSAGES.id: MESSAGES}
        self._describe = describe
        self._builder = ChunkBuilder(after, self._remember, self._streamed, captured_messages(options))
        # With a place for them, transactions that outgrow the server's memory come in blocks, before their end.
        self._spill = Spill(spill) if spill else None
        self._take: Callable[[Frame], None] = self._builder.add
        # The server broke down in the middle of one: the next session does without.
        self.blocks_failed = False
        # What is left of such a transaction that has committed: it goes to the builder before anything else.
        self._committed: Iterator[Frame] | None = None
        # What was left out before `after`; handed on first.
        self._gap = gap
        beat = options.heartbeat_interval_ms / 1000
        self._tick_seconds = beat or (IDLE_TICK_SECONDS if options.lsn_flush_mode == _AND_DRIVER else TICK_SECONDS)
        self._received = flush_lsn(after)
        self._server_end = self._announced = self._received
        # What the slot has confirmed already: a lower word would move it back on some servers.
        self._confirmed = confirmed
        # The last position of ours that we confirmed in this session.
        self.confirmed = ORIGIN
        # Keepalives in a row that wanted an answer, and where the server was.
        self._questions = 0
        self._asked_at = 0
        self._last_status = self._last_ping = self._last_emit = self._last_tick = 0.0
        self._verify = verify
        self._last_verify = time.monotonic()
        # Seconds in which we have waited for the server and heard nothing.
        self._silent = 0.0
        # What the server said when it could not find the publication and went on without it.
        self._skipped = ""
        self._pgconn = connect_replication(options)
        self._pgconn.notice_handler = self._noticed
        try:
            if temporary:
                # A temporary slot belongs to the session that made it: this one.
                create_in_session(self._pgconn, options.slot)
            self._start(flush_lsn(after))
        except BaseException:
            self._pgconn.finish()
            raise

    def read(self, timeout: float) -> Chunk | None:
        if self._gap is not None:
            gap, self._gap = self._gap, None
            return gap
        deadline = time.monotonic() + timeout
        while True:
            full = self._drain()
            if self._skipped:
                raise self._no_publication(self._skipped)
            if full:
                return self._emit()
            now = time.monotonic()
            self._keep_alive(now)
            if now - self._last_verify > VERIFY_SECONDS and self._silent < PING_SECONDS:
                self._verify()
                self._last_verify = time.monotonic()
            wait = deadline - now
            if self._builder.pending:
                ripe = self._last_emit + GATHER_SECONDS
                if now >= ripe:
                    return self._emit()
                wait = min(wait, ripe - now)
            if (tick := self._tick(now)) is not None:
                return tick
            if wait <= 0:
                return None
            began, pause = now, min(wait, PING_SECONDS)
            if wait_readable(self._pgconn, pause):
                self._silent = 0.0
                self._consume()
            else:
                self._silent += min(pause, time.monotonic() - began)
                if self._silent > SILENCE_SECONDS:
                    raise broken(f"the server has not answered for {SILENCE_SECONDS:.0f} s")

    def schema(self, schema: str) -> TableSchema:
        return self._schemas[schema]

    def confirm(self, position: Position) -> None:
        lsn = flush_lsn(position)
        if lsn > self._confirmed:
            self._confirmed, self.confirmed = lsn, position
            self._send_status(reply=False)

    def hold(self) -> None:
        self._send_status_when_due(time.monotonic())

    def close(self) -> None:
        self._heartbeat.close()
        self._pgconn.finish()
        if self._spill is not None:
            self._spill.close()

    def lag(self) -> Mapping[str, Any]:
        return {
            "server_lsn": format_lsn(self._server_end),
            "received_lsn": format_lsn(self._received),
            "confirmed_lsn": format_lsn(self._confirmed),
            "received": self._received,
            "behind_bytes": max(0, self._server_end - self._received),
            "in_transaction": self._builder.in_transaction,
            **({"silent_seconds": int(self._silent)} if self._silent >= QUIET_SECONDS else {}),
            **(self._spill.facts() if self._spill else {}),
        }

    @property
    def spilled(self) -> int:
        return self._spill.size if self._spill else 0

    # -- reading -----------------------------------------------------------------------------------

    def _drain(self) -> bool:
        """Take what libpq has; True when a chunk is full."""
        get, builder = self._pgconn.get_copy_data, self._builder
        while True:
            if self._committed is not None and self._publish(self._committed):
                return True
            try:
                count, data = get(1)
            except psycopg.OperationalError as error:
                raise broken(str(error)) from None
            if count > 0:
                if data[0] == 0x77:  # w
                    self._take(data)
                    if builder.size >= CHUNK_BYTES:
                        return True
                else:
                    self._heard(bytes(data))
            elif count == 0:
                return False
            else:
                raise self._ended()

    def _publish(self, frames: Iterator[Frame]) -> bool:
        """Give the builder what was spilled; True when a chunk is full."""
        builder = self._builder
        for frame in frames:
            builder.add(frame)
            if builder.size >= CHUNK_BYTES:
                return True
        self._committed = None
        return False

    def _streamed(self, tag: int, message: bytes) -> None:
        """A message about a transaction that comes in blocks, outside of one."""
        assert self._spill is not None  # noqa: S101
        match tag:
            case pgoutput.STREAM_START:
                self._spill.begin(pgoutput.parse_stream_start(message))
                self._take = self._in_block
            case pgoutput.STREAM_ABORT:
                self._spill.abort(*pgoutput.parse_stream_abort(message))
            case pgoutput.STREAM_COMMIT:
                self._committed = self._spill.commit(pgoutput.parse_stream_commit(message))

    def _in_block(self, frame: Frame) -> None:
        assert self._spill is not None  # noqa: S101
        if frame[XLOG_HEADER] == pgoutput.STREAM_STOP:
            self._spill.end()
            self._take = self._builder.add
        else:
            self._spill.add(frame)

    def _consume(self) -> None:
        try:
            self._pgconn.consume_input()
        except psycopg.OperationalError as error:
            # The server's last words may lie behind data that was not looked at yet.
            self._drain()
            raise broken(str(error)) from None

    def _heard(self, message: bytes) -> None:
        """A keepalive: the server has sent everything up to its WAL end."""
        _kind, wal_end, _time, reply = _KEEPALIVE.unpack(message)
        self._server_end = max(self._server_end, wal_end)
        if not self._builder.in_transaction:
            self._announced = max(self._announced, wal_end)
            self._note_received()
        if reply:
            self._refuse_to_hold_up_a_shutdown(wal_end)
            self._send_status(reply=False)

    def _refuse_to_hold_up_a_shutdown(self, wal_end: int) -> None:
        """A server that is told to stop asks, again and again, until everything is confirmed. Sinks may be hours
        behind: let go, and come back when it is up again."""
        self._questions = self._questions + 1 if wal_end == self._asked_at else 0
        self._asked_at = wal_end
        if self._questions >= SHUTDOWN_QUESTIONS:
            raise broken("the server asks for nothing but an answer: it is shutting down")

    def _emit(self) -> Chunk | None:
        chunk = self._builder.take()
        self._last_emit = time.monotonic()
        if chunk is not None and chunk.whole:
            self._received = max(self._received, flush_lsn(chunk.last))
            self._server_end = max(self._server_end, self._received)
            self._note_received()
        return chunk

    def _note_received(self) -> None:
        """What a keepalive said holds once everything that came before it has been handed on."""
        if not self._builder.pending and not self._builder.in_transaction:
            self._received = max(self._received, self._announced)

    def _tick(self, now: float) -> Chunk | None:
        """An empty chunk when WAL we do not care about has moved the log on."""
        if self._builder.in_transaction or self._builder.pending:
            return None
        moved = self._received - flush_lsn(self._builder.handed)
        if moved >= TICK_BYTES or (moved > 0 and now - self._last_tick >= self._tick_seconds):
            self._last_tick = now
            return self._builder.tick(self._received)
        return None

    # -- talking back ------------------------------------------------------------------------------

    def _keep_alive(self, now: float) -> None:
        if now - self._last_ping >= PING_SECONDS:
            self._last_ping = now
            self._send_status(reply=True)
        else:
            self._send_status_when_due(now)

    def _send_status_when_due(self, now: float) -> None:
        if now - self._last_status >= self._options.status_interval_ms / 1000:
            self._send_status(reply=False)

    def _send_status(self, *, reply: bool) -> None:
        """Standby status update: written, flushed, applied. Flushed is what the server may forget."""
        written = max(self._received, self._confirmed)
        now = now_microseconds() - pgoutput.POSTGRES_EPOCH
        try:
            self._pgconn.put_copy_data(_STATUS.pack(b"r", written, self._confirmed, self._confirmed, now, reply))
            self._pgconn.flush()
        except psycopg.OperationalError as error:
            raise broken(str(error)) from None
        self._last_status = time.monotonic()

    # -- starting ----------------------------------------------------------------------------------

    def _start(self, lsn: int) -> None:
        publication = pgconn_quote(self._options.publication).replace("'", "''")
        text = (
            f"START_REPLICATION SLOT {pgconn_quote(self._options.slot)} LOGICAL {format_lsn(lsn)}"
            f" (proto_version '2', messages 'true', publication_names '{publication}',"
            f" streaming '{'on' if self._spill else 'off'}')"
        )
        try:
            command(self._pgconn, text.encode())
        except ServerError as error:
            raise self._refused(error) from error
        self._pgconn.nonblocking = 1
        self._heartbeat = Heartbeat(self._options)

    def _refused(self, error: ServerError) -> HeadwaterError:
        match error.sqlstate:
            case "55006":
                pid = next((int(word) for word in error.text.split() if word.isdigit()), None)
                return SlotInUse(self._options.slot, pid)
            case "42704":
                return Stop(
                    f'the slot "{self._options.slot}" does not exist any more',
                    "To load the tables anew: remove the state folder and the tables in the lake, and run again",
                    cause="It was dropped; changes since its last confirmed position cannot be read from it",
                )
            case "55000":
                return Stop(f'the slot "{self._options.slot}" cannot be read: {error.text}')
        return Retry(f'cannot start reading the slot "{self._options.slot}": {error.text}')

    def _ended(self) -> HeadwaterError:
        """The server ended the stream. Its reason decides whether trying again can help."""
        result = self._pgconn.get_result()
        if result is None or result.status != pq.ExecStatus.FATAL_ERROR:
            return broken("the server ended the stream")
        error = ServerError(result)
        # An internal error of the decoder. PostgreSQL up to 18 cannot decode in blocks what follows on DDL that was
        # rolled back to a savepoint, if DDL on the same table followed ("could not map filenumber"); whole, it can.
        self.blocks_failed = self._spill is not None and error.sqlstate == "XX000"
        if error.sqlstate in NOT_UTF8:
            return not_utf8("the log", error.text)
        # Nothing else is looked up by name while a slot is being decoded.
        return self._no_publication(error.text) if error.sqlstate == "42704" else broken(str(error))

    def _no_publication(self, text: str) -> Stop:
        return Stop(
            f'the publication "{self._options.publication}" does not exist at the point the slot has reached',
            "A publication that was dropped and made again does not help a slot that is behind it:"
            " drop the slot, remove the state folder and the tables in the lake, and run again",
            cause=text,
        )

    def _noticed(self, result: PGresult) -> None:
        """PostgreSQL 18 only warns that it goes on without the publication: every change would be left out."""
        warning = ServerError(result)
        if warning.sqlstate == "55000":
            self._skipped = warning.text

    def _remember(self, relation: pgoutput.Relation) -> TableSchema | None:
        schema = self._describe(relation)
        if schema is not None:
            self._schemas[schema.id] = schema
        return schema


def broken(text: str) -> Retry:
    """The connection is gone, for now."""
    return Retry("the replication connection broke", cause=" ".join(text.split()))
