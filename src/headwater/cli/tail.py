"""`headwater tail URL`: print events as they are committed. No Spark, no JVM."""

from __future__ import annotations

import argparse
from typing import Any


def add(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser("tail", help="print events as they are committed (no Spark)")
    parser.add_argument("url", metavar="URL", help="postgresql://user@host:port/database")
    parser.set_defaults(verb=tail)


def tail(given: argparse.Namespace) -> int:
    """Until Ctrl-C."""
    raise NotImplementedError(given)
