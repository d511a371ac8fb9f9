"""A report as Prometheus text. Every metric's name stands here, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.operate.status import Report

# name → (type, help). Labels: sink, table.
METRICS = {
    "headwater_up": ("gauge", "1 while the pipeline's process works"),
    "headwater_ready": ("gauge", "1 while data flows: the tail reads and every sink goes on"),
    "headwater_uptime_seconds": ("gauge", "since the run began"),
    "headwater_source_behind_bytes": ("gauge", "log that the server has written and the tail has not read"),
    "headwater_source_behind_seconds": ("gauge", "age of the last commit that was read, while behind"),
    "headwater_source_changes_total": ("counter", "changes read from the log by this tail"),
    "headwater_source_retained_bytes": ("gauge", "log that the server keeps for this pipeline"),
    "headwater_source_safe_bytes": ("gauge", "log that may be written before what is kept gets lost"),
    "headwater_source_safe_seconds": ("gauge", "time until log that is kept by time, and not read, gets lost"),
    "headwater_journal_bytes": ("gauge", "size of the journal"),
    "headwater_sink_behind_bytes": ("gauge", "journal that the sink does not hold durably yet"),
    "headwater_sink_behind_changes": ("gauge", "changes in it"),
    "headwater_sink_behind_seconds": ("gauge", "age of the oldest commit in it"),
    "headwater_sink_changes_total": ("counter", "changes made durable in the sink by this run"),
    "headwater_sink_batches_total": ("counter", "batches made durable in the sink by this run"),
    "headwater_sink_errors_total": ("counter", "attempts at a batch that failed"),
    "headwater_sink_changes_per_second": ("gauge", "throughput over the last seconds"),
    "headwater_sink_latency_seconds": ("gauge", "from commit to durable in the sink, by quantile"),
    "headwater_sink_dead_letters": ("gauge", "changes that the sink refused and that wait for a person"),
    "headwater_table_stopped": ("gauge", "1 while the table stands still and the others go on"),
    "headwater_table_changes_total": ("counter", "changes of a table made durable in the sink by this run"),
    "headwater_table_behind_changes": ("gauge", "changes of a table that the sink does not hold yet"),
    "headwater_table_behind_seconds": ("gauge", "age of the oldest of them"),
}

Sample = tuple[str, dict[str, str], float]


def prometheus_text(report: Report) -> str:
    """The exposition format, version 0.0.4."""
    by_name: dict[str, list[str]] = {name: [] for name in METRICS}
    for name, labels, value in samples(report):
        pairs = {"pipeline": report.pipeline, **labels}
        shown = ",".join(f'{key}="{_escape(text)}"' for key, text in pairs.items())
        by_name[name].append(f"{name}{{{shown}}} {float(value)!r}" if value % 1 else f"{name}{{{shown}}} {value:.0f}")
    lines: list[str] = []
    for name, found in by_name.items():
        if found:
            kind, text = METRICS[name]
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *found]
    return "\n".join(lines) + "\n"


def samples(report: Report) -> Iterator[Sample]:
    """Every number of a report."""
    source = report.source
    yield "headwater_up", {}, report.alive
    yield "headwater_ready", {}, report.ready
    yield "headwater_uptime_seconds", {}, report.uptime_seconds
    yield "headwater_source_behind_bytes", {}, source.behind_bytes
    yield "headwater_source_behind_seconds", {}, source.behind_seconds
    yield "headwater_source_changes_total", {}, source.changes
    if source.retained_bytes is not None:
        yield "headwater_source_retained_bytes", {}, source.retained_bytes
    if source.safe_bytes is not None:
        yield "headwater_source_safe_bytes", {}, source.safe_bytes
    if source.safe_seconds is not None:
        yield "headwater_source_safe_seconds", {}, source.safe_seconds
    yield "headwater_journal_bytes", {}, source.journal_bytes
    for sink in report.sinks:
        labels = {"sink": sink.sink}
        yield "headwater_sink_behind_bytes", labels, sink.behind_bytes
        yield "headwater_sink_behind_changes", labels, sink.behind_changes
        yield "headwater_sink_behind_seconds", labels, sink.behind_seconds
        yield "headwater_sink_changes_total", labels, sink.changes
        yield "headwater_sink_batches_total", labels, sink.batches
        yield "headwater_sink_errors_total", labels, sink.errors
        yield "headwater_sink_changes_per_second", labels, sink.changes_per_second
        yield "headwater_sink_latency_seconds", {**labels, "quantile": "0.5"}, sink.latency_p50_seconds
        yield "headwater_sink_latency_seconds", {**labels, "quantile": "0.99"}, sink.latency_p99_seconds
        yield "headwater_sink_dead_letters", labels, sink.dead_letters
        for table in sink.tables:
            labels = {"sink": sink.sink, "table": table.table}
            yield "headwater_table_stopped", labels, bool(table.stopped)
            yield "headwater_table_changes_total", labels, table.changes
            yield "headwater_table_behind_changes", labels, table.behind_changes
            yield "headwater_table_behind_seconds", labels, table.behind_seconds


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
