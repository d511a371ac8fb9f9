"""`headwater slots URL`: what keeps log on a server, for how long that goes well, and what to do about it."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from headwater.errors import Stop, Usage
from headwater.operate.slots import Outlook, observe, require_dead
from headwater.options import parse_options
from headwater.pipeline.definition import read_definition
from headwater.registry import source_for_url
from headwater.sources.base import Source
from headwater.wording import duration_text, size_text

ACTIONS = {"create": 1, "drop": 1, "advance": 2}


def add(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "slots",
        help="what keeps log on the server: who reads it, how much, until when",
        usage="headwater slots URL [--json]\n"
        "       headwater slots create NAME URL\n"
        "       headwater slots drop NAME URL [--yes]\n"
        "       headwater slots advance NAME POSITION URL [--yes]",
        description="List every replication slot of a server: whose it is, who reads from it, how much log it keeps,"
        " when it will be lost at the current rate, and what to do. URL is a database's, or a pipeline's file (which"
        " keeps its password off the command line). drop and advance give log up for good: they look for a while"
        " whether the slot is really dead, and ask before they do it. POSITION may be `now`.",
        epilog="example: headwater slots drop old_consumer postgresql://admin@127.0.0.1/shop --yes",
    )
    parser.add_argument("words", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="facts as JSON")
    parser.set_defaults(verb=slots)


def slots(given: argparse.Namespace) -> int:
    """List, or do one thing to one slot."""
    action, *words = given.words
    if action not in ACTIONS:
        if words:
            raise Usage(f"slots: unknown action {action!r}", "one of: " + ", ".join(ACTIONS) + "; or a URL alone")
        return list_slots(open_source(action), as_json=given.json)
    if len(words) != ACTIONS[action] + 1:
        raise Usage(f"slots {action}: wrong number of words", "see: headwater slots --help")
    source, name = open_source(words[-1]), words[0]
    match action:
        case "create":
            source.create_holder(name)
            done = {"created": name}
        case "drop":
            if not confirm_loss(source, name, f"drop {name!r}", yes=given.yes):
                return Usage.exit_status
            source.drop_holder(name)
            done = {"dropped": name}
        case _:
            to = "" if words[1] == "now" else words[1]
            if not confirm_loss(source, name, f"advance {name!r} to {words[1]}", yes=given.yes):
                return Usage.exit_status
            done = {"advanced": name, "to": source.advance_holder(name, to)}
    print(json.dumps(done) if given.json else " ".join(f"{key} {value}" for key, value in done.items()))
    return 0


def list_slots(source: Source, *, as_json: bool) -> int:
    """Exit status 3 when one of ours is lost already."""
    seen = observe(source)
    if as_json:
        facts = [outlook.to_json() for outlook in seen.outlooks]
        print(json.dumps({"bytes_per_second": round(seen.bytes_per_second, 1), "slots": facts}))
    elif not seen.outlooks:
        print("nothing keeps log on this server")
    else:
        # As wide as it is: a terminal wraps a line better than a table folds its cells.
        console = Console(highlight=False, soft_wrap=True, width=500)
        console.print(drawn(seen.outlooks))
        console.print(f"log is written at {size_text(seen.bytes_per_second)}/s")
        for outlook in seen.outlooks:
            if outlook.advice:
                console.print(f"  {outlook.holder.name}: {outlook.advice}", markup=False)
    lost = [outlook for outlook in seen.outlooks if outlook.holder.lost and outlook.holder.ours]
    return Stop.exit_status if lost else 0


def drawn(outlooks: list[Outlook]) -> Table:
    """One line per slot."""
    table = Table(box=None, pad_edge=False)
    for name in ("slot", "owner", "active", "status", "confirmed", "retained", "safe", "age", "forecast"):
        table.add_column(name, justify="right" if name in ("retained", "safe") else "left", no_wrap=True)
    for outlook in outlooks:
        holder = outlook.holder
        idle = f"idle {duration_text(holder.idle_seconds)}" if holder.idle_seconds is not None else ""
        age = f"{holder.age:,} transactions" if holder.age is not None else ""
        table.add_row(
            holder.name,
            holder.owner,
            f"PID {holder.active_pid}" if holder.active_pid else "nobody",
            holder.status,
            holder.position or "-",
            size_text(holder.retained_bytes),
            "no limit" if holder.safe_bytes is None else size_text(holder.safe_bytes),
            ", ".join(filter(None, [idle, age])) or "-",
            outlook.forecast,
        )
    return table


def confirm_loss(source: Source, name: str, what: str, *, yes: bool) -> bool:
    """Whether the person means it, once the slot was seen to be dead."""
    holder = require_dead(source, name)
    if holder is None:
        raise Usage(f"there is no slot {name!r} on this server")
    if yes:
        return True
    said = f"{what}: gives up to {size_text(holder.retained_bytes)} of log up for good"
    if not sys.stdin.isatty():
        raise Usage(said, "If that is what you want: add --yes")
    return input(f"{said}. Go on? [y/N] ").strip().lower() in ("y", "yes")


def open_source(target: str) -> Source:
    """The source behind a URL or a pipeline's file."""
    if "://" not in target:
        return read_definition(target).source
    cls = source_for_url(target)
    return cls(parse_options(cls.options_class, {"url": target}, where="slots", name="slots"))
