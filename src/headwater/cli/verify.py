"""`headwater verify FILE`: is the lake what the source is, row by row?"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from typing import Any

from headwater.errors import Stop
from headwater.operate.verify import Verdict, Verification
from headwater.pipeline.definition import read_definition


def add(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "verify",
        help="compare every table in the sinks with the source, row by row",
        description="Copy every captured table from the source at one position and compare it with the sink's table:"
        " keys, values, types. Deliver everything first (run --available-now) and let nobody write meanwhile, or what"
        " was committed in between counts as a difference. Exit status 3 when something differs.",
        epilog="example: headwater run shop.yaml --available-now && headwater verify shop.yaml",
    )
    parser.add_argument("file", metavar="FILE", help="the pipeline's YAML file")
    parser.add_argument("--table", action="append", default=[], metavar="T", help="schema.table pattern; may repeat")
    parser.add_argument("--json", action="store_true", help="one JSON line per table")
    parser.set_defaults(verb=verify)


def verify(given: argparse.Namespace) -> int:
    """Print a verdict per table; 3 when one is not equal."""
    verification = Verification(read_definition(given.file), given.table or ("*",))
    verdicts = []
    for verdict in verification.verdicts():
        verdicts.append(verdict)
        print(json.dumps(verdict.to_json()) if given.json else "\n".join(verdict_lines(verdict)), flush=True)
    if all(verdict.equal for verdict in verdicts):
        return 0
    if not given.json:
        print(
            f"\ncompared with the source at {verification.position.resume if verification.position else '?'}."
            f"\n  If the pipeline had not delivered everything: headwater run {given.file} --available-now",
            file=sys.stderr,
        )
    return Stop.exit_status


def verdict_lines(verdict: Verdict) -> Iterable[str]:
    """One line for a table, and one for each key that is named."""
    found = verdict.difference
    if verdict.equal:
        yield f"equal    {verdict.table}: {found.source_rows:,} rows"
        return
    counts = {
        "missing in the lake": found.missing,
        "only in the lake": found.extra,
        "more than once in the lake": found.repeated,
        f"with other values ({', '.join(sorted(found.columns))})": found.different,
    }
    rows = f"{found.source_rows:,} rows at the source, {found.lake_rows:,} in the lake"
    said = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    yield f"DIFFERS  {verdict.table}: {verdict.reason or f'{rows}; {said}'}"
    for kind, key in found.named:
        yield f"         {kind}: {', '.join(f'{column}={value}' for column, value in key.items())}"
