"""The wheel that users install holds everything a checkout has."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

# In one process: one wheel is built.
pytestmark = pytest.mark.xdist_group("wheel")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The file names of a freshly built wheel."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("headwater-*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_holds_both_packages_and_all_their_files(contents: set[str]) -> None:
    files = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and path.suffix in {".py", ".md", ".typed", ".yaml", ".html", ".css", ".js", ".svg", ".sql"}
    }
    assert {"pyspark_headwater/__init__.py", "headwater/py.typed"} <= files

    assert files <= contents


def test_the_wheel_carries_its_licence_and_its_command(contents: set[str]) -> None:
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in contents)
    assert any(name.endswith("dist-info/entry_points.txt") for name in contents)
