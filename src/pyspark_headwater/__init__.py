"""Registers `format("headwater")` with every Spark session: Spark imports top-level `pyspark_*` modules."""

from headwater.spark.datasource import HeadwaterSource as DefaultSource

__all__ = ["DefaultSource"]
