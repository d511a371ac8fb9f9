"""A real schema registry for tests: Apicurio, through the API that Confluent's clients speak."""

from __future__ import annotations

import os
import tarfile
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from headwater.testing.download import Artifact, cache_folder, fetch, java, put_in_place
from headwater.testing.java import JavaServer

APICURIO = Artifact(
    "io.apicurio", "apicurio-registry-app", "2.6.13.Final", size="142 MB", type="tar.gz", classifier="all"
)


class RegistryServer(JavaServer):
    """One registry that keeps its schemas over a restart. Global compatibility is BACKWARD, as Confluent's own."""

    title = "schema registry"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def prepare(self) -> None:
        self._installed = _unpacked()

    def command(self) -> list[str]:
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(self.port),
            "quarkus.log.level": "WARN",
            "quarkus.datasource.jdbc.url": f"jdbc:h2:file:{self.directory}/registry",
        }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        program = [java(), "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [*program, *options, "-jar", str(next(self._installed.glob("*-runner.jar")))]

    def ready(self) -> bool:
        change = urllib.request.Request(  # noqa: S310 - our own loopback server
            f"{self.url}/config", b'{"compatibility":"BACKWARD"}', {"Content-Type": "application/json"}, method="PUT"
        )
        try:
            with urllib.request.urlopen(change, timeout=2) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def _unpacked() -> Path:
    """The archive's content beside the archive; unpacked at the first call."""
    installed = cache_folder() / "apicurio" / APICURIO.version
    if not installed.is_dir():
        archive = next(fetch(APICURIO).glob("*.tar.gz"))
        installed.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".part-", dir=installed.parent) as part, tarfile.open(archive) as tar:
            tar.extractall(part, filter="data")
            jar = next(Path(part).rglob("*-runner.jar"))
            put_in_place(Path(os.fspath(jar.parent)), installed)
    return installed
