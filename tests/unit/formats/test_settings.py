"""Settings of old and settings without effect: mapped or named, never taken silently."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from headwater.errors import Usage
from headwater.formats.debezium_options import DebeziumOptions
from headwater.formats.settings import settle
from headwater.pipeline.definition import build_definition, interpolate
from headwater.sources.postgres.options import PostgresOptions


def settled(**given: Any) -> Any:
    return settle(given, PostgresOptions, DebeziumOptions)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"snapshot.mode": "never"}, {"snapshot.mode": "no_data"}),
        ({"snapshot.mode": "schema_only"}, {"snapshot.mode": "no_data"}),
        ({"snapshot.mode": "initial_only"}, {"snapshot.mode": "initial"}),
        ({"table.whitelist": "a.b"}, {"table.include.list": "a.b"}),
        ({"database.server.name": "x"}, {"topic.prefix": "x"}),
        ({"flush.lsn.source": "true"}, {"lsn.flush.mode": "connector"}),
        ({"flush.lsn.source": False}, {"lsn.flush.mode": "manual"}),
        ({"internal.slot.seek.to.known.offset.on.start": "true"}, {"offset.mismatch.strategy": "trust_offset"}),
        ({"internal.slot.seek.to.known.offset.on.start": "false"}, {"offset.mismatch.strategy": "no_validation"}),
    ],
)
def test_deprecated_settings_are_mapped_with_a_word(given: dict[str, Any], options: dict[str, Any]) -> None:
    found = settled(**given)
    assert found.options == options
    assert len(found.mapped) == 1


@pytest.mark.parametrize("name", ["connector.class", "tasks.max", "lsn.flush.timeout.ms"])
def test_settings_without_effect_are_named(name: str, caplog: pytest.LogCaptureFixture) -> None:
    found = settled(**{name: "true"})
    assert (found.options, list(found.no_effect)) == ({}, [name])
    with caplog.at_level(logging.WARNING):
        found.say("source")
    assert f"source: {name} has no effect" in caplog.text


def test_a_setting_that_is_current_is_not_touched() -> None:
    found = settled(**{"snapshot.mode": "initial", "decimal.handling.mode": "string"})
    assert (found.mapped, found.no_effect) == ([], {})


def test_keys_and_values_are_converted_alike_or_refused() -> None:
    both = {"key.converter.schemas.enable": "true", "value.converter.schemas.enable": "true"}
    assert settled(**both).options == {"value.converter.schemas.enable": "true"}
    with pytest.raises(Usage, match="differ"):
        settled(**{**both, "key.converter.schemas.enable": "false"})


def test_an_old_name_beside_the_new_one_is_refused() -> None:
    with pytest.raises(Usage, match="keep one"):
        settled(**{"table.whitelist": "a.b", "table.include.list": "c.d"})


def pipeline(**more: Any) -> dict[str, Any]:
    source = {"type": "postgres", "url": "postgresql://cdc@127.0.0.1:1/none"}
    return {"name": "shop", "source": source, "sinks": [{"type": "delta", "path": "lake"}], **more}


def test_a_pipeline_names_the_nearest_option_of_debezium() -> None:
    given = pipeline()
    given["source"]["decimal.handling.mod"] = "string"
    with pytest.raises(Usage, match=r"decimal\.handling\.mode"):
        build_definition(given)


def test_a_sink_of_rows_refuses_transforms_of_events() -> None:
    with pytest.raises(Usage, match="'flatten' cannot apply"):
        build_definition(pipeline(transforms=[{"type": "flatten"}]))


def test_an_escaped_reference_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALT", "pepper")
    given = {"salt.${SALT}": "${SALT}", "topic": "$${route}.$1"}
    assert interpolate(given) == {"salt.pepper": "pepper", "topic": "${route}.$1"}
