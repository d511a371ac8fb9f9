"""Compares two lists of events whole: topic, key bytes, value, schemas, field order, headers.

What may differ is one short list, each entry with its reason. A field on the list must still be there, in
its place, and of the same kind; only its content is not compared.
"""

from __future__ import annotations

import difflib
import fnmatch
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.testing.debezium import DebeziumEvent


@dataclass(frozen=True)
class Allowed:
    """A place whose content may differ, as a pattern over `value.payload.source.version`-like paths."""

    path: str
    reason: str
    # A pattern over Debezium's text, when the path alone would allow too much.
    theirs: str = "*"


# Where Debezium loses or changes a value, we keep it. Each is shown by a case of the suite.
BETTER = (
    Allowed("value.payload.*.a_time*", "Debezium cuts the elements of time[] to milliseconds"),
    Allowed("value.payload.*.c_name", "Debezium streams every value of the type name as null", theirs="None"),
    Allowed(
        "value.payload.*.c_interval",
        "Debezium saturates an interval beyond 292,000 years",
        theirs="-92233720368547758*",
    ),
    Allowed(
        "value.payload.*.b",
        "Debezium gives null for unchanged TOAST of bytea as base64: no longer told from NULL",
        theirs="None",
    ),
    Allowed("value.schema.*.default", "Debezium takes an expression for the default's value", theirs="(5)::text"),
    Allowed("value.payload.before.d_cast", "the same, standing for what is not there", theirs="(5)::text"),
    Allowed("value.payload.after.c_year", "Debezium streams the year 0000 as 1900", theirs="1900"),
    Allowed(
        "value.payload.after.c_timestamp",
        "Debezium 3.5 streams the timestamp 0000-00-00 as 1970; since 3.6 it is null",
        theirs="1970-01-01T00:00:00Z",
    ),
    *(
        Allowed(f"value.payload.after.{column}", "Debezium lets nanoseconds run over", theirs=wrapped)
        for column, wrapped in (("c_datetime", "6283264147419103232"), ("c_datetime1", "-4852116232033722624"))
    ),
    Allowed(
        "value.schema.*.default",
        "Debezium cuts the default of a bigint unsigned; values wrap",
        theirs="9223372036854775807",
    ),
    *(
        Allowed("value.payload.after.doc", f"JSON in the server's words: Debezium {what}", theirs=text)
        for what, text in (
            ("has spaces in a snapshot and none in the stream", '{"a": *'),
            ("writes 1e100 with all its digits", "*10000000000000000159028911097599180468360808563945281389781327557*"),
            ("leaves out the type of a binary value and zeros of a time", '*"bin":"YWI="*'),
        )
    ),
    Allowed("value.schema.*.default", "Debezium leaves quotes in a default doubled", theirs="it''s *"),
    Allowed("value.schema.*.default", "Debezium reads \\0 in a binary default as two letters", theirs="YWJcMA=="),
    *(
        Allowed(f"value.payload.after.c_{kind}", "Debezium has its driver's spelling of the numbers inside")
        for kind in ("line", "lseg", "path", "circle", "box", "polygon")
    ),
)
# Both sides read the same transactions of the same server.
LIVE = (
    Allowed("value.payload.source.version", "every product states its own version"),
    Allowed("value.payload.ts_?s", "when the event was built, not when the row changed"),
    Allowed("value.payload.__made", "the same, as a flat event has it"),
    Allowed("header.__debezium.context.runId", "a new identifier for every run"),
)
# Snapshots belong to a slot, and each side has its own; rows of a snapshot additionally differ in these.
LIVE_SNAPSHOT = (
    Allowed("value.payload.source.ts_?s", "when that side's snapshot read the table"),
    Allowed("value.payload.source.lsn", "where that side's slot begins"),
    Allowed("value.payload.source.txId", "the transaction that side's snapshot saw last"),
    Allowed("value.payload.source.sequence", "made of the LSN above"),
    Allowed("value.payload.__lsn", "the same, as a flat event has it"),
    Allowed("value.payload.__source_ts_ms", "the same, as a flat event has it"),
)
# A message outside of transactions has no commit time.
LOOSE_MESSAGE = (
    Allowed("value.payload.source.ts_?s", "Debezium has the time of the last commit, we when the server sent it"),
)
# What a binlog says of a transaction and of the event that holds the row.
BINLOG = ("ts_?s", "server_id", "gtid", "file", "pos", "thread")
# What a statement says of its own time.
TRUNCATE = (Allowed("value.payload.source.ts_[un]s", "Debezium has milliseconds, we the microseconds of the commit"),)
# A recording was made on another server at another time.
RECORDED = (
    *LIVE,
    *LIVE_SNAPSHOT,
    Allowed("value.payload.transaction.id", "made of transaction id and LSN"),
    Allowed("*.payload.id", "on the transaction topic: made of transaction id and LSN"),
    Allowed(
        "value.payload.data_collections*.data_collection",
        "Debezium names messages by a Java object's address, another one in every run",
        theirs="*LogicalDecodingMessageId@*",
    ),
    *(Allowed(f"value.payload.source.{place}", "where it stands in that server's log") for place in BINLOG),
)


def differences(
    theirs: Sequence[DebeziumEvent], ours: Sequence[DebeziumEvent], allowed: Iterable[Allowed] = LIVE
) -> list[str]:
    """Every difference as one line; empty when the two are equal but for what is allowed."""
    allowed = tuple(allowed)
    found = []
    for number, (their, our) in enumerate(aligned(theirs, ours)):
        if their is None or our is None:
            found.append(f"event {number}: only {_describe(our, 'Headwater') or _describe(their, 'Debezium')}")
        else:
            place = f"event {number} ({their.topic} {_payload(their.key)})"
            found += [f"{place}: {line}" for line in event_differences(their, our, allowed)]
    return found


def aligned(
    theirs: Sequence[DebeziumEvent], ours: Sequence[DebeziumEvent]
) -> Iterator[tuple[DebeziumEvent | None, DebeziumEvent | None]]:
    """Pairs that speak of the same thing, so that one missing event does not make all later ones differ."""
    left, right = ([_identity(event) for event in events] for events in (theirs, ours))
    for kind, a, b, c, d in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if (kind == "replace" and b - a == d - c) or kind == "equal":
            yield from zip(theirs[a:b], ours[c:d], strict=True)
        else:
            yield from ((their, None) for their in theirs[a:b])
            yield from ((None, our) for our in ours[c:d])


def _identity(event: DebeziumEvent) -> tuple[str, str, str]:
    op = _fields(event).get("op", "")
    # Keys of the transaction topic are made of addresses; their order is enough.
    return event.topic, "" if event.topic.endswith(".transaction") else _payload(event.key), op


def _payload(text: str | None) -> str:
    key = _parse(text)
    return json.dumps(key.get("payload", key) if isinstance(key, dict) else key, ensure_ascii=False)


def _describe(event: DebeziumEvent | None, who: str) -> str:
    return "" if event is None else f"{who} has {event.topic} {_payload(event.key)} {(event.value or 'null')[-300:]}"


def event_differences(their: DebeziumEvent, our: DebeziumEvent, allowed: Sequence[Allowed]) -> Iterator[str]:
    """Differences of one event, key first: a wrong key makes the rest meaningless to a consumer."""
    if _is_snapshot(their):
        allowed = (*allowed, *LIVE_SNAPSHOT)
    if their.topic.endswith(".message") and _source(their).get("txId") is None:
        allowed = (*allowed, *LOOSE_MESSAGE)
    if _fields(their).get("op") == "t":
        allowed = (*allowed, *TRUNCATE)
    if their.topic != our.topic:
        yield f"topic: {their.topic!r} ≠ {our.topic!r}"
    about_transaction = their.topic.endswith(".transaction")
    if their.key != our.key and not (about_transaction and _allows(allowed, "key.payload.id", their.key)):
        yield f"key bytes: {their.key} ≠ {our.key}"
    if [name for name, _ in their.headers] != [name for name, _ in our.headers]:
        yield f"header names: {[name for name, _ in their.headers]} ≠ {[name for name, _ in our.headers]}"
    yield from _differ("value", _parse(their.value), _parse(our.value), allowed)
    for (name, their_text), (_, our_text) in zip(their.headers, our.headers, strict=False):
        yield from _differ(f"header.{name}", _parse(their_text), _parse(our_text), allowed)


def _differ(path: str, their: Any, our: Any, allowed: Sequence[Allowed]) -> Iterator[str]:
    match their, our:
        case dict(), dict():
            if list(their) != list(our):
                yield f"{path}: fields {list(their)} ≠ {list(our)}"
            for name in their.keys() & our.keys():
                yield from _differ(_inside(path, name), their[name], our[name], allowed)
        case list(), list() if len(their) == len(our):
            if path.endswith(".data_collections"):
                # Debezium lists tables as a Java hash map does.
                their, our = (sorted(each, key=lambda entry: str(entry["data_collection"])) for each in (their, our))
            for number, (left, right) in enumerate(zip(their, our, strict=True)):
                yield from _differ(f"{path}[{number}]", left, right, allowed)
        case _:
            if their == our and type(their) is type(our):
                return
            if type(their) is type(our) and _allows(allowed, path, their):
                return
            if _allows(BETTER, path, their):
                return
            yield f"{path}: {_short(their)} ≠ {_short(our)}"


def _inside(path: str, name: str) -> str:
    """`value` without a schema counts as its payload, so that one list of paths serves both forms."""
    if path == "value" and name not in ("schema", "payload"):
        return f"value.payload.{name}"
    if path.startswith("header.") and name == "payload":
        return path
    return f"{path}.{name}"


def _allows(allowed: Iterable[Allowed], path: str, their: object) -> bool:
    return any(
        fnmatch.fnmatchcase(path, entry.path) and fnmatch.fnmatchcase(str(their), entry.theirs) for entry in allowed
    )


def _is_snapshot(event: DebeziumEvent) -> bool:
    # A flat event says it by its operation.
    return _source(event).get("snapshot") not in ("false", None) or _fields(event).get("__op") == "r"


def _source(event: DebeziumEvent) -> dict[str, Any]:
    return _fields(event).get("source") or {}


def _fields(event: DebeziumEvent) -> dict[str, Any]:
    """The payload, when it is an object: a flat event's may be null, a routed one's a text."""
    value = _parse(event.value)
    payload = value.get("payload", value) if isinstance(value, dict) else None
    return payload if isinstance(payload, dict) else {}


def _parse(text: str | None) -> Any:
    """JSON with floats kept as the text they were written with: 4.0 is not 4, 1.0E21 is not 1e21."""
    return None if text is None else json.loads(text, parse_float=lambda digits: ("float", digits))


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:197] + "…"
