"""`headwater run --tail-only`: what is wrong is said before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.cli import main

FILE = """
name: shop
source: {type: postgres, url: postgresql://cdc@127.0.0.1:1/shop}
sinks: [{type: delta, path: lake}]
"""


@pytest.mark.parametrize(
    ("journal", "flags", "told"),
    [
        ("", ["--tail-only"], "a journal that another machine can read"),
        ("journal: s3://bucket/prefix", ["--tail-only", "--available-now"], "nothing to deliver"),
        ("journal: ftp://there", ["--no-tail"], "cannot lie at ftp://"),
    ],
)
def test_what_cannot_be_is_told(tmp_path: Path, capsys, journal: str, flags: list[str], told: str):
    file = tmp_path / "shop.yaml"
    file.write_text(FILE + journal)
    assert main(["run", str(file), *flags]) == 2
    assert told in capsys.readouterr().err
