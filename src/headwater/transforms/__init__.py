"""Transforms: batch in, batch out. `changes/` work on changes, for every sink; `events/` on Debezium's events.

One file per transform, found by its name; docs/transforms.md lists them.
"""
