"""`headwater doctor FILE`: everything that is wrong with a pipeline, running or not, each with what mends it."""

from __future__ import annotations

import argparse
from typing import Any

from headwater.cli.check import report_findings
from headwater.operate.doctor import diagnose
from headwater.pipeline.definition import read_definition


def add(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "doctor",
        help="what is wrong with a pipeline, from the server to the lake",
        description="Walk server, slots, publication, tables, journal, sinks and Spark; green, yellow or red, with"
        " the command that mends it. Changes nothing. Exit status 2 when something is red, with --strict also when"
        " something is yellow.",
        epilog="example: headwater doctor shop.yaml --strict || page-somebody",
    )
    parser.add_argument("file", metavar="FILE", help="the pipeline's YAML file")
    parser.add_argument("--strict", action="store_true", help="yellow counts as red")
    parser.add_argument("--json", action="store_true", help="findings as JSON")
    parser.set_defaults(verb=doctor)


def doctor(given: argparse.Namespace) -> int:
    """Print the findings of the whole walk."""
    return report_findings(diagnose(read_definition(given.file)), as_json=given.json, strict=given.strict)
