"""Status, health endpoint, metrics, alarms and doctor of a running pipeline: they tell what is true."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import yaml

from headwater.cli import main
from headwater.journal.locks import lock_held
from headwater.testing import wait_until
from headwater.testing.pipeline import PipelineProcess

pytestmark = [pytest.mark.server]


@pytest.fixture
def pipeline(database, tmp_path) -> Iterator[PipelineProcess]:
    source = {"type": "postgres", "url": database.url, "tables": ["public.*"], "slot": database.slot}
    process = PipelineProcess(tmp_path, {"source": source}, spark=False)
    yield process
    process.close()


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_status_health_and_metrics_tell_what_flows_and_what_does_not(database, pipeline, capsys):
    database.execute("create table public.orders (id int primary key, v text)")
    database.execute("insert into public.orders select g, 'x' from generate_series(1, 500) g")
    assert main(["status", str(pipeline.file)]) == 1
    assert "does not run" in capsys.readouterr().out

    pipeline.start()
    report = pipeline.wait_ready()
    assert report.ready, pipeline.output()
    database.execute("update public.orders set v = 'y' where id <= 100")
    wait_until(lambda: pipeline.report().sinks[0].changes == 100, 60, "the update is counted")
    wait_until(lambda: pipeline.report().source.retained_bytes is not None, 60, "retention is known")
    assert main(["status", str(pipeline.file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (sink,) = told["sinks"]
    assert sink["behind_bytes"] == sink["behind_changes"] == 0
    assert sink["tables"][0] | {"behind_seconds": 0} == {
        "table": "public.orders",
        "changes": 100,
        "loaded_rows": 500,
        "behind_changes": 0,
        "behind_seconds": 0,
        "stopped": "",
    }
    wait_until(lambda: pipeline.report().source.confirmed == pipeline.report().sinks[0].durable, 30, "confirmed")

    assert told["endpoint"].startswith("http://127.0.0.1:")
    assert get(told["endpoint"] + "/ready") == (200, '{"ready": true, "reasons": []}\n')
    assert get(told["endpoint"] + "/health")[0] == 200
    status, metrics = get(told["endpoint"] + "/metrics")
    assert status == 200
    assert 'headwater_table_changes_total{pipeline="shop",sink="delta",table="public.orders"} 100\n' in metrics
    assert 'headwater_ready{pipeline="shop"} 1\n' in metrics
    assert "headwater_source_retained_bytes{" in metrics
    assert get(told["endpoint"] + "/")[0] == 404

    # A sink that is down: behind by what was committed, alive, not ready.
    (pipeline.state / "sink_fault.json").write_text('{"down": true}')
    database.execute("update public.orders set v = 'z' where id <= 7")
    wait_until(lambda: get(told["endpoint"] + "/ready")[0] == 503, 60, "not ready")
    assert get(told["endpoint"] + "/health")[0] == 200
    down = pipeline.report()
    assert "the sink is down" in down.reasons[0]
    assert down.sinks[0].behind_changes == 7
    assert down.sinks[0].behind_bytes > 0
    assert down.sinks[0].errors > 0
    assert main(["doctor", str(pipeline.file), "--json"]) == 2
    assert "the sink is down" in capsys.readouterr().out
    (pipeline.state / "sink_fault.json").unlink()
    assert pipeline.wait_ready().sinks[0].behind_changes == 0

    assert main(["doctor", str(pipeline.file), "--json"]) == 0
    found = {each["subject"]: each for each in json.loads(capsys.readouterr().out)["findings"]}
    assert {"server", "journal", "sink delta", "spark", "java", "pipeline"} <= found.keys()
    assert "read by PID" in found[f'slot "{database.slot}"']["text"]
    pipeline.stop()
    assert not lock_held(pipeline.state / "run.lock")
    assert pipeline.report().reasons == ("the pipeline does not run",)


def test_a_run_that_stopped_says_why_long_after(database, pipeline, capsys):
    database.execute("create table public.orders (id int primary key)")
    pipeline.start()
    pipeline.wait_ready()
    pipeline.stop()
    database.execute("select pg_drop_replication_slot(%s)", database.slot)
    assert pipeline.available_now() == 3

    assert main(["status", str(pipeline.file)]) == 1
    assert "is gone" in capsys.readouterr().out
    assert main(["doctor", str(pipeline.file)]) == 2
    assert "is gone" in capsys.readouterr().out


def test_an_alarm_is_sent_when_it_begins_and_when_it_is_over(database, pipeline):
    heard: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    alarms = {"webhook": f"http://127.0.0.1:{server.server_address[1]}/t0ken", "behind_bytes": 1}
    pipeline.file.write_text(yaml.safe_dump({**yaml.safe_load(pipeline.file.read_text()), "alarms": alarms}))
    database.execute("create table public.orders (id int primary key)")
    try:
        pipeline.start()
        pipeline.wait_ready()
        (pipeline.state / "sink_fault.json").write_text('{"down": true}')
        database.execute("insert into public.orders values (1)")
        named = "sink_behind_bytes:delta"
        wait_until(lambda: ("raised", named) in [(each["state"], each["name"]) for each in heard], 60, "raised")
        (pipeline.state / "sink_fault.json").unlink()
        wait_until(lambda: ("over", named) in [(each["state"], each["name"]) for each in heard], 60, "over")
        pipeline.stop()
    finally:
        server.shutdown()
        server.server_close()
    assert f"alarm raised: {named}" in pipeline.output()
    assert "t0ken" not in pipeline.output()
