"""`headwater snapshot FILE TABLE…`: load tables anew at the next start."""

from __future__ import annotations

import argparse
import json
from typing import Any

from headwater.errors import Usage
from headwater.operate.status import read_report
from headwater.pipeline.definition import read_definition
from headwater.pipeline.reloads import Reloads


def add(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "snapshot",
        help="load tables anew",
        description="Have tables loaded anew when the pipeline starts next: what a sink holds of them is replaced in"
        " one step by a snapshot, and the stream goes on from there. For a table that has stopped because its shape"
        " changed, or whose rows are not what they should be. Nothing is removed before; with mode append the"
        " changelog begins anew.",
        epilog="example: headwater snapshot shop.yaml public.orders",
    )
    parser.add_argument("file", metavar="FILE", help="the pipeline's YAML file")
    parser.add_argument("table", nargs="+", metavar="TABLE", help="schema.table, as the pipeline captures it")
    parser.add_argument("--sink", action="append", default=[], metavar="NAME", help="only this sink; may repeat")
    parser.add_argument("--json", action="store_true", help="one JSON line per sink")
    parser.set_defaults(verb=ask)


def ask(given: argparse.Namespace) -> int:
    """Write it down, and say when it will be done."""
    definition = read_definition(given.file)
    captured = {table.table for table in definition.source.candidates()}
    if unknown := [table for table in given.table if table not in captured]:
        raise Usage(f"{unknown[0]} is not captured by this pipeline", "captured: " + ", ".join(sorted(captured)[:20]))
    if strange := [name for name in given.sink if name not in definition.sinks]:
        raise Usage(f"there is no sink {strange[0]!r} in this pipeline", "known: " + ", ".join(definition.sinks))
    for name in given.sink or definition.sinks:
        Reloads(definition.state).add(name, given.table)
        if given.json:
            print(json.dumps({"sink": name, "tables": given.table}), flush=True)
        else:
            print(f"{name}: {', '.join(given.table)} will be loaded anew at the next start", flush=True)
    if not given.json:
        running = read_report(definition).running
        print(f"{'stop the pipeline, then ' if running else ''}headwater run {given.file}")
    return 0
