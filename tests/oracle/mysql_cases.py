"""What Debezium's connectors for MySQL and MariaDB are asked: SQL files of tests/golden/debezium/mysql."""

from __future__ import annotations

import dataclasses

from .cases import Case

_BOTH = (
    Case("types", "defaults"),
    Case(
        "types",
        "connect",
        {
            "time.precision.mode": "connect",
            "decimal.handling.mode": "double",
            "binary.handling.mode": "hex",
            "bigint.unsigned.handling.mode": "precise",
        },
    ),
    Case(
        "types",
        "isostring",
        {"time.precision.mode": "isostring", "decimal.handling.mode": "string", "binary.handling.mode": "base64"},
    ),
    Case("types", "microseconds", {"time.precision.mode": "microseconds", "binary.handling.mode": "base64-url-safe"}),
    Case("types", "nanoseconds", {"time.precision.mode": "nanoseconds"}),
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
        },
    ),
    Case("defaults", "defaults"),
)
MARIADB_CASES = (
    *(dataclasses.replace(case, database="mariadb") for case in _BOTH),
    Case("mariadb_types", "defaults", database="mariadb"),
)
MYSQL_CASES = (
    *(dataclasses.replace(case, database="mysql") for case in _BOTH),
    Case("json", "defaults", database="mysql"),
)
