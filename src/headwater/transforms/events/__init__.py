"""Transforms of Debezium's events: one file each, the file's name is its `type`."""
