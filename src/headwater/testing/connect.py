"""Real Kafka Connect with Debezium in it, for benchmarks: one standalone worker, jars fetched at first use."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping

from headwater.testing.debezium import jars
from headwater.testing.download import Artifact, fetch, java
from headwater.testing.java import JavaServer

RUNTIME = Artifact("org.apache.kafka", "connect-runtime", "4.3.0", size="40 MB", transitive=True)
JSON = Artifact("org.apache.kafka", "connect-json", "4.3.0", size="10 MB", transitive=True)


class ConnectWorker(JavaServer):
    """One connector, as `connector` configures it, into the broker at `bootstrap`. JSON without schemas."""

    title = "Kafka Connect"

    def __init__(self, bootstrap: str, connector: Mapping[str, str]) -> None:
        super().__init__()
        self._bootstrap = bootstrap
        self._connector = dict(connector)

    def prepare(self) -> None:
        self._classes = [fetch(artifact) for artifact in (RUNTIME, JSON)]

    def command(self) -> list[str]:
        converter = "org.apache.kafka.connect.json.JsonConverter"
        worker = {
            "bootstrap.servers": self._bootstrap,
            "listeners": f"HTTP://127.0.0.1:{self.port}",
            "key.converter": converter,
            "value.converter": converter,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.storage.file.filename": str(self.directory / "offsets"),
            "offset.flush.interval.ms": "5000",
            "plugin.path": str(jars().parent),
        }
        topics = {
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.partitions": "1",
            "tasks.max": "1",
        }
        files = []
        for name, content in (("worker", worker), ("connector", {**topics, **self._connector})):
            path = self.directory / f"{name}.properties"
            path.write_text("".join(f"{key}={value}\n" for key, value in content.items()))
            files.append(str(path))
        found = ":".join(f"{folder}/*" for folder in self._classes)
        return [java(), "-Xmx2g", "-cp", found, "org.apache.kafka.connect.cli.ConnectStandalone", *files]

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
