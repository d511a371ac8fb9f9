"""Spark: the data source, the stream of slices and what runs on executors. The only place that imports pyspark."""
