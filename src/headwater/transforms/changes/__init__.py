"""Transforms of changes: one file each, the file's name is its `type`."""
