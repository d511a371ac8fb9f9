"""The Delta Lake sink: changelog (`append`) or mirror (`upsert`) tables, written by delta-rs or by Spark."""

from headwater.sinks.delta.sink import Delta, DeltaOptions

__all__ = ["Delta", "DeltaOptions"]
