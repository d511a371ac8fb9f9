"""Metrics carry any name; an alarm is told when it begins and when it is over, and only then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.errors import Usage
from headwater.operate.alarms import Alarms
from headwater.operate.metrics import prometheus_text
from headwater.operate.status import Report, SinkLag, SourceLag, TableLag
from headwater.options import Secret
from headwater.pipeline.definition import AlarmOptions

SOURCE = SourceLag("reading", "0/2", "0/1", 0, 0.0, 5, 100, 1000, None, "")
SINK = SinkLag("delta", "0/1", 0, 0, 0.0, 5, 1, 0.5, 0.1, 0.2, 0, "", (TableLag('a"b\n.t', 5, 0, 0, 0.0),))
REPORT = Report("shop", True, 1, "streaming", True, (), "", 0, 9.0, "", SOURCE, (SINK,), True)


def test_names_are_escaped_and_unknown_numbers_left_out():
    text = prometheus_text(REPORT)

    assert 'headwater_table_changes_total{pipeline="shop",sink="delta",table="a\\"b\\n.t"} 5\n' in text
    assert 'headwater_source_retained_bytes{pipeline="shop"} 1000\n' in text
    assert "headwater_source_safe_bytes" not in text
    assert 'headwater_sink_latency_seconds{pipeline="shop",sink="delta",quantile="0.99"} 0.2\n' in text


def test_an_alarm_is_told_once_at_each_end():
    told: list[str] = []
    alarms = Alarms("shop", AlarmOptions(behind_bytes=10, not_ready_seconds=None), told.append)
    late = replace(REPORT, sinks=(replace(SINK, behind_bytes=11),))

    for report in (REPORT, late, late, REPORT, REPORT):
        alarms.look(report)

    assert [line.split(":")[0] for line in told] == ["alarm raised", "alarm over"]
    assert "sink_behind_bytes:delta" in told[0]


def test_a_pipeline_that_is_not_ready_raises_an_alarm_with_its_reasons():
    told: list[str] = []
    alarms = Alarms("shop", AlarmOptions(not_ready_seconds=0), told.append)

    alarms.look(replace(REPORT, ready=False, reasons=("the tail is dead",)))

    assert told == ["alarm raised: not_ready: the tail is dead"]


def test_a_webhook_is_an_http_url_and_stays_unseen():
    with pytest.raises(Usage, match="http") as caught:
        AlarmOptions(webhook=Secret("file:///etc/t0ken"))
    assert "t0ken" not in str(caught.value)


@pytest.mark.parametrize(
    ("limit", "left", "raised"), [(None, 30.0, False), (None, 24.0, True), (10.0, 24.0, False), (50.0, 49.0, True)]
)
def test_the_purge_of_a_log_that_is_kept_by_time_is_told_before_it_comes(
    limit: float | None, left: float, raised: bool
):
    source = replace(SOURCE, by_time=True, kept_seconds=100.0, safe_seconds=left)
    alarms = Alarms("shop", AlarmOptions(safe_seconds=limit), lambda _line: None)

    assert [alarm.name for alarm in alarms.look(replace(REPORT, source=source))] == ["safe_seconds"] * raised
    assert f'headwater_source_safe_seconds{{pipeline="shop"}} {left:g}' in prometheus_text(
        replace(REPORT, source=source)
    )
