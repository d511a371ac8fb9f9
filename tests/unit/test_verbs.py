"""Errors tell people what to run next: that must be there to be run."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from headwater.cli import VERBS

SRC = Path(__file__).parents[2] / "src" / "headwater"
# In a text for people: `headwater VERB FILE`, or `headwater VERB` at its end or in quotes.
NAMED = re.compile(
    r"headwater ([a-z][a-z-]+)(?= (?:FILE|URL|[A-Za-z]+\.yaml|NAME|list|drop|create|advance|retry)|[,`\"')])"
)


def test_every_verb_that_a_text_names_is_there() -> None:
    verbs = argparse.ArgumentParser().add_subparsers()
    for verb in VERBS:
        verb.add(verbs)

    named = {
        (found, path.name) for path in SRC.rglob("*.py") for found in NAMED.findall(path.read_text(encoding="utf-8"))
    }

    assert len(named) > 10
    assert {(verb, where) for verb, where in named if verb not in verbs.choices} == set()
