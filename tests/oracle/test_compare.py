"""The comparison itself: it must see what a consumer would see."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from headwater.testing.debezium import DebeziumEvent

from .cases import CASES, GOLDEN
from .compare import LIVE, RECORDED, differences
from .mysql_cases import MARIADB_CASES, MYSQL_CASES
from .recording import load, split_schema
from .transform_cases import TRANSFORM_CASES

EVENTS = load(GOLDEN / "operations.defaults.json").events
UPDATE = next(event for event in EVENTS if event.topic == "srv.public.plain" and '"op":"u"' in str(event.value))


def altered(change: Callable[[str], str]) -> DebeziumEvent:
    changed = dataclasses.replace(UPDATE, value=change(str(UPDATE.value)))
    assert changed != UPDATE
    return changed


def test_every_case_has_its_recording() -> None:
    assert [
        case.id for case in (*CASES, *TRANSFORM_CASES, *MARIADB_CASES, *MYSQL_CASES) if not case.golden.exists()
    ] == []


def test_events_equal_themselves() -> None:
    assert differences(EVENTS, EVENTS) == []


def test_a_recorded_text_is_joined_again_byte_for_byte() -> None:
    schema, payload = split_schema(str(UPDATE.value))
    assert UPDATE.value == f'{{"schema":{schema},"payload":{payload}}}'


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"name":"deux"', '"name":"zwei"'),
        lambda text: text.replace('"before":null,', "").replace(',"op":"u"', ',"before":null,"op":"u"'),
        lambda text: text.replace('"optional":true,"field":"name"', '"optional":false,"field":"name"'),
        lambda text: text.replace('"lsn":', '"lsn":1'),
        lambda text: text.replace('"amount":"ANw="', '"amount":2.2'),
        lambda text: text.replace('"snapshot":"false"', '"snapshot":null'),
    ],
    ids=["a value", "field order", "a schema", "a log position", "a type", "a null"],
)
def test_a_difference_is_seen_in(change: Callable[[str], str]) -> None:
    assert differences([UPDATE], [altered(change)], LIVE)


def test_key_bytes_are_compared_as_text() -> None:
    spaced = dataclasses.replace(UPDATE, key=str(UPDATE.key).replace('"payload":{', '"payload": {'))
    assert "key bytes" in differences([UPDATE], [spaced])[0]


def test_a_missing_event_is_seen() -> None:
    assert "only Debezium has" in differences(EVENTS, EVENTS[:-1])[0]


def test_another_version_is_allowed_but_not_its_absence() -> None:
    assert differences([UPDATE], [altered(lambda text: text.replace('"version":"3.6', '"version":"0.1'))]) == []
    assert differences([UPDATE], [altered(lambda text: text.replace('"version":"3.6.3.Final",', ""))])


def test_a_recording_does_not_bind_log_positions() -> None:
    assert differences([UPDATE], [altered(lambda text: text.replace('"lsn":', '"lsn":1'))], RECORDED) == []
