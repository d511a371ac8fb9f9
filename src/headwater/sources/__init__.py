"""Databases whose log we read: one folder each, the same file names in each."""
