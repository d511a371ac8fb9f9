"""Where compiled kernels are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater import compiled


def test_kernels_are_kept_only_in_a_folder_that_nobody_else_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = compiled._own_folder()
    assert Path(folder).stat().st_mode & 0o777 == 0o700
    assert compiled._own_folder() == folder
    Path(folder).chmod(0o777)
    assert compiled._own_folder() is None
    Path(folder).rmdir()
    (tmp_path / "elsewhere").mkdir()
    Path(folder).symlink_to(tmp_path / "elsewhere")
    assert compiled._own_folder() is None
