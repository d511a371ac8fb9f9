"""`headwater replay FILE`: deliver a range of the journal again into sinks that hold it already."""

from __future__ import annotations

import argparse
import json
from typing import Any

from headwater.operate.replay import parse_position, replay
from headwater.pipeline.definition import read_definition


def add(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "replay",
        help="deliver a range of the journal again",
        description="Read a range of the journal again, decode it with today's code and apply it to the sinks, which"
        " end as if it had been so the first time. No position moves, nothing is confirmed, and no Spark is needed; the"
        " pipeline must not run. A sink that keeps the current state of rows (mode upsert) can only be replayed to"
        " its end, so leave --to away. The journal reaches back as far as journal_keep_hours says.",
        epilog="example: headwater replay shop.yaml --from 0/16B3748 --table public.orders",
    )
    parser.add_argument("file", metavar="FILE", help="the pipeline's YAML file")
    parser.add_argument(
        "--from", dest="after", required=True, metavar="POSITION", help="as headwater status shows it, or `start`"
    )
    parser.add_argument("--to", default="", metavar="POSITION", help="default: all that the sink holds")
    parser.add_argument("--table", action="append", default=[], metavar="T", help="schema.table pattern; may repeat")
    parser.add_argument("--sink", action="append", default=[], metavar="NAME", help="only this sink; may repeat")
    parser.add_argument("--json", action="store_true", help="one JSON line per table")
    parser.set_defaults(verb=replay_range)


def replay_range(given: argparse.Namespace) -> int:
    """Print a line per table."""
    definition = read_definition(given.file)
    after = None if given.after == "start" else parse_position(definition.source, given.after)
    upto = parse_position(definition.source, given.to, last=True) if given.to else None
    tables, sinks = given.table or ("*",), given.sink
    done = 0
    for replayed in replay(definition, after, upto, tables=tables, sinks=sinks):
        done += 1
        line = f"{replayed.sink}: {replayed.table}: {replayed.changes:,} changes delivered again"
        print(json.dumps(replayed.to_json()) if given.json else line, flush=True)
    if not done and not given.json:
        print("the journal has no changes in that range")
    return 0
