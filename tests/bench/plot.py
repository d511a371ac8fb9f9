"""The rates as a bar chart, written as a small SVG by hand: no plotting library for fourteen rectangles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, ROW, TOP = 820, 270, 110, 30, 64
LIMIT, OTHER = "#8a94a6", "#d98032"
COLOUR = {"limit": LIMIT, "copy": LIMIT, "debezium": OTHER, "debezium-schemas": OTHER, "mysql-replication": OTHER}
COLOUR |= {"mysql-debezium": OTHER, "mysql-debezium-snapshot": OTHER}
OURS = "#1f77b4"
# A rate of transactions seen one at a time is no throughput; a log thrown away unseen would dwarf the others.
LEFT_OUT = ("latency", "many-tables", "upsert-curve", "mysql-limit")


def write_svg(data: Mapping[str, Any], path: Path) -> None:
    bars = [
        (name, contestant)
        for name, contestant in data["contestants"].items()
        if contestant["rate"] and not name.startswith(LEFT_OUT)
    ]
    path.write_text(draw(bars, subtitle(data)), encoding="utf-8")


def subtitle(data: Mapping[str, Any]) -> str:
    machine, workload = data["machine"], data["workload"]
    servers = ", ".join(workload[name]["server"] for name in ("postgres", "mysql") if name in workload)
    return (
        f"{machine['cores']} cores, {machine['cpu']}, {machine['memory_gb']} GB, {servers}, "
        f"{workload['changes']:,} changes, {workload['rows']:,} rows to copy, {machine['date'][:10]}"
    )


def draw(bars: list[tuple[str, Mapping[str, Any]]], below_title: str) -> str:
    height = TOP + ROW * len(bars) + 16
    most = max((bar["rate"] for _, bar in bars), default=1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        '<text x="16" y="26" font-size="17" font-weight="bold">Changes or rows per second</text>',
        f'<text x="16" y="46" font-size="11" fill="#555">{escape(below_title)}</text>',
    ]
    for number, (name, bar) in enumerate(bars):
        y = TOP + ROW * number
        length = max(1, round((WIDTH - LEFT - RIGHT) * bar["rate"] / most))
        parts += [
            f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(bar["title"])}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{length}" height="{ROW - 9}" fill="{COLOUR.get(name, OURS)}"/>',
            f'<text x="{LEFT + length + 6}" y="{y + 15}">{bar["rate"]:,}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"
