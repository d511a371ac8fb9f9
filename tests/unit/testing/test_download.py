"""Downloads through Ivy, from a repository that is a folder: no network is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import Retry, Usage
from headwater.testing import download
from headwater.testing.binaries import postgres_binaries
from headwater.testing.download import Artifact, cache_folder, fetch, put_in_place

SERVER = Artifact("org.example", "server", "1.2", size="9 bytes", classifier="linux")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An Ivy settings file that knows only this folder, and an empty cache."""
    folder = tmp_path / "repository"
    pattern = f"{folder}/[organisation]/[module]-[revision](-[classifier]).[ext]"
    settings = tmp_path / "settings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="local"/><resolvers><filesystem name="local">'
        f'<artifact pattern="{pattern}"/></filesystem></resolvers></ivysettings>'
    )
    monkeypatch.setenv("HEADWATER_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.mark.spark
def test_an_artefact_is_fetched_once_and_announced(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "org.example").mkdir(parents=True)
    published = repository / "org.example" / "server-1.2-linux.jar"
    published.write_text("a server\n")

    folder = fetch(SERVER)
    published.unlink()

    assert [file.read_text() for file in folder.iterdir()] == ["a server\n"]
    assert fetch(SERVER) == folder
    assert "downloading org.example:server:1.2:linux (9 bytes)" in capsys.readouterr().err


@pytest.mark.spark
def test_a_failed_download_leaves_nothing_that_looks_whole(repository: Path) -> None:
    with pytest.raises(Retry, match="HEADWATER_IVY_SETTINGS"):
        fetch(SERVER)

    assert [file for file in cache_folder().rglob("*") if file.name.startswith(("1.2", ".part"))] == []


def test_the_second_of_two_processes_keeps_the_first_one_s_copy(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        put_in_place(tmp_path / name, tmp_path / "done")

    assert (tmp_path / "done" / "file").read_text() == "first"


def test_without_java_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Usage, match="JAVA_HOME"):
        download.java()


def test_an_unknown_postgres_version_names_those_there_are() -> None:
    with pytest.raises(Usage, match="14, 15, 16, 17, 18"):
        postgres_binaries(9)
