"""`headwater tail URL`: print events as they are committed. No Spark, no JVM, no slot left behind."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any
from uuid import uuid4

from headwater.errors import Usage
from headwater.event import ChangeBatch, Chunk, TableSchema
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.settings import settle
from headwater.options import parse_options, split_options
from headwater.registry import source_for_url
from headwater.sources.base import Log, Source
from headwater.transforms.connect_form import take_connect

FORMATS = ("debezium-json", "flat")


def add(verbs: Any) -> None:
    """Register the verb."""
    parser = verbs.add_parser(
        "tail",
        help="print events as they are committed (no Spark)",
        description="Print every change committed from now on, one JSON line each, until Ctrl-C. Uses a slot and a"
        " publication of its own and removes them at the end; --slot reads from one that exists instead.",
        epilog="example: headwater tail postgresql://cdc@127.0.0.1/shop --table 'public.*' --format flat",
    )
    parser.add_argument("url", metavar="URL", help="postgresql://user@host:port/database")
    parser.add_argument("--table", action="append", default=[], metavar="T", help="schema.table pattern; may repeat")
    parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], help="how events look (default: %(default)s)")
    parser.add_argument("--slot", default="", help="read from this slot and confirm what was printed")
    parser.add_argument("--publication", default="", help="read this publication; it must exist")
    parser.add_argument("--limit", type=int, default=0, metavar="N", help="stop after N events")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="K=V",
        help="any source or Debezium option, e.g. topic.prefix=shop",
    )
    parser.set_defaults(verb=tail)


def tail(given: argparse.Namespace) -> int:
    """Until Ctrl-C, SIGTERM or the limit."""
    cls = source_for_url(given.url)
    options: dict[str, Any] = {"url": given.url}
    for pair in given.option:
        key, equals, value = pair.partition("=")
        if not equals:
            raise Usage(f"--option {pair!r}: write it as key=value")
        options[key] = value
    if given.table:
        options["tables"] = given.table
    if given.publication:
        options |= {"publication": given.publication, "publication_autocreate": "disabled"}
    if given.slot:
        options["slot"] = given.slot
    sections, options = take_connect(options, "tail")
    settled = settle(options, cls.options_class, DebeziumOptions)
    settled.say("tail")
    rest, debezium = split_options(settled.options, cls.options_class, DebeziumOptions, where="tail")
    name = f"tail_{uuid4().hex[:8]}"
    source = cls(parse_options(cls.options_class, rest, where="tail", name=name))
    form = parse_options(DebeziumOptions, debezium, where="tail", name="headwater")
    encode = encoder(source, given.format, form, sections)
    # As Ctrl-C: clean up on the server, then end.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    log = source.listen(temporary=not given.slot)
    print(f"listening on {', '.join(given.table) or 'all tables'}; Ctrl-C ends", file=sys.stderr, flush=True)
    try:
        print_events(log, encode, given.limit, confirm=bool(given.slot), beat=heartbeat(source, given.format, form))
    except KeyboardInterrupt:
        pass
    finally:
        log.close()
        source.close()
    return 0


def heartbeat(source: Source, form: str, options: DebeziumOptions) -> Callable[[], Iterator[str]]:
    """A function that gives the line of a heartbeat when it is time for one (`heartbeat.interval.ms`)."""
    from headwater.formats.debezium_records import heartbeat_record

    interval = source.options.heartbeat_interval_ms / 1000 if form != "flat" else 0
    last = time.monotonic()

    def due() -> Iterator[str]:
        nonlocal last
        if interval and time.monotonic() - last >= interval:
            last = time.monotonic()
            yield heartbeat_record(options, time.time_ns() // 1_000_000).value

    return due


def print_events(
    log: Log, encode: Any, limit: int, *, confirm: bool, beat: Callable[[], Iterator[str]] = lambda: iter(())
) -> None:
    """Chunk by chunk; a chunk is confirmed when its lines have left this process."""
    left = limit or sys.maxsize
    while left > 0:
        chunk = log.read(0.2)
        for text in chain(encode(log, chunk) if chunk is not None else (), beat()):
            sys.stdout.write(text + "\n")
            left -= 1
            if not left:
                break
        sys.stdout.flush()
        if confirm and chunk is not None and chunk.whole and left:
            log.confirm(chunk.last)


def encoder(source: Source, form: str, options: DebeziumOptions, sections: Sequence[Any] = ()) -> Any:
    """A function (log, chunk) → lines in log order."""
    # Here, not above: the kernels take a moment to load, and `--help` should not wait for them.
    from headwater.transforms.reading import reader_chain
    from headwater.transforms.stream import EventStream

    transforms = reader_chain(sections, options, rows=form == "flat")
    stream = EventStream(options, source.connector(source.facts()), transforms)

    def schemas(log: Log, chunk: Chunk) -> dict[str, TableSchema]:
        return {run.schema: log.schema(run.schema) for run in chunk.tables}

    def events(log: Log, chunk: Chunk) -> Iterator[str]:
        # A tombstone has no value and is left out.
        decoded = source.decode_events(chunk, schemas(log, chunk))
        values = stream.events(decoded, time.time_ns()).column("value")
        return (value for value in values.to_pylist() if value is not None)

    def lines(log: Log, chunk: Chunk) -> Iterator[str]:
        decoded = source.decode(chunk, schemas(log, chunk))
        return flat_lines(transforms.apply_all([batch for batch in decoded if not batch.table.message]))

    return lines if form == "flat" else events


def flat_lines(batches: Sequence[ChangeBatch]) -> Iterator[str]:
    """Rows of several tables in log order."""
    from headwater.formats.flat import Flat

    flat = Flat()
    keyed: list[tuple[int, int, str]] = []
    for batch in batches:
        positions = (batch.records.column(name).to_pylist() for name in ("commit", "ordinal"))
        keyed.extend(zip(*positions, flat.json_lines(batch).to_pylist(), strict=True))
    keyed.sort(key=lambda entry: entry[:2])
    return (line for *_, line in keyed)
