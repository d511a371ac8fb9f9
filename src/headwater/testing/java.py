"""A server that runs on Java, from jars in our cache."""

from __future__ import annotations

from headwater.testing.server import Server


class JavaServer(Server):
    """As itself, because root's cache is closed to others; slow to start."""

    # A broker needs 7 s on a quiet machine; a loaded one may need several times that.
    start_seconds = 120.0
    drops_root = False
