"""Which engine writes a table: a pure choice, from what the table's own log says.

The native engine copies whole files, so its cost is what it must rewrite; Spark's MERGE marks rows in deletion
vectors, so it writes little but joins with the whole table. Measured in docs/decisions/0003-delta-engines.md.
"""

from __future__ import annotations

from enum import StrEnum

# Above this much rewritten by one batch `auto` hands the table to Spark. At 150 MB (10 million narrow rows, 100,000
# random keys) the native engine was still 2 to 4 times faster than Spark on the same busy machine (10-13 s against
# 25-47 s), so the crossover lies above it; where exactly was not measured.
CROSSOVER_BYTES = 512 << 20

# What a session needs for the Spark engine, resolved by Spark itself at its start.
SESSION_SETTINGS = {
    "spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


class Engine(StrEnum):
    """Who applies changes to a Delta table."""

    NATIVE = "native"
    SPARK = "spark"


def choose_engine(
    wanted: str, *, mode: str, rewritten: int, deletion_vectors: bool, jars: bool, crossover: int = CROSSOVER_BYTES
) -> Engine:
    """The engine for the next batch of a table.

    `rewritten` is what the last native commit replaced, in bytes; `deletion_vectors` that Spark has written the
    table before (the native engine cannot); `jars` that the session can."""
    if wanted != "auto":
        return Engine(wanted)
    if deletion_vectors:
        return Engine.SPARK
    if mode == "upsert" and jars and rewritten > crossover:
        return Engine.SPARK
    return Engine.NATIVE
