"""What is wrong with a pipeline, from the server to the lake: findings, each with what mends it. Changes nothing."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from headwater.dead_letters import DeadLetters
from headwater.errors import HeadwaterError
from headwater.event import TableSchema
from headwater.journal import Journal, JournalReader
from headwater.journal.file_writer import SPARE_BYTES
from headwater.operate.status import Report, near_cliff, read_report
from headwater.pipeline.definition import Definition
from headwater.sources.base import Finding, Severity
from headwater.wording import duration_text

_OK, _WARNING, _ERROR = Severity.OK, Severity.WARNING, Severity.ERROR
OLDEST_JAVA = 17


def diagnose(definition: Definition) -> list[Finding]:
    """The walk: server, slot, publication, tables, state and journal, sinks, Spark."""
    report = read_report(definition)
    return [
        *definition.source.examine(running=report.running),
        *run_findings(report),
        *journal_findings(definition),
        *sink_findings(definition),
        *spark(),
    ]


def failed(findings: list[Finding]) -> bool:
    """Whether something is red."""
    return any(finding.severity is _ERROR for finding in findings)


def run_findings(report: Report) -> Iterator[Finding]:
    """What the pipeline says of itself, running or not."""
    if report.running:
        if report.ready:
            yield Finding("pipeline", _OK, f"runs as process {report.pid}: {report.phase}")
        for reason in report.reasons:
            yield Finding("pipeline", _ERROR, reason, "See: headwater status FILE")
    elif report.error:
        what, *rest = report.error.split("\n")
        yield Finding("pipeline", _ERROR, f"stopped: {what}", "; ".join(line.strip() for line in rest))
    else:
        yield Finding("pipeline", _OK, "does not run")
    source = report.source
    if source.safe_seconds is not None and source.kept_seconds is not None:
        left = duration_text(max(0.0, source.safe_seconds))
        text = f"what we have not read is kept for {left} more (of {duration_text(source.kept_seconds)})"
        lost = source.safe_seconds <= 0
        severity = _ERROR if lost else _WARNING if near_cliff(source) else _OK
        remedy = (
            "" if severity is _OK else "Start the pipeline, or let it catch up; or let the server keep its log longer"
        )
        yield Finding("retention", severity, text, remedy)


def journal_findings(definition: Definition) -> Iterator[Finding]:
    """The state folder: readable, ours, whole, with room left."""
    subject, journal = "journal", Journal(definition.journal)
    try:
        about = journal.about()
        if about is None:
            yield Finding(subject, _OK, "will be created")
            return
        journal.consumer_positions()
        reader = JournalReader(journal)
        reader.refresh()
    except HeadwaterError as error:
        yield Finding(subject, _ERROR, error.what, "; ".join(error.remedies))
        return
    size, free = journal.storage.size(), journal.storage.free()
    yield Finding(subject, _OK, f"{size >> 20} MB of at most {definition.limits.max_bytes >> 20} MB, {journal.place}")
    if size > 0.8 * definition.limits.max_bytes:
        text = "more than 80 % of its cap is used: a sink is behind; at the cap the server has to keep the rest"
        yield Finding(subject, _WARNING, text, "See the sinks' lag (headwater status), or raise journal_max_bytes")
    if free is None:
        return
    if free < SPARE_BYTES:
        text = f"its disk has {free >> 20} MB left: the tail waits, and the server keeps the rest"
        yield Finding(subject, _ERROR, text, f"Free some of the disk of {journal.place}")
    elif free < 4 * SPARE_BYTES:
        yield Finding(
            subject, _WARNING, f"its disk has {free >> 20} MB left", f"Free some of the disk of {journal.place}"
        )


def sink_findings(definition: Definition) -> Iterator[Finding]:
    """The sinks' own findings over the tables that would be captured, and whether they know where they are."""
    try:
        tables: list[TableSchema] = definition.source.candidates()
    except HeadwaterError as error:
        yield Finding("tables", _ERROR, error.what, "; ".join(error.remedies))
        return
    for name, sink in definition.sinks.items():
        try:
            yield from sink.check(tables)
            position = sink.seen_position()
        except HeadwaterError as error:
            yield Finding(f"sink {name}", _ERROR, error.what, "; ".join(error.remedies))
            continue
        said = "holds nothing yet" if position is None else f"holds everything up to {position.resume or position}"
        yield Finding(f"sink {name}", _OK, said)
        if letters := DeadLetters(definition.state, name).count():
            text = f"{letters:,} changes were refused, or wait behind one that was"
            yield Finding(f"sink {name}", _WARNING, text, "See: headwater dead-letters list FILE")


def spark() -> Iterator[Finding]:
    """Java and PySpark, without starting them."""
    try:
        yield Finding("spark", _OK, f"PySpark {version('pyspark')}")
    except PackageNotFoundError:
        if importlib.util.find_spec("pyspark") is None:
            yield Finding("spark", _ERROR, "PySpark is not installed", "pip install 'headwater[spark]'")
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    remedy = f"Install Java {OLDEST_JAVA} or newer, and let JAVA_HOME point at it"
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        yield Finding("java", _ERROR, f"{java} cannot be run", remedy)
        return
    major = re.search(r'version "(\d+)', said)
    if major is None or int(major[1]) < OLDEST_JAVA:
        yield Finding("java", _ERROR, f"{java} is {major[1] if major else 'of an unknown version'}", remedy)
    else:
        yield Finding("java", _OK, f"Java {major[1]}")
