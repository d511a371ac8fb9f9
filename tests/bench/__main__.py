"""`python -m tests.bench`: start a server, make the workload, let everybody read it, print one table."""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from . import machine, plot, report
from .contestant import Contestant, NotAvailable
from .contestants import CONTESTANTS
from .report import Result
from .workload import Workload

DOCS = Path(__file__).parents[2] / "docs" / "benchmarks"


def main() -> None:
    arguments = parse()
    # A pipe has no width; the table has.
    console = Console() if sys.stdout.isatty() else Console(width=140)
    chosen: list[Contestant[Any]] = [contestant for contestant in CONTESTANTS if matches(contestant, arguments.only)]
    results = {contestant.name: Result(contestant.name, contestant.title) for contestant in chosen}
    about: dict[str, Any] = {"machine": machine.facts(), "load_before": machine.load(), "rounds": arguments.rounds}
    console.print(f"load before: {about['load_before']}")
    about["workload"] = {}
    for kind, of_database in itertools.groupby(chosen, key=lambda contestant: contestant.workload):
        members = list(of_database)
        with kind(arguments.scale) as workload:
            for contestant in members:
                prepare(workload, contestant, results[contestant.name])
            workload.make(console.print, copy=any(contestant.copies for contestant in members))
            about["workload"] |= describe(workload)
            for round_number, contestant in schedule(members, arguments.rounds):
                result = results[contestant.name]
                if not result.missing:
                    busy = machine.wait_until_quiet(arguments.patience)
                    measure(workload, contestant, result, f"round {round_number}, others {busy:.0f} % busy")
                    console.print(line(result, round_number, busy), highlight=False, soft_wrap=True)
    about["load_after"] = machine.load()
    report.show(list(results.values()), console)
    data = report.to_data(list(results.values()), about)
    report.write_json(data, arguments.json)
    plot.write_svg(data, arguments.json.with_suffix(".svg"))
    console.print(f"written: {arguments.json} and {arguments.json.with_suffix('.svg').name}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    names = ", ".join(contestant.name for contestant in CONTESTANTS)
    parser.add_argument(
        "--only", action="append", metavar="NAME", help=f"a contestant, a group or a database; again for more ({names})"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="1.0: 1.5 million changes, 2 million rows")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each; the median counts")
    parser.add_argument(
        "--patience", type=float, default=60, help="seconds to wait for other load to go, before each run"
    )
    parser.add_argument(
        "--json", type=Path, default=DOCS / "latest.json", help="where the results go; the plot beside it"
    )
    return parser.parse_args()


def matches(contestant: Contestant[Any], only: Sequence[str] | None) -> bool:
    return not only or bool({contestant.name, contestant.group, contestant.workload.database} & set(only))


def describe(workload: Workload) -> dict[str, object]:
    return {
        "scale": workload.scale,
        "changes": workload.changes,
        "rows": workload.rows,
        "per_transaction": workload.per_transaction,
        workload.database: workload.describe(),
    }


def schedule(chosen: Sequence[Contestant[Any]], rounds: int) -> Iterator[tuple[int, Contestant[Any]]]:
    """Group by group; inside a group round by round, every second round backwards, so that nobody is always first."""
    for _, members in itertools.groupby(chosen, key=lambda contestant: contestant.group):
        group = list(members)
        for number in range(1, rounds + 1):
            for contestant in group if number % 2 else reversed(group):
                if number <= contestant.most_rounds:
                    yield number, contestant


def prepare(workload: Workload, contestant: Contestant[Any], result: Result) -> None:
    try:
        contestant.prepare(workload)
    except NotAvailable as missing:
        result.missing = missing.what


def measure(workload: Workload, contestant: Contestant[Any], result: Result, note: str) -> None:
    """One run in a folder of its own; a contestant that cannot run is not asked again."""
    directory = Path(tempfile.mkdtemp(prefix=f"headwater-bench-{contestant.name}-"))
    try:
        run = contestant.run(workload, directory)
    except NotAvailable as missing:
        result.missing = missing.what
        return
    result.runs.append(type(run)(run.seconds, run.events, {**run.detail, "note": note}))
    shutil.rmtree(directory, ignore_errors=True)


def line(result: Result, round_number: int, busy: float) -> str:
    if result.missing:
        return f"  {result.title:<44} not available: {result.missing}"
    run = result.runs[-1]
    return (
        f"  {result.title:<44} round {round_number}  {run.seconds:8.2f} s  {run.rate:>11,.0f}/s  (others {busy:.0f} %)"
    )


if __name__ == "__main__":
    main()
