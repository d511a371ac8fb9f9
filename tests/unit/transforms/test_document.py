"""The documentation says what the code declares."""

from __future__ import annotations

from pathlib import Path

from headwater.transforms.document import tables

DOCUMENT = Path(__file__).parents[3] / "docs" / "transforms.md"


def test_the_tables_of_the_document_are_those_of_the_code() -> None:
    assert tables().strip() in DOCUMENT.read_text(encoding="utf-8")
