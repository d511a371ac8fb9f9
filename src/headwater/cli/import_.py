"""`headwater import FILE`: a Kafka Connect registration for Debezium becomes a pipeline file."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from headwater.errors import Usage


def add(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "import",
        help="turn a Debezium registration into a pipeline file",
        description="Read what is posted to Kafka Connect for a Debezium connector and write the pipeline that does the"
        " same. What has no equivalent is listed on stderr and at the file's end; secrets become ${ENV} references.",
        epilog="example: headwater import connector.json -o shop.yaml",
    )
    parser.add_argument("file", metavar="FILE", help="the registration as JSON; - reads from stdin")
    parser.add_argument("-o", "--output", default="", metavar="FILE", help="write the pipeline here (default: stdout)")
    parser.add_argument("--json", action="store_true", help="pipeline and remarks as JSON on stdout")
    parser.set_defaults(verb=import_)


def import_(given: argparse.Namespace) -> int:
    """Write the pipeline, say the rest."""
    from headwater.pipeline.connect_import import import_registration

    try:
        imported = import_registration(read(given.file))
    except Usage as error:
        raise Usage(f"{given.file}: {error.what}", *error.remedies, cause=error.cause) from error
    text = imported.to_yaml()
    if given.output:
        write(given.output, text)
    if given.json:
        facts = {
            "name": imported.name,
            "pipeline": text,
            "file": given.output or None,
            "environment": imported.environment,
            "notes": imported.notes,
            "no_equivalent": imported.no_equivalent,
            "no_effect": imported.no_effect,
        }
        print(json.dumps(facts, ensure_ascii=False))
    elif not given.output:
        print(text, end="")
    if not given.json:
        for title, lines in imported.remarks():
            print("\n".join([title, *(f"  {line}" for line in lines)]), file=sys.stderr)
    return 0


def read(path: str) -> str:
    """The registration's text."""
    if path == "-":
        return sys.stdin.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Usage(f"cannot be read: {error}") from error


def write(path: str, text: str) -> None:
    """A new file: an existing one may have been edited."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise Usage(f"{os.fspath(path)!r} exists", "Name another file with -o, or remove it") from error
    except OSError as error:
        raise Usage(f"cannot write {path!r}: {error.strerror}") from error
