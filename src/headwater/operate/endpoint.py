"""The health endpoint: /health, /ready and /metrics over HTTP, beside a run, on loopback unless told otherwise.

It reads the same files as `headwater status`, so the two never disagree. Read-only, and nothing secret in it.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from headwater.errors import Usage
from headwater.operate.metrics import prometheus_text
from headwater.operate.status import Observer, Report
from headwater.pipeline.definition import Definition


class Endpoint:
    """One HTTP server on a thread of its own."""

    def __init__(self, definition: Definition) -> None:
        observer, looking = Observer(definition), threading.Lock()

        def report() -> Report:
            with looking:
                return observer.report()

        class Handler(_Handler):
            """Bound to this pipeline."""

            look = staticmethod(report)

        host, port = definition.health.host, definition.health.port
        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise Usage(
                f"health: cannot listen on {host}:{port}: {error.strerror}",
                "Choose another health.port, or 0 for any that is free",
            ) from error
        self._server.daemon_threads = True
        self.url = f"http://{host}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Three paths."""

    look: Any

    def do_GET(self) -> None:
        report: Report = self.look()
        match self.path.partition("?")[0]:
            case "/health":
                # For restarting what hangs: a sink that is away is no reason to.
                state = "failing" if not report.alive else "ok" if report.ready else "degraded"
                self._answer(200 if report.alive else 503, {"status": state, "reasons": report.reasons})
            case "/ready":
                self._answer(200 if report.ready else 503, {"ready": report.ready, "reasons": report.reasons})
            case "/metrics":
                self._send(200, prometheus_text(report), "text/plain; version=0.0.4; charset=utf-8")
            case "/status":
                self._answer(200, report.to_json())
            case _:
                self._answer(404, {"paths": ["/health", "/ready", "/metrics", "/status"]})

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        self._send(status, json.dumps(content) + "\n", "application/json")

    def _send(self, status: int, text: str, kind: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """A probe every few seconds is not worth a line."""
