"""The command line: one file per verb; this one finds the verb and turns errors into exit statuses."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from headwater import __version__
from headwater.cli import (
    check,
    dead_letters,
    demo,
    doctor,
    import_,
    plan,
    replay,
    run,
    slots,
    snapshot,
    status,
    tail,
    verify,
)
from headwater.errors import HeadwaterError

VERBS = (run, status, tail, check, plan, doctor, slots, verify, snapshot, replay, dead_letters, import_, demo)

EPILOG = """\
exit status: 0 done, 2 usage or configuration, 3 stopped because going on would lose or corrupt data,
1 anything else
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """`headwater VERB …`"""
    parser = argparse.ArgumentParser(
        prog="headwater",
        description="Log-based change data capture, native to Spark.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"headwater {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for verb in VERBS:
        verb.add(verbs)
    given = parser.parse_args(arguments)
    try:
        return int(given.verb(given))
    except HeadwaterError as error:
        print(f"headwater: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # `headwater tail … | head`: the reader has seen enough.
        sys.stderr.close()
        return 0
