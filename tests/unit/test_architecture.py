"""The house keeps its shape: imports point one way, only Spark's own corner knows pyspark, plug-ins stay apart.

Files are parsed, not imported, so a broken or heavy module is judged like any other.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"

# From the ground up; a module may import its own layer and those below.
LAYERS = [
    {"errors", "options", "failpoints", "wording", "compiled", "kafka_cluster"},
    {"event"},
    {"sinks", "transforms", "formats", "snapshot", "journal", "sources", "registry", "dead_letters"},
    {"tail"},
    {"spark"},
    {"pipeline", "operate"},
    {"cli"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
# Test tools stand beside the house: they may use all of it, and only the demo (a verb of the command line) uses them.
BESIDE = {"testing"}
EVENT_MAY_USE = {"numpy", "pyarrow"}


@dataclass(frozen=True)
class Import:
    """One import statement: who imports what, and in which surroundings."""

    importer: str
    imported: str
    line: int
    typing_only: bool = False
    functions: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def module_name(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> dict[str, str]:
    """Every module of ours and its text; a package is named `package.__init__` to resolve `from .` rightly."""
    return {
        module_name(path) + (".__init__" if path.name == "__init__.py" else ""): path.read_text(encoding="utf-8")
        for path in sorted(SRC.rglob("*.py"))
    }


def imports(module: str, text: str) -> Iterator[Import]:
    """Every import of a module, wherever it stands."""
    name = module.removesuffix(".__init__")
    package = module.rpartition(".")[0]

    def walk(node: ast.AST, typing_only: bool, functions: tuple[str, ...]) -> Iterator[Import]:
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    yield Import(name, alias.name, node.lineno, typing_only, functions)
            case ast.ImportFrom(module=base, names=aliases, level=level):
                start = ".".join(package.split(".")[: len(package.split(".")) - level + 1]) if level else ""
                base = ".".join(filter(None, [start, base]))
                for alias in aliases:
                    # `from headwater.sources import postgres` names a module, `… import Source` does not: the
                    # longer name is right for both, since rules look at prefixes only.
                    yield Import(name, f"{base}.{alias.name}", node.lineno, typing_only, functions)
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                for child in node.body:
                    yield from walk(child, True, functions)
                for child in node.orelse:
                    yield from walk(child, typing_only, functions)
            case ast.FunctionDef(name=function) | ast.AsyncFunctionDef(name=function):
                for child in ast.iter_child_nodes(node):
                    yield from walk(child, typing_only, (*functions, function))
            case ast.expr():
                # An import is a statement.
                return
            case _:
                for child in ast.iter_child_nodes(node):
                    yield from walk(child, typing_only, functions)

    yield from walk(parsed(text), False, ())


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def part(module: str) -> str:
    """The folder or file right below `headwater`: `headwater.sinks.delta.merge` -> `sinks`."""
    return module.split(".")[1] if module.startswith("headwater.") else ""


def plugin(module: str) -> str:
    """The source a module belongs to: `headwater.sources.postgres.log` -> `postgres`; base.py belongs to none."""
    words = module.split(".")
    inside = words[:2] == ["headwater", "sources"] and len(words) > 2 and (SRC / Path(*words[:3])).is_dir()
    return words[2] if inside else ""


def points_upwards(found: Import) -> bool:
    low, high = part(found.importer), part(found.imported)
    if not low or not high or low in BESIDE:
        return False
    if high in BESIDE:
        return low != "cli"
    return high in RANK and RANK[high] > RANK[low]


def knows_spark(found: Import) -> bool:
    """Outside spark/, a lakehouse sink may name pyspark for types, and in what is named for the Spark engine."""
    if found.imported.split(".")[0] != "pyspark" or part(found.importer) == "spark":
        return False
    if part(found.importer) != "sinks":
        return True
    named_for_spark = any("spark" in word for word in (found.importer.rpartition(".")[2], *found.functions))
    return not (found.typing_only or (found.functions and named_for_spark))


def breaks_event_s_solitude(found: Import) -> bool:
    if part(found.importer) != "event":
        return False
    root = found.imported.split(".")[0]
    if root == "headwater":
        return part(found.imported) not in {"event", "errors", "options"}
    return root not in sys.stdlib_module_names | EVENT_MAY_USE


def names_a_source(found: Import) -> bool:
    return bool(plugin(found.imported)) and plugin(found.importer) != plugin(found.imported)


@cache
def all_imports() -> list[Import]:
    return [one for module, text in ALL.items() for one in imports(module, text)]


RULES = [points_upwards, knows_spark, breaks_event_s_solitude, names_a_source]
ALL = sources()


def test_no_import_breaks_a_rule() -> None:
    assert len(all_imports()) > 100

    assert [f"{one}: {rule.__name__}" for one in all_imports() for rule in RULES if rule(one)] == []


def test_every_part_of_the_package_has_a_layer() -> None:
    parts = {part(module.removesuffix(".__init__")) for module in ALL} - {""}

    assert parts <= RANK.keys() | BESIDE, "give the new folder a place in LAYERS, and say why in docs/architecture.md"


def test_no_source_is_named_in_a_text_that_could_be_imported() -> None:
    """`import_module("headwater.sources.postgres")` would be the same dependency by another door."""
    named = [
        f"{module}:{node.lineno}"
        for module, text in ALL.items()
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value.replace(".", "_").isidentifier() and plugin(node.value) and not plugin(module)
    ]

    assert named == []


@pytest.mark.parametrize(
    ("module", "text", "broken"),
    [
        ("headwater.journal.reader", "from headwater.spark import reader", points_upwards),
        ("headwater.tail.loop", "import headwater.pipeline.run", points_upwards),
        ("headwater.event.batch", "from .. import journal", points_upwards),
        ("headwater.event.__init__", "from ..sinks import base", points_upwards),
        ("headwater.sinks.delta.merge", "def f():\n  from headwater.testing import wait_until", points_upwards),
        ("headwater.tail.loop", "def f():\n  import pyspark", knows_spark),
        ("headwater.sinks.delta.merge", "import pyspark.sql", knows_spark),
        ("headwater.sinks.delta.merge", "def f():\n  import pyspark.sql", knows_spark),
        ("headwater.event.batch", "import psycopg", breaks_event_s_solitude),
        ("headwater.event.batch", "from headwater import failpoints", breaks_event_s_solitude),
        ("headwater.spark.reader", "from headwater.sources.postgres.log import Log", names_a_source),
        ("headwater.sources.base", "from .postgres import source", names_a_source),
    ],
)
def test_the_rules_catch_what_they_forbid(module: str, text: str, broken) -> None:  # type: ignore[no-untyped-def]
    assert [rule for one in imports(module, text) for rule in RULES if rule(one)][:1] == [broken]


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("headwater.cli.demo", "from headwater.testing import PostgresServer"),
        ("headwater.testing.source", "from headwater.pipeline import run"),
        ("headwater.spark.reader", "import pyspark.sql"),
        ("headwater.sinks.delta.merge", "if TYPE_CHECKING:\n  import pyspark.sql"),
        ("headwater.sinks.delta.spark_engine", "def merge():\n  import pyspark.sql"),
        ("headwater.sinks.delta.merge", "def merge_with_spark():\n  import pyspark.sql"),
        ("headwater.sources.postgres.__init__", "from .log import Log"),
        ("headwater.sources.postgres.log", "from headwater.sources.base import Log"),
    ],
)
def test_the_rules_allow_what_they_should(module: str, text: str) -> None:
    assert not [rule for one in imports(module, text) for rule in RULES if rule(one)]


def test_a_database_is_one_folder() -> None:
    words = re.compile(r"mysql|mariadb|binlog", re.IGNORECASE)
    own = SRC / "headwater" / "sources" / "mysql"
    beside = [SRC / "headwater" / name for name in BESIDE]
    named = [
        f"{path.relative_to(SRC)}: {line.strip()}"
        for path in sorted(SRC.rglob("*.py"))
        if own not in path.parents and not any(each in path.parents for each in beside)
        for line in path.read_text(encoding="utf-8").splitlines()
        if words.search(line)
    ]
    assert not named
