"""`headwater plan FILE`: what a run would do, table by table, before it does."""

from __future__ import annotations

import argparse
import json
from typing import Any

from headwater.errors import Usage
from headwater.operate.plan import STOP, Step, plan
from headwater.pipeline.definition import read_definition
from headwater.wording import size_text


def add(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "plan",
        help="what a run would do with every table",
        description="List every captured table with what each sink would do with it at the next start: copy it first"
        " (and how much that is), go on behind a commit, or begin with the next change; and where it goes. Changes"
        " nothing. Whether it may start at all, `headwater check` says. Exit status 2 when a table cannot be placed.",
    )
    parser.add_argument("file", metavar="FILE", help="the pipeline's YAML file")
    parser.add_argument("--json", action="store_true", help="one JSON line per table and sink")
    parser.set_defaults(verb=show)


def show(given: argparse.Namespace) -> int:
    """Print the steps."""
    steps = list(plan(read_definition(given.file)))
    if given.json:
        for step in steps:
            print(json.dumps(step.to_json()))
    else:
        _print(steps)
    return Usage.exit_status if any(step.action == STOP for step in steps) else 0


def _print(steps: list[Step]) -> None:
    if not steps:
        print("no table is captured: see `tables` and `exclude` in the file")
    wide = max((len(step.table) for step in steps), default=0)
    for sink in dict.fromkeys(step.sink for step in steps):
        own = [step for step in steps if step.sink == sink]
        copied = [step.bytes or 0 for step in own if step.action.startswith("load")]
        print(f"{sink}: {len(own)} tables" + (f", {len(copied)} to load, {size_text(sum(copied))}" if copied else ""))
        for step in own:
            print(f"  {step.table:{wide}}  {_what(step)}")


def _what(step: Step) -> str:
    if step.action == STOP:
        return f"stop: {step.reason}"
    size = "" if step.bytes is None else f" {size_text(step.bytes)}"
    behind = "" if step.commit is None else f" behind commit {step.commit}"
    return f"{step.action}{size}{behind} → {step.target}" + (f" (key: {', '.join(step.key)})" if step.key else "")
