"""Results as data, as a table for people, and as JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .contestant import Run
from .goals import LATENCIES, RATES, RATIOS, Latency, Rate, Ratio


@dataclass
class Result:
    """All runs of one contestant, or why there are none."""

    name: str
    title: str
    runs: list[Run] = field(default_factory=list)
    missing: str = ""

    @property
    def median(self) -> Run | None:
        """The run whose time is the median (the faster of the middle two): its details belong together."""
        ordered = sorted(self.runs, key=lambda run: run.seconds)
        return ordered[(len(ordered) - 1) // 2] if ordered else None

    @property
    def rate(self) -> float | None:
        return statistics.median(run.rate for run in self.runs) if self.runs else None


def ratio_of(goal: Ratio, results: Mapping[str, Result]) -> float | None:
    """Medians divided; None when either side has not run."""
    ours, over = results.get(goal.ours), results.get(goal.over)
    if ours is None or over is None or ours.rate is None or over.rate is None:
        return None
    return ours.rate / over.rate


def to_data(results: Sequence[Result], about: Mapping[str, Any]) -> dict[str, Any]:
    by_name = {result.name: result for result in results}
    return {
        **about,
        "contestants": {
            result.name: {
                "title": result.title,
                "missing": result.missing or None,
                "rate": None if result.rate is None else round(result.rate),
                "runs": [
                    {"seconds": round(run.seconds, 3), "events": run.events, "rate": round(run.rate), **run.detail}
                    for run in result.runs
                ],
            }
            for result in results
        },
        "ratios": [
            {
                "measure": goal.measure,
                "ratio": None if (ratio := ratio_of(goal, by_name)) is None else round(ratio, 2),
                "reach": goal.reach,
                "aim": goal.aim,
            }
            for goal in RATIOS
        ],
    }


def write_json(data: Mapping[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def show(results: Sequence[Result], console: Console) -> None:
    """First every contestant with its rate, then every measure with its goals."""
    console.print(contestants_table(results))
    console.print(measures_table({result.name: result for result in results}))
    for result in results:
        curve = result.median.detail.get("curve") if result.median else None
        if curve:
            console.print(curve_table(result.title, curve))


def contestants_table(results: Sequence[Result]) -> Table:
    table = Table(title="who", title_justify="left")
    for heading in ("contestant", "median /s", "seconds of each run", "note"):
        table.add_column(heading, justify="left" if heading in ("contestant", "note") else "right")
    for result in results:
        rate = "—" if result.rate is None else f"{result.rate:,.0f}"
        seconds = " ".join(f"{run.seconds:.2f}" for run in result.runs) or "—"
        table.add_row(result.title, rate, seconds, f"not available: {result.missing}" if result.missing else "")
    return table


def measures_table(results: Mapping[str, Result]) -> Table:
    table = Table(title="measured against the goals", title_justify="left")
    for heading in ("measure", "other /s", "ours /s", "ratio", "reach", "aim", ""):
        table.add_column(heading, justify="left" if heading in ("measure", "") else "right")
    for goal in RATIOS:
        table.add_row(*ratio_row(goal, results))
    for rate in RATES:
        table.add_row(*rate_row(rate, results))
    for latency in LATENCIES:
        table.add_row(*latency_row(latency, results))
    return table


def ratio_row(goal: Ratio, results: Mapping[str, Result]) -> tuple[str, ...]:
    ratio = ratio_of(goal, results)
    ours, over = results.get(goal.ours), results.get(goal.over)
    return (
        goal.measure,
        rate_text(over),
        rate_text(ours),
        "—" if ratio is None else f"{ratio:.2f}",
        f"{goal.reach:g}",
        f"{goal.aim:g}",
        "" if ratio is None else verdict(ratio >= goal.reach, ratio >= goal.aim),
    )


def rate_row(goal: Rate, results: Mapping[str, Result]) -> tuple[str, ...]:
    result = results.get(goal.ours)
    rate = result.rate if result else None
    reached = "" if rate is None else verdict(rate >= goal.reach, rate >= goal.aim)
    return (f"{goal.measure}, per second", "", rate_text(result), "", f"{goal.reach:,}", f"{goal.aim:,}", reached)


def latency_row(goal: Latency, results: Mapping[str, Result]) -> tuple[str, ...]:
    result = results.get(goal.ours)
    reach, aim = (f"{p50} / {p99} ms" for p50, p99 in (goal.reach, goal.aim))
    if result is None or result.median is None:
        return (f"{goal.measure}: p50 / p99", "", "—", "", reach, aim, "")
    p50, p99 = result.median.detail["p50_ms"], result.median.detail["p99_ms"]
    reached, aimed = (p50 <= most[0] and p99 <= most[1] for most in (goal.reach, goal.aim))
    return (f"{goal.measure}: p50 / p99", "", f"{p50:.0f} / {p99:.0f} ms", "", reach, aim, verdict(reached, aimed))


def curve_table(title: str, curve: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in curve[0]:
        table.add_column(heading.replace("_", " "), justify="right")
    for point in curve:
        table.add_row(*(f"{value:,}" for value in point.values()))
    return table


def rate_text(result: Result | None) -> str:
    return "—" if result is None or result.rate is None else f"{result.rate:,.0f}"


def verdict(reached: bool, aimed: bool) -> str:
    return "aim met" if aimed else "reached" if reached else "below"
