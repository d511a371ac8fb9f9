"""What the oracle is asked: SQL files of tests/golden/debezium, each under one or more sets of properties.

A case is recorded once from real Debezium into a golden file, and compared live by the full oracle suite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden" / "debezium"


@dataclass(frozen=True)
class Case:
    """One SQL file under one set of connector properties."""

    sql: str
    variant: str
    properties: Mapping[str, str] = field(default_factory=dict)
    # The PyPI server is built without libxml; such a case is recorded on another one.
    needs_xml: bool = False
    # Debezium looks a changed table up in the catalog when it meets it: what it finds depends on how far
    # the statements have run since. Each block waits for the one before to be delivered.
    paced: bool = False
    # The topic whose rows Debezium's snapshot has twice: it copies a partitioned table and its partitions.
    doubled: str = ""
    # The kind of server: postgres, mysql or mariadb.
    database: str = "postgres"

    @property
    def name(self) -> str:
        return f"{self.sql}.{self.variant}"

    @property
    def id(self) -> str:
        """Among the cases of all databases."""
        return self.name if self.database == "postgres" else f"{self.database}-{self.name}"

    @property
    def script(self) -> Script:
        # MySQL and MariaDB run the same statements.
        folder = GOLDEN if self.database == "postgres" else GOLDEN / "mysql"
        return read_script((folder / f"{self.sql}.sql").read_text())

    @property
    def golden(self) -> Path:
        """Where Debezium's events for it are recorded."""
        folder = GOLDEN if self.database == "postgres" else GOLDEN / self.database
        return folder / f"{self.name}.json"


@dataclass(frozen=True)
class Script:
    """A case's statements; every block is one transaction."""

    before: tuple[str, ...]
    stream: tuple[str, ...]


def read_script(text: str) -> Script:
    """Blocks are separated by blank lines; `-- stream` stands between what is snapshotted and what is streamed."""
    before, stream = text.split("\n-- stream\n")
    return Script(_blocks(before), _blocks(stream))


def _blocks(text: str) -> tuple[str, ...]:
    without_comments = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    return tuple(block for block in without_comments.split("\n\n") if block.strip())


CASES = (
    Case("types", "defaults"),
    Case("types", "adaptive_time_microseconds", {"time.precision.mode": "adaptive_time_microseconds"}),
    Case(
        "types",
        "connect",
        {
            "time.precision.mode": "connect",
            "decimal.handling.mode": "double",
            "binary.handling.mode": "hex",
            "interval.handling.mode": "string",
            "hstore.handling.mode": "map",
        },
    ),
    Case(
        "types",
        "isostring",
        {
            "time.precision.mode": "isostring",
            "decimal.handling.mode": "string",
            "binary.handling.mode": "base64",
            "money.fraction.digits": "1",
        },
    ),
    Case(
        "types",
        "microseconds",
        {
            "time.precision.mode": "microseconds",
            "binary.handling.mode": "base64-url-safe",
            "include.unknown.datatypes": "true",
        },
    ),
    Case("times", "nanoseconds", {"time.precision.mode": "nanoseconds"}),
    Case("times", "connect", {"time.precision.mode": "connect"}),
    Case("xml", "defaults", needs_xml=True),
    Case("infinities", "defaults"),
    Case("infinities", "connect", {"time.precision.mode": "connect", "decimal.handling.mode": "string"}),
    Case("infinities", "isostring", {"time.precision.mode": "isostring", "decimal.handling.mode": "double"}),
    Case("infinities", "nanoseconds", {"time.precision.mode": "nanoseconds"}),
    Case("operations", "defaults"),
    Case(
        "operations",
        "transactions",
        {"provide.transaction.metadata": "true", "skipped.operations": "none", "converter.schemas.enable": "false"},
    ),
    Case(
        "operations",
        "no_tombstones",
        {
            "tombstones.on.delete": "false",
            "skipped.operations": "none",
            "converter.schemas.enable": "false",
            "extended.headers.enabled": "false",
            "unavailable.value.placeholder": "gone",
            "binary.handling.mode": "base64",
        },
    ),
    Case(
        "operations",
        "without_deletes",
        {"provide.transaction.metadata": "true", "skipped.operations": "d,t", "converter.schemas.enable": "false"},
    ),
    Case(
        "operations",
        "without_updates",
        {"provide.transaction.metadata": "true", "skipped.operations": "u", "converter.schemas.enable": "false"},
    ),
    Case("defaults", "defaults"),
    Case("evolution", "defaults", paced=True),
    Case("snapshot", "defaults"),
    Case("partitions", "leaves", doubled="srv.public.metrics"),
    Case("partitions", "root", {"publish.via.partition.root": "true"}, doubled="srv.public.metrics_2024"),
    Case(
        "columns",
        "masked",
        {
            "column.exclude.list": "public.people.secret",
            "column.mask.with.12.chars": "public.people.name",
            "column.mask.hash.v2.SHA-256.with.salt.CzQMA0cB5K": "public.people.email",
            "column.truncate.to.3.chars": "public.people.note,public.people.photo",
            "column.propagate.source.type": "public.people.*",
        },
    ),
    Case(
        "columns",
        "keyed",
        {
            "message.key.columns": "public.people:email,id",
            "column.include.list": "public.people.(id|email|name)",
            "skipped.operations": "d",
            "column.mask.hash.SHA-256.with.salt.CzQMA0cB5K": "public.people.name",
        },
    ),
)
