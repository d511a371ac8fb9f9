"""Public tools for testing pipelines: real servers, waiting on conditions, failpoints.

`PostgresServer` starts a throw-away PostgreSQL; `wait_until` waits on a condition instead of a clock.
Failpoints live in `headwater.failpoints`, below everything, because production code contains them:
`HEADWATER_FAILPOINTS="journal.before_fsync=kill@3"` ends a process at the third hit of that line.
"""

from headwater.testing.postgres import PostgresServer
from headwater.testing.waiting import wait_until

__all__ = ["PostgresServer", "wait_until"]
