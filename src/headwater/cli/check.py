"""`headwater check FILE`: everything that can be wrong before starting, each with what mends it."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from headwater.errors import Usage
from headwater.operate.doctor import failed, sink_findings
from headwater.pipeline.definition import read_definition
from headwater.sources.base import Finding, Severity

MARK = {Severity.OK: ("ok  ", "green"), Severity.WARNING: ("warn", "yellow"), Severity.ERROR: ("FAIL", "red")}


def add(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "check",
        help="what could be wrong before a pipeline starts",
        description="Look at server, role, slot, publication, tables and sinks. Changes nothing."
        " Exit status 2 when something would prevent starting.",
    )
    parser.add_argument("file", metavar="FILE", help="the pipeline's YAML file")
    parser.add_argument("--json", action="store_true", help="findings as JSON")
    parser.set_defaults(verb=check)


def check(given: argparse.Namespace) -> int:
    """Print the findings of source and sinks."""
    definition = read_definition(given.file)
    findings = definition.source.check()
    if not failed(findings):
        findings = [*findings, *sink_findings(definition)]
    return report_findings(findings, as_json=given.json)


def report_findings(findings: list[Finding], *, as_json: bool, strict: bool = False) -> int:
    """Print what was found; the exit status."""
    bad = failed(findings) or (strict and any(finding.severity is Severity.WARNING for finding in findings))
    if as_json:
        print(json.dumps({"ok": not bad, "findings": [asdict(finding) for finding in findings]}))
    else:
        console = Console(highlight=False, soft_wrap=True)
        for finding in findings:
            mark, colour = MARK[finding.severity]
            console.print(Text.assemble((mark, colour), f"  {finding.subject}: {finding.text}"))
            if finding.remedy:
                console.print(Text(f"        {finding.remedy}"))
    return Usage.exit_status if bad else 0
