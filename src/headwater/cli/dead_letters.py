"""`headwater dead-letters ACTION FILE`: changes that a sink refused, and what to do with them."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from headwater.dead_letters import Letter
from headwater.errors import Usage
from headwater.operate.dead_letters import Outcome, drop, found, retry
from headwater.pipeline.definition import read_definition

WAITING = 1


def add(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "dead-letters",
        help="changes that a sink refused: list, show, retry, drop",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="headwater dead-letters list FILE [--sink NAME] [--table T] [--json]\n"
        "       headwater dead-letters show FILE ID… [--json]\n"
        "       headwater dead-letters retry FILE [ID…] [--sink NAME] [--table T] [--json]\n"
        "       headwater dead-letters drop FILE ID… | --all [--yes] [--json]",
        description="A sink with `on_error: dead_letter` keeps aside what its target will never take (a record that\n"
        "is too large, a value that a column cannot hold), and every later change of the same row, so that\n"
        "their order holds. They lie in the pipeline's state folder until somebody decides:\n\n"
        "  retry  delivers them in their order, after the cause was mended; the pipeline must not run\n"
        "  drop   gives them up for good; what waits behind a dropped one can then be retried\n\n"
        "Without IDs, retry takes all. A letter is named SINK/COMMIT:ORDINAL, as list shows it. Exit status 1 when\n"
        "letters still wait after a retry.",
        epilog="example: headwater dead-letters retry shop.yaml --sink kafka",
    )
    parser.add_argument("action", choices=["list", "show", "retry", "drop"], help=argparse.SUPPRESS)
    parser.add_argument("file", metavar="FILE", help="the pipeline's YAML file")
    parser.add_argument("ids", nargs="*", metavar="ID", help="letters, as list names them")
    parser.add_argument("--sink", default="", metavar="NAME", help="only this sink's")
    parser.add_argument("--table", default="", metavar="T", help="only this table's, as schema.table")
    parser.add_argument("--all", action="store_true", help="drop: every letter that the other options choose")
    parser.add_argument("--yes", action="store_true", help="drop: do not ask")
    parser.add_argument("--json", action="store_true", help="facts as JSON, one line per letter")
    parser.set_defaults(verb=dead_letters)


def dead_letters(given: argparse.Namespace) -> int:
    """Do one of the four."""
    definition = read_definition(given.file)
    if given.action in ("show", "drop") and not given.ids and not given.all:
        raise Usage(f"dead-letters {given.action}: which?", "name letters by ID, as headwater dead-letters list does")
    letters = found(definition, given.ids, sink=given.sink, table=given.table)
    match given.action:
        case "list":
            return list_letters(letters, as_json=given.json)
        case "show":
            for letter in letters:
                print(json.dumps(letter.to_json(), ensure_ascii=False, indent=None if given.json else 2))
            return 0
        case "retry":
            return told(list(retry(definition, letters)), as_json=given.json)
        case _:
            if not confirmed(len(letters), yes=given.yes):
                return Usage.exit_status
            return told(list(drop(definition, letters)), as_json=given.json)


def list_letters(letters: list[Letter], *, as_json: bool) -> int:
    """One line each; the values of rows are for `show`."""
    if as_json:
        for letter in letters:
            facts = letter.to_json()
            del facts["event"]
            print(json.dumps(facts, ensure_ascii=False))
        return 0
    if not letters:
        print("no dead letters")
        return 0
    table = Table(box=None, pad_edge=False)
    for name in ("id", "table", "op", "row", "why"):
        table.add_column(name, no_wrap=True)
    for letter in letters:
        why = "void: its table was truncated or loaded anew since" if letter.void else letter.reason["what"]
        table.add_row(letter.id, letter.table, letter.to_json()["op"], " → ".join(letter.keys) or "-", why)
    Console(highlight=False, soft_wrap=True, width=500, markup=False).print(table)
    return 0


def told(outcomes: list[Outcome], *, as_json: bool) -> int:
    """What became of each."""
    for outcome in outcomes:
        text = f"{outcome.outcome} {outcome.id} ({outcome.table})" + (f": {outcome.reason}" if outcome.reason else "")
        print(json.dumps(outcome.to_json(), ensure_ascii=False) if as_json else text)
    if not outcomes and not as_json:
        print("no dead letters")
    return WAITING if any(outcome.outcome == "waiting" for outcome in outcomes) else 0


def confirmed(count: int, *, yes: bool) -> bool:
    """Whether the person means it."""
    said = f"{count} changes will never be delivered"
    if yes or not count:
        return True
    if not sys.stdin.isatty():
        raise Usage(said, "If that is what you want: add --yes")
    return input(f"{said}. Go on? [y/N] ").strip().lower() in ("y", "yes")
