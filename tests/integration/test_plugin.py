"""A new sink is one new file: dropped into a package of its own, found by its entry point, and run.

Nothing of the project is changed or patched: a folder with a module and its dist-info on sys.path is all.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.sinks.lake_of_orders import ORDERS, Changes

from headwater.errors import Usage
from headwater.options import declared
from headwater.pipeline.definition import build_definition
from headwater.registry import known, sink_class, source_class, source_for_url
from headwater.sinks.base import Sink

SINK = '''
"""Changes as lines of a file."""

import json
import pathlib
import time
from dataclasses import dataclass

from headwater.event import Position
from headwater.options import option
from headwater.sinks.base import Sink, SinkOptions, Written


@dataclass(frozen=True)
class LinesOptions(SinkOptions):
    path: str = option(help="the file")


class Lines(Sink):
    type = "lines"
    options_class = LinesOptions

    def __init__(self, options, *, pipeline):
        self.path = pathlib.Path(options.path)

    def position(self):
        return self.table_position(None)

    def table_position(self, table):
        if not self.path.exists():
            return None
        return Position.from_json(self.path.read_text().splitlines()[-1])

    def write(self, table, batches, upto):
        position = self.position()
        left = [batch.between(position, None) for batch in batches]
        lines = [json.dumps(row) for batch in left for row in batch.after.to_pylist()]
        before = self.path.read_text().splitlines()[:-1] if position else []
        self.path.write_text("\\n".join([*before, *lines, upto.to_json()]))
        return Written(table.table, len(lines), time.monotonic())

    def load_part(self, table, rows):
        return ""

    def load(self, table, receipts, upto):
        pass

    def advance(self, upto):
        pass
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A distribution with one sink in it."""
    (tmp_path / "our_lines_sink.py").write_text(SINK)
    info = tmp_path / "our_lines-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: our-lines\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[headwater.sinks]\nlines = our_lines_sink:Lines\n"
        "absent = our_lines_sink:NotThere\nwrong = our_lines_sink:LinesOptions\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("our_lines_sink", None)


def test_a_sink_in_a_package_of_its_own_is_found_configured_and_run(package: Path, tmp_path: Path):
    assert "lines" in known("sinks")
    definition = build_definition(
        {
            "name": "shop",
            "source": {"type": "postgres", "url": "postgresql://u@h/d"},
            "sinks": [{"type": "lines", "path": str(tmp_path / "out")}],
        }
    )
    sink = definition.sinks["lines"]
    assert isinstance(sink, Sink)
    assert [each.name for each in declared(sink.options_class)] == ["on_error", "path"]
    changes = Changes().insert(id=1, note="a", body="b", qty=1).next().insert(id=2, note="c", body="d", qty=2)
    batch = changes.batch()

    assert sink.position() is None
    assert sink.write(ORDERS, [batch], batch.last).changes == 2
    # Again, as after a crash: no second effect.
    assert sink.write(ORDERS, [batch], batch.last).changes == 0

    assert sink.position() == batch.last
    assert [line.split('"id": ')[1][0] for line in (tmp_path / "out").read_text().splitlines()[:-1]] == ["1", "2"]


def test_an_option_of_the_plug_in_is_checked_like_ours(package: Path):
    with pytest.raises(Usage, match="did you mean 'path'"):
        build_definition(
            {
                "name": "shop",
                "source": {"type": "postgres", "url": "postgresql://u@h/d"},
                "sinks": [{"type": "lines", "paht": "x"}],
            }
        )


def test_a_plug_in_that_does_not_load_or_is_no_sink_is_named(package: Path):
    with pytest.raises(Usage, match=r"'absent' \(our_lines_sink:NotThere\) does not load"):
        sink_class("absent")
    with pytest.raises(Usage, match=r"'wrong' .* is not a Sink"):
        sink_class("wrong")


@pytest.mark.parametrize("source", ["postgres", "mysql"])
def test_only_the_plug_in_that_is_asked_for_is_imported_and_no_kernel(source: str):
    code = f"""
        import sys
        from headwater.registry import source_class
        source_class({source!r})
        print([name for name in ("deltalake", "pyspark", "numba") if name in sys.modules])
    """
    found = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_ours_are_found_by_type_and_by_url():
    assert source_class("postgres").type == "postgres"
    assert sink_class("delta").type == "delta"
    assert source_for_url("postgresql://u@h/d") is source_class("postgres")
    assert source_for_url("POSTGRES://u@h/d") is source_class("postgres")
    with pytest.raises(Usage, match="which database") as refused:
        source_for_url("oracle://u:canary@h/d")
    assert "canary" not in str(refused.value)
