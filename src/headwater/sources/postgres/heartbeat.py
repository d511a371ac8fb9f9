"""Heartbeats: a statement that is run at the source now and then, so that a quiet database's log moves on.

In a thread of its own: a statement that waits for a lock must not keep the log from being read. What goes wrong
with it is told and nothing more; the log does not depend on it.
"""

from __future__ import annotations

import logging
import threading

import psycopg

from headwater.errors import HeadwaterError
from headwater.sources.postgres.connection import connect
from headwater.sources.postgres.options import PostgresOptions

LOG = logging.getLogger("headwater.postgres")


class Heartbeat:
    """Runs `heartbeat.action.query` every `heartbeat.interval.ms`, if both are given, until closed."""

    def __init__(self, options: PostgresOptions) -> None:
        self._options = options
        self._closed = threading.Event()
        if options.heartbeat_action_query and options.heartbeat_interval_ms:
            threading.Thread(target=self._run, name="heartbeat", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(self._options.heartbeat_interval_ms / 1000):
            try:
                self._beat()
            except (psycopg.Error, HeadwaterError) as error:
                LOG.warning("heartbeat.action.query failed: %s", " ".join(str(error).split()))

    def _beat(self) -> None:
        with connect(self._options) as connection:
            # The statement is the user's: names are found as the role finds them, and it may not wait for ever.
            connection.execute("reset search_path")
            connection.execute("select set_config('statement_timeout', '10s', false)")
            connection.execute(self._options.heartbeat_action_query)
