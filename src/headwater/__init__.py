"""Headwater: log-based change data capture, native to Spark."""

__version__ = "0.1.0"
